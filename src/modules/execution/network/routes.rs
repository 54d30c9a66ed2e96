//! Routes, by `netstat` or, if missing, by `ip`.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell, which};
use super::addresses::converted;
use halite_target::{PyRegex, RegexFlags};
use halite_wire::map;
use halite_wire::{Map, Value};

fn route(family: &str, words: [&str; 3], flags: &str, interface: &str) -> Map {
    let [destination, gateway, netmask] = words;
    map! {
        "addr_family" => family, "destination" => destination, "gateway" => gateway,
        "netmask" => netmask, "flags" => flags, "interface" => interface,
    }
}

fn unexpected_output() -> CallError {
    CallError::raised("IndexError", "list index out of range")
}

fn by_netstat(call: &mut Call<'_>) -> Result<Vec<Map>> {
    let mut out = Vec::new();
    for family in ["inet", "inet6"] {
        let text = shell::run(call, &["netstat", "-A", family, "-rn"])?;
        // Stock removes the header in a pipe, which returns the last command's code.
        call.retcode = 0.into();
        for line in text.lines().skip(2) {
            let w: Vec<&str> = line.split_whitespace().collect();
            out.push(match (family, w.as_slice()) {
                ("inet", &[to, via, mask, flags, _, _, _, dev, ..]) => {
                    route(family, [to, via, mask], flags, dev)
                }
                ("inet", _) => return Err(unexpected_output()),
                (_, &[to, via, flags, _, _, dev]) => route(family, [to, via, ""], flags, dev),
                (_, &[to, via, flags, _, _, _, dev]) => route(family, [to, via, ""], flags, dev),
                _ => continue,
            });
        }
    }
    Ok(out)
}

/// Route types that `ip` prints first.
const KINDS: [&str; 9] = [
    "unicast",
    "broadcast",
    "throw",
    "unreachable",
    "prohibit",
    "blackhole",
    "nat",
    "anycast",
    "multicast",
];

fn by_ip(call: &mut Call<'_>) -> Result<Vec<Map>> {
    let mut out = Vec::new();
    let text = shell::run(call, &["ip", "-4", "route", "show", "table", "main"])?;
    for line in text.lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        let after = |at: usize| match (w.get(at), w.get(at + 1)) {
            (Some(&"dev"), Some(name)) => name,
            _ => "",
        };
        match w.first().copied().unwrap_or_default() {
            "unreachable" => {}
            "default" => {
                let via = w.get(2).ok_or_else(unexpected_output)?;
                let words = ["0.0.0.0", via, "0.0.0.0"];
                out.push(route("inet", words, "UG", after(3)));
            }
            first => {
                let net = converted(&first.into())?;
                let of = |key| net.str(key).unwrap_or_default();
                let words = [of("network"), "0.0.0.0", of("netmask")];
                out.push(route("inet", words, "U", after(1)));
            }
        }
    }
    let text = shell::run(call, &["ip", "-6", "route", "show", "table", "all"])?;
    for line in text.lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        let after = |at: usize| match (w.get(at), w.get(at + 1)) {
            (Some(&"dev"), Some(name)) => name,
            _ => "",
        };
        match w.first().copied().unwrap_or_default() {
            kind if KINDS.contains(&kind) => {}
            "default" => {
                let via = w.get(2).ok_or_else(unexpected_output)?;
                out.push(route("inet6", ["::/0", via, ""], "UG", after(3)));
            }
            "local" => {
                let to = format!("{}/128", w.get(1).ok_or_else(unexpected_output)?);
                out.push(route("inet6", [&to, "::", ""], "U", after(2)));
            }
            first => {
                converted(&first.into())?;
                out.push(route("inet6", [first, "::", ""], "U", after(1)));
            }
        }
    }
    Ok(out)
}

/// The routes of the requested address family.
fn all(call: &mut Call<'_>) -> Result<(Vec<Map>, Option<String>)> {
    let family = match call.arg("family") {
        Value::Nil => None,
        Value::Str(name) if name == "inet" || name == "inet6" => Some(name.clone()),
        other => {
            let text = format!("Invalid address family {}", python::str(other));
            return Err(CallError::Command(text));
        }
    };
    let mut routes = match which("netstat") {
        Some(_) => by_netstat(call)?,
        None => by_ip(call)?,
    };
    if let Some(family) = &family {
        routes.retain(|r| r.str("addr_family") == Some(family));
    }
    Ok((routes, family))
}

fn list(routes: Vec<Map>) -> Value {
    Value::Array(routes.into_iter().map(Value::Map).collect())
}

pub(super) fn routes(call: &mut Call<'_>) -> Result {
    Ok(list(all(call)?.0))
}

pub(super) fn default_route(call: &mut Call<'_>) -> Result {
    let (mut routes, family) = all(call)?;
    let defaults: &[&str] = match family.as_deref() {
        Some("inet") => &["0.0.0.0", "default"],
        Some(_) => &["::/0", "default"],
        None => &["0.0.0.0", "::/0", "default"],
    };
    routes.retain(|r| r.str("destination").is_some_and(|d| defaults.contains(&d)));
    Ok(list(routes))
}

pub(super) fn get_route(call: &mut Call<'_>) -> Result {
    const PATTERN: &str = r"(via\s+(?P<gateway>[\w\.:]+))?\s+dev\s+(?P<interface>[\w\.\:\-]+)\s+.*src\s+(?P<source>[\w\.:]+)";
    let ip = call.arg("ip").clone();
    let text = shell::run(call, &["ip", "route", "get", &python::str(&ip)])?;
    let regex = PyRegex::with_flags(PATTERN, RegexFlags::default())
        .map_err(|e| CallError::raised("re.error", e))?;
    let line = text.lines().next().ok_or_else(unexpected_output)?;
    let Some(found) = regex.captures(line, 0) else {
        return Err(CallError::raised(
            "AttributeError",
            "'NoneType' object has no attribute 'group'",
        ));
    };
    let group = |name: &str| -> Value {
        let span = regex
            .group(name)
            .and_then(|at| found.get(at).copied().flatten());
        span.and_then(|(from, to)| line.get(from..to)).into()
    };
    Ok(map! {
        "destination" => ip, "gateway" => group("gateway"),
        "interface" => group("interface"), "source" => group("source"),
    }
    .into())
}
