//! Interfaces from declared settings.

use super::interfaces::sorted_keys;
use super::options::{checked, float, number};
use super::{WORDS, attribute, invalid, key_error, truth};
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value, map};

/// Names of options of ethtool, in settings and in the file.
const ETHTOOL: &[(&str, &str)] = &[
    ("autoneg", "ethernet-autoneg"),
    ("duplex", "link-duplex"),
    ("speed", "link-speed"),
    ("rx", "offload-rx"),
    ("tx", "offload-tx"),
    ("sg", "offload-sg"),
    ("tso", "offload-tso"),
    ("ufo", "offload-ufo"),
    ("gso", "offload-gso"),
    ("gro", "offload-gro"),
    ("lro", "offload-lro"),
];

/// Other names of options.
const ALIASES: &[(&str, &str)] = &[
    ("dns", "dns-nameservers"),
    ("search", "dns-search"),
    ("hwaddr", "hwaddress"),
    ("ipaddr", "address"),
    ("ipaddrs", "addresses"),
    ("addr", "address"),
    ("addrs", "addresses"),
];

const PEER: &[&str] = &[
    "user",
    "password",
    "provider",
    "pppoe_iface",
    "noipdefault",
    "usepeerdns",
    "defaultroute",
    "holdoff",
    "maxfail",
    "hide-password",
    "lcp-echo-interval",
    "lcp-echo-failure",
    "connect",
    "noauth",
    "persist",
    "mtu",
    "noaccomp",
    "linkname",
];

const PEER_FLAGS: &[&str] = &[
    "noipdefault",
    "usepeerdns",
    "defaultroute",
    "hide-password",
    "noauth",
    "persist",
    "noaccomp",
];

const FAMILIES: [&str; 2] = ["inet", "inet6"];

/// The word for yes or no; the error names both.
fn on_off(opts: &Map, iface: &str, key: &str, words: (&str, &str)) -> Result<Option<Value>> {
    let Some(value) = opts.get(key) else {
        return Ok(None);
    };
    match truth(value) {
        Some(true) => Ok(Some(words.0.into())),
        Some(false) => Ok(Some(words.1.into())),
        None => Err(invalid(iface, key, WORDS)),
    }
}

fn one_of(opts: &Map, iface: &str, key: &str, valid: &[&str]) -> Result<Option<Value>> {
    match opts.get(key) {
        Some(value) if value.as_str().is_some_and(|v| valid.contains(&v)) => {
            Ok(Some(value.clone()))
        }
        Some(_) => Err(invalid(iface, key, valid)),
        None => Ok(None),
    }
}

fn needed(opts: &Map, key: &str) -> Result<Value> {
    opts.get(key).cloned().ok_or_else(|| key_error(key))
}

fn ethtool(opts: &Map, iface: &str) -> Result<Map> {
    let mut out = Map::new();
    for (key, name) in ETHTOOL {
        let value = match *key {
            "duplex" => one_of(opts, iface, key, &["full", "half"])?,
            "speed" => match opts.get(key) {
                Some(speed) => {
                    let valid = ["10", "100", "1000", "10000"];
                    let shown = python::str(speed);
                    if !valid.contains(&shown.as_str()) {
                        return Err(invalid(iface, &shown, &valid));
                    }
                    Some(speed.clone())
                }
                None => None,
            },
            _ => on_off(opts, iface, key, ("on", "off"))?,
        };
        if let Some(value) = value {
            out.set(*name, value);
        }
    }
    Ok(out)
}

fn peer(opts: &Map, iface: &str) -> Result<Map> {
    let mut out = Map::new();
    for key in PEER {
        if let Some(value) = opts.get(key) {
            out.set(*key, value.clone());
        }
    }
    if opts.get("provider").is_some_and(|p| !p.truthy()) {
        return Err(invalid(iface, "provider", WORDS));
    }
    for key in PEER_FLAGS {
        if let Some(word) = on_off(opts, iface, key, ("True", "False"))? {
            out.set(*key, word);
        }
    }
    Ok(out)
}

fn no_method(value: &Value, method: &str) -> crate::execution::CallError {
    attribute(format!(
        "'{}' object has no attribute '{method}'",
        python::type_name(value)
    ))
}

fn bridge(opts: &mut Map, iface: &str) -> Result<Map> {
    let mut out = Map::new();
    if let Some(ports) = opts.get("ports").cloned() {
        let ports = match ports {
            Value::Array(list) => {
                let names: Vec<String> = list.iter().map(python::str).collect();
                names.join(" ").into()
            }
            other => other,
        };
        opts.set("ports", ports.clone());
        out.set("ports", ports);
    }
    for key in ["ageing", "fd", "gcint", "hello", "maxage"] {
        if let Some(value) = opts.get(key) {
            float(value)?.ok_or_else(|| invalid(iface, key, &["float"]))?;
            out.set(key, value.clone());
        }
    }
    for key in ["bridgeprio", "maxwait"] {
        match opts.get(key) {
            Some(value @ (Value::Int(_) | Value::Bool(_))) => out.set(key, value.clone()),
            Some(_) => return Err(invalid(iface, key, &["integer"])),
            None => {}
        }
    }
    if let Some(hw) = opts.get("hw") {
        let text = hw.as_str().ok_or_else(|| no_method(hw, "lower"))?;
        if !is_mac(&text.to_lowercase()) {
            return Err(invalid(iface, "hw", &["valid MAC address"]));
        }
        out.set("hw", text);
    }
    for key in ["pathcost", "portprio"] {
        if let Some(value) = opts.get(key) {
            let text = value.as_str().ok_or_else(|| no_method(value, "split"))?;
            let words: Vec<&str> = text.split_whitespace().collect();
            match words.as_slice() {
                [port, number] if number.parse::<i64>().is_ok() => {
                    out.set(key, format!("{port} {number}"))
                }
                _ => return Err(invalid(iface, key, &["interface integer"])),
            }
        }
    }
    if let Some(word) = on_off(opts, iface, "stp", ("on", "off"))? {
        out.set("stp", word);
    }
    match opts.get("waitport") {
        None => {}
        Some(value @ (Value::Int(_) | Value::Bool(_))) => out.set("waitport", value.clone()),
        Some(value) => {
            let text = value.as_str().ok_or_else(|| no_method(value, "split"))?;
            let words: Vec<&str> = text.split_whitespace().collect();
            match words.split_first() {
                Some((time, ports))
                    if !ports.is_empty() && time.bytes().all(|b| b.is_ascii_digit()) =>
                {
                    out.set("waitport", format!("{time} {}", ports.join(" ")));
                }
                // Stock names the option that it has checked before.
                _ => return Err(invalid(iface, "portprio", &["integer [interfaces]"])),
            }
        }
    }
    Ok(out)
}

/// Six pairs of digits between the same marks.
fn is_mac(text: &str) -> bool {
    let fits = |mark: char| {
        let parts: Vec<&str> = text.split(mark).collect();
        let pair = |p: &&str| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit());
        parts.len() == 6 && parts.iter().all(pair)
    };
    fits(':') || fits('-')
}

const MODES: [&str; 7] = [
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
];

/// The options of a bond of a mode.
pub fn bond(grains: &Map, opts: &mut Map, iface: &str) -> Result<Map> {
    let mode = needed(opts, "mode")?;
    let word = mode.as_str().unwrap_or_default();
    let known =
        |at: &usize| MODES.get(*at).is_some_and(|name| *name == word) || word == at.to_string();
    let Some(mode) = (0..MODES.len()).find(known) else {
        let mut valid: Vec<String> = (0..MODES.len()).map(|n| n.to_string()).collect();
        valid.extend(MODES.map(str::to_owned));
        let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
        return Err(invalid(iface, "mode", &valid));
    };
    let mut out = map! {"mode" => mode.to_string()};
    if mode == 0 || mode == 2 {
        out.set("arp_ip_target", targets(opts, iface)?);
        integer(opts, iface, "arp_interval", &mut out)?;
    } else {
        for key in ["miimon", "downdelay", "updelay"] {
            integer(opts, iface, key, &mut out)?;
        }
    }
    if mode == 4 {
        for (word, number) in [("fast", "1"), ("slow", "0")] {
            if opts.get("lacp_rate").is_some_and(|rate| rate.is_str(word)) {
                opts.set("lacp_rate", number);
            }
        }
        integer(opts, iface, "lacp_rate", &mut out)?;
        integer(opts, iface, "ad_select", &mut out)?;
    }
    let primary = opts.get("primary").cloned();
    if let Some(primary) = primary.clone().filter(|_| mode == 1) {
        out.set("primary", primary);
    }
    let major = grains
        .get("osrelease_info")
        .and_then(Value::as_array)
        .and_then(|i| i.first());
    let new_ubuntu =
        grains.str("os") == Some("Ubuntu") && major.and_then(Value::as_int) >= Some(16);
    if mode != 0 && mode != 2 && !(mode == 1 && new_ubuntu) {
        let word = on_off(opts, iface, "use_carrier", ("1", "0"))?;
        out.set("use_carrier", word.unwrap_or("on".into()));
    }
    if mode == 2 || mode == 4 {
        let valid = ["layer2", "layer2+3", "layer3+4"];
        if let Some(policy) = one_of(opts, iface, "hashing-algorithm", &valid)? {
            out.set("xmit_hash_policy", policy);
        }
    }
    if let Some(primary) = primary.filter(|_| mode >= 5) {
        out.set("primary", primary);
    }
    Ok(out)
}

fn targets(opts: &Map, iface: &str) -> Result<String> {
    match opts.get("arp_ip_target") {
        Some(Value::Array(list)) if (1..=16).contains(&list.len()) => {
            let all: Vec<String> = list.iter().map(python::str).collect();
            Ok(all.join(","))
        }
        _ => Err(invalid(iface, "arp_ip_target", &["list of ips (up to 16)"])),
    }
}

/// A number, as it was given; else its default.
fn integer(opts: &Map, iface: &str, key: &str, out: &mut Map) -> Result<()> {
    let default = match key {
        "miimon" => "100",
        "arp_interval" => "250",
        "downdelay" => "200",
        _ => "0",
    };
    let Some(value) = opts.get(key) else {
        out.set(key, default);
        return Ok(());
    };
    let valid: &[&str] = match key {
        "lacp_rate" => &["fast", "1", "slow", "0"],
        _ => &["integer"],
    };
    number(value)?.ok_or_else(|| invalid(iface, key, valid))?;
    out.set(key, value.clone());
    Ok(())
}

/// The name without what makes it a VLAN.
fn raw_device(iface: &str) -> String {
    let mut parts = iface.split('.');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out
}

/// A description of an interface of a type.
pub fn interface(
    grains: &Map,
    iface: &str,
    kind: &str,
    enabled: bool,
    mut opts: Map,
) -> Result<Map> {
    let mut one = map! {"type" => kind};
    if enabled {
        one.set("enabled", true);
    }
    if opts.get("hotplug").is_some_and(Value::truthy) {
        one.set("hotplug", true);
    }
    let mut families = [Map::new(), Map::new()];
    for (family, data) in FAMILIES.iter().zip(&mut families) {
        if kind != "bridge" {
            let found = ethtool(&opts, iface)?;
            if !found.is_empty() {
                data.set("ethtool_keys", sorted_keys(&found));
                data.set("ethtool", found);
            }
        }
        match kind {
            "bridge" => {
                let found = bridge(&mut opts, iface)?;
                if !found.is_empty() {
                    data.set("bridging_keys", sorted_keys(&found));
                    data.set("bridging", found);
                    data.set("addrfam", *family);
                }
            }
            "bond" => {
                let mut found = bond(grains, &mut opts, iface)?;
                found.set("slaves", needed(&opts, "slaves")?);
                data.set("bonding_keys", sorted_keys(&found));
                data.set("bonding", found);
                data.set("addrfam", *family);
            }
            "slave" => {
                let master = needed(&opts, "master")?;
                one.set("master", master.clone());
                opts.set("proto", "manual");
                data.set("master", master);
                data.set("addrfam", *family);
            }
            "vlan" => {
                data.set("vlan_raw_device", raw_device(iface));
                data.set("addrfam", *family);
            }
            "pppoe" => {
                data.0.extend(peer(&opts, iface)?.0);
                data.set("addrfam", *family);
            }
            _ => {}
        }
    }
    opts.remove("mode");
    for (key, value) in opts.iter() {
        option(&python::str(key), value, &mut families)?;
    }
    for key in [
        "up_cmds",
        "pre_up_cmds",
        "post_up_cmds",
        "down_cmds",
        "pre_down_cmds",
        "post_down_cmds",
    ] {
        if let Some(commands) = opts.get(key) {
            families
                .iter_mut()
                .for_each(|data| data.set(key, commands.clone()));
        }
    }
    let mut data = Map::new();
    for ((family, own), enable) in FAMILIES
        .iter()
        .zip(families)
        .zip(["enable_ipv4", "enable_ipv6"])
    {
        let off = opts.get(enable) == Some(&Value::Bool(false));
        if !off && own.str("addrfam") == Some(family) {
            data.set(*family, own);
        }
    }
    one.set("data", data);
    Ok(one)
}

/// Adds an option to the family that it is for, or to both unless they have it.
fn option(key: &str, value: &Value, families: &mut [Map; 2]) -> Result<()> {
    let plain = [
        "ipaddr",
        "address",
        "ipaddresses",
        "addresses",
        "gateway",
        "proto",
    ];
    let (key, of) = if let Some(rest) = key.strip_prefix("ipv4") {
        (rest, Some("inet"))
    } else if let Some(rest) = key.strip_prefix("ipv6") {
        (rest, Some("inet6"))
    } else {
        (key, plain.contains(&key).then_some("inet"))
    };
    let name = ALIASES
        .iter()
        .find(|(alias, _)| *alias == key)
        .map_or(key, |(_, name)| name);
    let shown = name.replace('-', "_");
    for (family, data) in FAMILIES.iter().zip(families) {
        if of == Some(family) {
            data.set("addrfam", *family);
        }
        let (valid, value) = checked(name, value, family)?;
        let wanted = match of {
            None => !data.contains(&shown),
            Some(of) => of == *family,
        };
        if valid && wanted {
            data.set(shown.as_str(), value);
        }
    }
    Ok(())
}

/// A description of a file with more interfaces.
pub fn source(opts: &Map) -> Result<Map> {
    let sources = vec![needed(opts, "source")?];
    Ok(map! {"type" => "source", "data" => map! {"sources" => sources}})
}
