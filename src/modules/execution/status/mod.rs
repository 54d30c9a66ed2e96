//! `status`: the host's status.

mod tables;

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell};
use halite_target::{PyRegex, RegexFlags};
use halite_wire::map;
use halite_wire::{Map, Value};
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
            "The number of available processors.",
        ),
        Function::new(
            "all_status",
            all_status,
            "The results of most functions of this module in one map.",
        ),
        Function::new("cpuinfo", tables::cpuinfo, "The kernel's processor data."),
        Function::new("cpustats", tables::cpustats, "Processor statistics since boot."),
        Function::new("custom", custom, "The values requested by options named status.FUNCTION.custom."),
        Function::new("diskstats", tables::diskstats, "Read and write counters of all disks since boot."),
        Function::new("diskusage", tables::diskusage, "Size and free space in bytes of all mounts, of given paths, or of given file system types.")
            .varargs(),
        Function::new("master", master, "Whether this minion is connected to the given master.")
            .args(&[opt("master", Lit::Nil), opt("connected", Lit::Bool(true))]),
        Function::new("meminfo", tables::meminfo, "The kernel's memory data."),
        Function::new("netdev", tables::netdev, "Counters of all network interfaces."),
        Function::new("netstats", tables::netstats, "Counters of the network protocols."),
        Function::new("pid", pid, "The process ids, one per line, of the processes whose line in the process list matches a regular expression.")
            .args(&[req("sig")]),
        Function::new("procs", procs, "User and command of every process."),
        Function::new("proxy_reconnect", |_| Ok(false.into()), "Always false: there are no proxy minions.")
            .args(&[req("proxy_name"), opt("opts", Lit::Nil)]),
        Function::new("version", tables::version, "The kernel version."),
        Function::new("vmstats", tables::vmstats, "Counters of the virtual memory."),
        Function::new("w", w, "The logged-in users and their activity."),
    ],
};

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|_| CallError::Command(format!("File {path} was not found.")))
}

fn uptime(_: &mut Call<'_>) -> Result {
    let text = read("/proc/uptime")?;
    let seconds = text.split(['.', ' ']).next().unwrap_or_default();
    let seconds: i64 = seconds.parse().unwrap_or(0);
    let now = jiff::Timestamp::now().as_microsecond();
    let since = jiff::Timestamp::from_microsecond(now - seconds * 1_000_000)
        .map_err(|e| CallError::Command(format!("the clock is out of range: {e}")))?;
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

/// Lines that `who` prints; stock counts at least one.
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
        .map_err(|e| CallError::raised("ValueError", e.to_string()))
}

/// Stock signs a `ping` request through its request channel, which this process does not have. A ZMTP greeting shows
/// that a ZeroMQ peer listens there.
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
    Ok(sends_zmq_greeting(&target, Duration::from_secs(wait)).into())
}

fn bracketed(host: &str) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]"),
        Err(_) => host.to_owned(),
    }
}

/// The first bytes of a ZMTP greeting are `ff`, eight arbitrary bytes, `7f`.
fn sends_zmq_greeting(target: &str, wait: Duration) -> bool {
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

/// The grain `ps` is the command that lists processes.
fn process_list(call: &mut Call<'_>) -> Result<String> {
    let command = call.ctx.grains.str("ps").unwrap_or("ps -efHww").to_owned();
    shell::line(call, &command)
}

fn procs(call: &mut Call<'_>) -> Result {
    let text = process_list(call)?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let column = |names: [&str; 2]| {
        let find = |name: &str| head.iter().position(|h| *h == name);
        find(names[0]).or_else(|| find(names[1])).unwrap_or(0)
    };
    let (user, pid, cmd) = (
        column(["USER", "UID"]),
        column(["PID", "PID"]),
        column(["COMMAND", "CMD"]),
    );
    let mut out = Map::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(user), Some(pid)) = (words.get(user), words.get(pid)) else {
            continue;
        };
        let cmd = words.get(cmd..).unwrap_or_default().join(" ");
        out.set(*pid, map! {"user" => *user, "cmd" => cmd});
    }
    Ok(out.into())
}

fn pid(call: &mut Call<'_>) -> Result {
    let pattern = call.text("sig").unwrap_or_default();
    let regex = PyRegex::with_flags(&pattern, RegexFlags::default())
        .map_err(|e| CallError::raised("re.error", e))?;
    let own = std::process::id().to_string();
    let text = process_list(call)?;
    let pids: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains(&own) && regex.captures(line, 0).is_some())
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    Ok(pids.join("\n").into())
}

fn w(call: &mut Call<'_>) -> Result {
    let text = shell::run(call, &["w", "-fh"])?;
    let mut out = Vec::new();
    for line in text.lines().filter(|l| !l.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[user, tty, login, idle, jcpu, pcpu, ..] = words.as_slice() else {
            return Err(CallError::raised("IndexError", "list index out of range"));
        };
        let entry = map! {
            "idle" => idle, "jcpu" => jcpu, "login" => login, "pcpu" => pcpu,
            "tty" => tty, "user" => user, "what" => words[6..].join(" "),
        };
        out.push(entry.into());
    }
    Ok(Value::Array(out))
}

/// One part of `all_status`.
type Part = (&'static str, fn(&mut Call<'_>) -> Result);

fn all_status(call: &mut Call<'_>) -> Result {
    const PARTS: &[Part] = &[
        ("cpuinfo", tables::cpuinfo),
        ("cpustats", tables::cpustats),
        ("diskstats", tables::diskstats),
        ("diskusage", tables::diskusage),
        ("loadavg", loadavg),
        ("meminfo", tables::meminfo),
        ("netdev", tables::netdev),
        ("netstats", tables::netstats),
        ("uptime", uptime),
        ("vmstats", tables::vmstats),
        ("w", w),
    ];
    let mut out = Map::new();
    for (name, part) in PARTS {
        out.set(*name, part(call)?);
    }
    Ok(out.into())
}

/// `status.cpustats.custom: [cpu, ctxt]` selects these two from `status.cpustats`.
fn custom(call: &mut Call<'_>) -> Result {
    let wanted = call.salt("config.dot_vals", vec!["status".into()], Map::new())?;
    let mut out = Map::new();
    for (key, picks) in wanted.as_map().map(Map::iter).into_iter().flatten() {
        let key = python::str(key);
        let Some((fun, _)) = key.rsplit_once('.') else {
            continue;
        };
        if fun == "status.custom" || super::find_for(call.ctx, fun).is_none() {
            continue;
        }
        let values = call.salt(fun, Vec::new(), Map::new())?;
        for pick in picks.str_list() {
            let value = values.as_map().and_then(|m| m.get(&pick)).cloned();
            out.set(pick, value.unwrap_or_else(|| "UNKNOWN".into()));
        }
    }
    Ok(out.into())
}

/// Stock also fires an event if the result is unexpected; the daemon here watches its connection itself.
fn master(call: &mut Call<'_>) -> Result {
    let Some(name) = call.text("master").filter(|m| !m.is_empty()) else {
        return Ok(Value::Nil);
    };
    let Ok(addresses) = (name.as_str(), 0).to_socket_addrs() else {
        return Ok(Value::Nil);
    };
    let port = call.ctx.opts.int("publish_port").unwrap_or(4505);
    let servers = halite_sys::net::servers(u16::try_from(port).unwrap_or(4505));
    let mut addresses = addresses.map(|a| a.ip().to_canonical());
    Ok(addresses.any(|ip| servers.contains(&ip)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_a_zeromq_peer_greets() {
        let answer = |bytes: &'static [u8]| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let target = listener.local_addr().unwrap().to_string();
            let peer = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(bytes).unwrap();
            });
            let got = sends_zmq_greeting(&target, Duration::from_secs(5));
            peer.join().unwrap();
            got
        };
        assert!(answer(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3]));
        assert!(!answer(b"SSH-2.0-OpenSSH"));
        assert!(!answer(b""));
    }
}
