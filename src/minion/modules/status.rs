//! `status`: how the host is doing.

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, Fault, python};
use crate::map;
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const TIME: &str = "%A, %d. %B %Y %I:%M%p";

pub(super) const MODULE: Module = Module {
    name: "status",
    functions: &[
        Function::new(
            "uptime",
            uptime,
            "How long the host has been up, and how many users are logged in.",
        ),
        Function::new(
            "loadavg",
            loadavg,
            "The load averages of the last one, five and fifteen minutes.",
        ),
        Function::new("time", time, "The local time in a strftime format.")
            .inner("time_")
            .args(&[opt("format", Lit::Str(TIME))]),
        Function::new(
            "ping_master",
            ping_master,
            "Whether a master answers at an address: a ZeroMQ peer greets on its request port.",
        )
        .args(&[req("master")]),
        Function::new(
            "nproc",
            |_| {
                Ok(std::thread::available_parallelism()
                    .map_or(1, |n| n.get())
                    .into())
            },
            "The number of processors that can be used.",
        ),
    ],
};

fn read(path: &str) -> std::result::Result<String, Fault> {
    std::fs::read_to_string(path).map_err(|_| Fault::Command(format!("File {path} was not found.")))
}

fn uptime(_: &mut Call<'_>) -> Result {
    let text = read("/proc/uptime")?;
    let seconds = text.split(['.', ' ']).next().unwrap_or_default();
    let seconds: i64 = seconds.parse().unwrap_or(0);
    let now = jiff::Timestamp::now().as_microsecond();
    let since = jiff::Timestamp::from_microsecond(now - seconds * 1_000_000)
        .map_err(|e| Fault::Command(format!("the clock is out of range: {e}")))?;
    let mut out = map! {
        "seconds" => seconds,
        "since_iso" => since.strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string(),
        "since_t" => since.as_second(),
        "days" => seconds / 86_400,
        "time" => format!("{}:{}", seconds % 86_400 / 3600, seconds % 3600 / 60),
    };
    if super::cmd::which("who").is_some() {
        out.set("users", users());
    }
    Ok(out.into())
}

/// Lines that `who` would print. Stock counts one line where it prints none.
fn users() -> usize {
    const RECORD: usize = 384;
    const USER_PROCESS: i16 = 7;
    let table = std::fs::read("/var/run/utmp").unwrap_or_default();
    let count = table
        .chunks_exact(RECORD)
        .filter(|r| i16::from_ne_bytes([r[0], r[1]]) == USER_PROCESS)
        .count();
    count.max(1)
}

fn loadavg(_: &mut Call<'_>) -> Result {
    let text = read("/proc/loadavg")?;
    let mut numbers = text.split(' ').map(|n| n.parse::<f64>().unwrap_or(0.0));
    let mut next = || numbers.next().unwrap_or(0.0);
    Ok(map! {"1-min" => next(), "5-min" => next(), "15-min" => next()}.into())
}

fn time(call: &mut Call<'_>) -> Result {
    let format = python::str(call.arg("format"));
    jiff::fmt::strtime::format(&format, &jiff::Zoned::now())
        .map(Into::into)
        .map_err(|e| Fault::raised("ValueError", e.to_string()))
}

/// Stock signs a whole `ping` request through its request channel, which this process
/// does not have; the greeting shows that a ZeroMQ peer listens there.
fn ping_master(call: &mut Call<'_>) -> Result {
    let Some(master) = call.text("master").filter(|m| !m.is_empty()) else {
        return Ok(false.into());
    };
    let opts = &call.ctx.opts;
    let port = opts.int("master_port").unwrap_or(4506);
    let wait = opts
        .int("auth_timeout")
        .unwrap_or(60)
        .clamp(1, 60)
        .unsigned_abs();
    let target = match master.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.parse::<u16>().is_ok() => master.clone(),
        _ => format!("{}:{port}", bracketed(&master)),
    };
    Ok(greets(&target, Duration::from_secs(wait)).into())
}

fn bracketed(host: &str) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]"),
        Err(_) => host.to_owned(),
    }
}

/// The first octets of a ZMTP greeting are `ff`, eight of any value, `7f`.
fn greets(target: &str, wait: Duration) -> bool {
    let Ok(addresses) = target.to_socket_addrs() else {
        return false;
    };
    addresses.into_iter().any(|address| {
        let Ok(mut stream) = TcpStream::connect_timeout(&address, wait) else {
            return false;
        };
        let mut greeting = [0; 10];
        stream.set_read_timeout(Some(wait)).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
            && (greeting[0], greeting[9]) == (0xff, 0x7f)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_a_zeromq_peer_greets() {
        let answer = |octets: &'static [u8]| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let target = listener.local_addr().unwrap().to_string();
            let peer = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(octets).unwrap();
            });
            let got = greets(&target, Duration::from_secs(5));
            peer.join().unwrap();
            got
        };
        assert!(answer(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3]));
        assert!(!answer(b"SSH-2.0-OpenSSH"));
        assert!(!answer(b""));
    }
}
