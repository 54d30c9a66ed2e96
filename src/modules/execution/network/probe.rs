//! Probing other hosts: ping, traceroute, dig, connections, wake on LAN.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell};
use halite_target::{PyRegex, RegexFlags};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

/// Validates a host before it is passed to a program: an address, or a name of allowed characters
/// (`salt.utils.network.sanitize_host`). A leading dash would be an option.
fn sanitized(host: &Value) -> Result<String> {
    let Some(host) = host.as_str() else {
        let class = python::type_name(host);
        return Err(CallError::Type(format!(
            "'{class}' object is not subscriptable"
        )));
    };
    if host.parse::<IpAddr>().is_ok() {
        return Ok(host.to_owned());
    }
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = host.chars().take(255).filter(allowed).collect();
    Ok(name.trim_start_matches('-').to_owned())
}

pub(super) fn ping(call: &mut Call<'_>) -> Result {
    let host = sanitized(call.arg("host"))?;
    let timeout = call.arg("timeout").clone();
    let wait = python::str(&timeout);
    let mut argv = vec!["ping"];
    if timeout.truthy() {
        argv.extend(["-W", wait.as_str()]);
    }
    argv.extend(["-c", "4"]);
    if !host.is_empty() {
        argv.push(&host);
    }
    if call.flag("return_boolean") {
        return Ok((shell::run_all(call, &argv)?.retcode == 0).into());
    }
    Ok(shell::run(call, &argv)?.into())
}

pub(super) fn dig(call: &mut Call<'_>) -> Result {
    shell::require("dig")?;
    let host = sanitized(call.arg("host"))?;
    let mut argv = vec!["dig"];
    if !host.is_empty() {
        argv.push(&host);
    }
    Ok(shell::run(call, &argv)?.into())
}

/// The three parts of a version: `2.1.2` is 2, 1, 2. Later parts may be words.
fn version(text: &str) -> (i64, i64, i64) {
    let regex = PyRegex::with_flags(
        r".*[Vv]ersion (\d+)\.([\w\+]+)\.*(\w*)",
        RegexFlags::default(),
    );
    let Some(found) = regex.ok().and_then(|r| r.captures(text, 0)) else {
        return (0, 0, 0);
    };
    let part = |at: usize| {
        let span = found.get(at).copied().flatten();
        let text = span.and_then(|(from, to)| text.get(from..to));
        text.and_then(|t| t.parse().ok()).unwrap_or(0)
    };
    (part(1), part(2), part(3))
}

pub(super) fn traceroute(call: &mut Call<'_>) -> Result {
    shell::require("traceroute")?;
    let host = sanitized(call.arg("host"))?;
    let options = map! {"timeout" => 120, "python_shell" => false};
    let mut argv: Vec<Value> = vec!["traceroute".into()];
    if !host.is_empty() {
        argv.push(host.into());
    }
    call.retcode = 0.into();
    let text = call.salt("cmd.run", vec![argv.into()], options)?;
    let text = text.as_str().unwrap_or_default().to_owned();
    if text.contains("Timed out after") {
        return Ok(Value::Array(Vec::new()));
    }
    let (major, minor, patch) = version(&shell::run(call, &["traceroute", "--version"])?);
    let modern = major >= 2 && (patch >= 14 || minor > 0);
    let mut out: Vec<Value> = Vec::new();
    for line in text.lines() {
        if !line.contains(' ') || line.starts_with("traceroute") {
            continue;
        }
        let hop = if modern {
            hop(line)?
        } else {
            old_format_hop(line)
        };
        out.push(hop.into());
    }
    Ok(out.into())
}

fn hop(line: &str) -> Result<Map> {
    let parts: Vec<&str> = line.split("  ").collect();
    let count = || python::int(&parts[0].into());
    if parts.get(1) == Some(&"* * *") {
        return Ok(map! {"count" => count()?, "hostname" => "*"});
    }
    let &[_, host, first, second, third, ..] = parts.as_slice() else {
        return Ok(Map::new());
    };
    let short = || CallError::raised("IndexError", "list index out of range");
    let mut host = host.split_whitespace();
    let (name, ip) = (
        host.next().ok_or_else(short)?,
        host.next().ok_or_else(short)?,
    );
    let time = |text: &str| -> Result {
        let word = text.split_whitespace().next().ok_or_else(short)?;
        let number = word.parse::<f64>().map_err(|_| {
            let shown = python::repr(&word.into());
            CallError::raised(
                "ValueError",
                format!("could not convert string to float: {shown}"),
            )
        })?;
        Ok(Value::Float(number))
    };
    Ok(map! {
        "count" => count()?, "hostname" => name,
        "ip" => ip.trim_matches(['(', ')']),
        "ms1" => time(first)?, "ms2" => time(second)?, "ms3" => time(third)?,
    })
}

fn old_format_hop(line: &str) -> Map {
    let w: Vec<&str> = line.split_whitespace().collect();
    let &[count, name, ip, ping1, ms1, ping2, ms2, ping3, ms3, ..] = w.as_slice() else {
        return Map::new();
    };
    map! {
        "count" => count, "hostname" => name, "ip" => ip, "ms1" => ms1, "ms2" => ms2,
        "ms3" => ms3, "ping1" => ping1, "ping2" => ping2, "ping3" => ping3,
    }
}

/// A port by its number or its name in `/etc/services`.
fn port(value: &Value, proto: &str) -> Option<u16> {
    let text = python::str(value);
    if let Ok(port) = text.parse() {
        return Some(port);
    }
    let table = std::fs::read_to_string("/etc/services").unwrap_or_default();
    table.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let (number, kind) = words.get(1)?.split_once('/')?;
        let named = words.iter().enumerate().any(|(i, w)| i != 1 && *w == text);
        (named && kind == proto).then(|| number.parse().ok())?
    })
}

pub(super) fn connect(call: &mut Call<'_>) -> Result {
    let answer =
        |result: bool, comment: String| Ok(map! {"result" => result, "comment" => comment}.into());
    let (host, wanted) = (call.arg("host").clone(), call.arg("port").clone());
    for (value, name) in [(&host, "host"), (&wanted, "port")] {
        if !value.truthy() {
            return answer(false, format!("Required argument, {name}, is missing."));
        }
    }
    let option = |name: &str| call.bound.kwargs.get(name).cloned();
    let udp = option("proto").is_some_and(|p| p.is_str("udp"));
    let shown = match (udp, option("proto")) {
        (true, _) => "udp",
        (false, _) => "tcp",
    };
    let family = option("family")
        .map(|f| python::str(&f))
        .unwrap_or_default();
    let timeout = option("timeout").unwrap_or(Value::Int(5));
    let (host, wanted_text) = (sanitized_or_ip(&host)?, python::str(&wanted));
    let resolved = port(&wanted, shown).and_then(|port| {
        let mut all = (host.0.as_str(), port).to_socket_addrs().ok()?;
        all.find(|a| match family.as_str() {
            "ipv4" => a.is_ipv4(),
            "ipv6" => a.is_ipv6(),
            _ => true,
        })
    });
    let Some(address) = resolved else {
        let text = format!(
            "Unable to resolve host {} on {shown} port {wanted_text}",
            host.1
        );
        return answer(false, text);
    };
    let place = format!(
        "{} ({}) on {shown} port {wanted_text}",
        host.1,
        address.ip()
    );
    // Stock cannot send its datagram, because it passes text instead of bytes.
    if !udp && reaches(&address, &timeout) {
        answer(true, format!("Successfully connected to {place}"))
    } else {
        answer(false, format!("Unable to connect to {place}"))
    }
}

/// The name to look up, and the name to show.
fn sanitized_or_ip(host: &Value) -> Result<(String, String)> {
    Ok((sanitized(host)?, python::str(host)))
}

fn reaches(address: &SocketAddr, timeout: &Value) -> bool {
    let seconds = halite_wire::pytext::number(timeout);
    let wait = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    let stream = match (timeout, wait) {
        (Value::Nil, _) => TcpStream::connect(address),
        (_, Some(wait)) if !wait.is_zero() => TcpStream::connect_timeout(address, wait),
        _ => return false,
    };
    stream.is_ok_and(|s| s.shutdown(std::net::Shutdown::Both).is_ok())
}

pub(super) fn wol(call: &mut Call<'_>) -> Result {
    let bytes = hardware(call.arg("mac"))?;
    let port = python::int(call.arg("destport"))?;
    let port = u16::try_from(port)
        .map_err(|_| CallError::raised("OverflowError", "sendto(): port must be 0-65535."))?;
    let host = python::str(call.arg("bcast"));
    let mut packet = vec![0xff; 6];
    packet.extend(bytes.repeat(16));
    let failed = |e: std::io::Error| {
        let number = e.raw_os_error().unwrap_or(0);
        CallError::raised(
            "OSError",
            format!("[Errno {number}] {}", python::errno_text(number)),
        )
    };
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    socket.set_broadcast(true).map_err(failed)?;
    let target = (host.as_str(), port).to_socket_addrs().ok();
    let target = target.and_then(|mut all| all.find(SocketAddr::is_ipv4));
    let Some(target) = target else {
        return Err(CallError::raised(
            "socket.gaierror",
            "[Errno -2] Name or service not known",
        ));
    };
    socket.send_to(&packet, target).map_err(failed)?;
    Ok(true.into())
}

/// A hardware address of twelve digits, with or without one separator between pairs.
fn hardware(mac: &Value) -> Result<Vec<u8>> {
    let Some(text) = mac.as_str() else {
        let class = python::type_name(mac);
        let text = format!("object of type '{class}' has no len()");
        return Err(CallError::Type(text));
    };
    let chars: Vec<char> = text.chars().collect();
    let digits: Vec<char> = match chars.len() {
        12 => chars,
        17 => chars.iter().copied().filter(|c| *c != chars[2]).collect(),
        _ => return Err(CallError::raised("ValueError", "Invalid MAC address")),
    };
    let pair = |pair: &[char]| {
        let text: String = pair.iter().collect();
        u8::from_str_radix(&text, 16).map_err(|_| {
            let shown = python::repr(&text.as_str().into());
            let text = format!("invalid literal for int() with base 16: {shown}");
            CallError::raised("ValueError", text)
        })
    };
    digits.chunks(2).take(6).map(pair).collect()
}

/// Names of an address from the host's name service, canonical name first.
fn names_of(call: &mut Call<'_>, ip: IpAddr) -> Vec<String> {
    let Ok(done) = shell::run_all_with(call, &["getent", "hosts", &ip.to_string()], quiet()) else {
        return Vec::new();
    };
    let line = done.stdout.lines().next().unwrap_or_default();
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

/// Bounds the wait for a name service; an unknown name is no failure.
fn quiet() -> Map {
    map! {"ignore_retcode" => true, "timeout" => 10, "output_loglevel" => "quiet"}
}

/// `socket.getfqdn(name)`: the first name with a dot among those of the name's address.
pub(super) fn full_name(call: &mut Call<'_>, name: &str) -> String {
    let address = (name, 0).to_socket_addrs().ok().and_then(|mut a| a.next());
    let Some(address) = address else {
        return name.to_owned();
    };
    let names = names_of(call, address.ip());
    let dotted = names.iter().find(|n| n.contains('.'));
    dotted
        .or(names.first())
        .map_or_else(|| name.to_owned(), Clone::clone)
}

pub(super) fn fqdns(call: &mut Call<'_>) -> Result {
    let all = crate::net::interfaces();
    let ips = all.iter().flat_map(|i| i.addresses.iter().map(|a| a.ip));
    let ips: Vec<IpAddr> = ips.filter(|ip| !ip.is_loopback()).collect();
    let mut found: Vec<String> = Vec::new();
    for ip in ips {
        if let Some(name) = names_of(call, ip).into_iter().next() {
            found.push(full_name(call, &name));
        }
    }
    found.sort();
    found.dedup();
    Ok(map! {"fqdns" => found}.into())
}
