//! The options of ethtool.

use super::{CallError, Result, WORDS, invalid, python, truth};
use halite_wire::{Map, Value};

const SPEEDS: &[&str] = &["10", "100", "1000", "10000"];

const ADVERTISED: &[&str] = &[
    "0x001",
    "0x002",
    "0x004",
    "0x008",
    "0x010",
    "0x020",
    "0x20000",
    "0x8000",
    "0x1000",
    "0x40000",
    "0x80000",
    "0x200000",
    "0x400000",
    "0x800000",
    "0x1000000",
    "0x2000000",
    "0x4000000",
];

const CHANNELS: [&str; 4] = ["rx", "tx", "other", "combined"];

const OFFLOADS: [&str; 8] = ["rx", "tx", "sg", "tso", "ufo", "gso", "gro", "lro"];

fn on_off(opts: &Map, iface: &str, key: &str, out: &mut Vec<String>) -> Result<()> {
    let Some(value) = opts.get(key) else {
        return Ok(());
    };
    let on = truth(value).ok_or_else(|| invalid(iface, key, WORDS))?;
    out.push(format!("{key} {}", if on { "on" } else { "off" }));
    Ok(())
}

/// The numbers of queues. Stock allows one for each processor.
fn channels(opts: &Map, iface: &str, out: &mut Vec<String>) -> Result<()> {
    let given = match opts.get("channels") {
        Some(Value::Map(given)) => given,
        Some(Value::Nil) => {
            let text = "argument of type 'NoneType' is not iterable";
            return Err(CallError::Type(text.to_owned()));
        }
        _ => return Ok(()),
    };
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let mut words = Vec::new();
    for key in CHANNELS {
        let Some(value) = given.get(key) else {
            continue;
        };
        let number = match value {
            Value::Int(n) => usize::try_from(*n).ok(),
            _ => None,
        };
        if !number.is_some_and(|n| (1..=most).contains(&n)) {
            let valid: Vec<String> = (1..=most).map(|n| n.to_string()).collect();
            let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
            return Err(invalid(iface, &python::str(value), &valid));
        }
        words.push(format!("{key} {}", python::str(value)));
    }
    if !words.is_empty() {
        out.push(format!("-L {iface} {}", words.join(" ")));
    }
    Ok(())
}

/// The value of `ETHTOOL_OPTS`.
pub fn options(opts: &Map, iface: &str) -> Result<String> {
    let mut out = Vec::new();
    on_off(opts, iface, "autoneg", &mut out)?;
    if let Some(duplex) = opts.get("duplex") {
        let duplex = python::str(duplex);
        if duplex != "full" && duplex != "half" {
            return Err(invalid(iface, "duplex", &["full", "half"]));
        }
        out.push(format!("duplex {duplex}"));
    }
    if let Some(speed) = opts.get("speed") {
        let speed = python::str(speed);
        if !SPEEDS.contains(&speed.as_str()) {
            return Err(invalid(iface, &speed, SPEEDS));
        }
        out.push(format!("speed {speed}"));
    }
    if let Some(advertise) = opts.get("advertise") {
        let advertise = python::str(advertise);
        if !ADVERTISED.contains(&advertise.as_str()) {
            return Err(invalid(iface, "advertise", ADVERTISED));
        }
        out.push(format!("advertise {advertise}"));
    }
    channels(opts, iface, &mut out)?;
    for key in OFFLOADS {
        on_off(opts, iface, key, &mut out)?;
    }
    Ok(out.join(" "))
}
