//! The file of an interface.

use super::{
    CallError, Result, WORDS, attribute, bond, command_helpers, debian_ip, ethtool, invalid,
    number, python, truth, word,
};
use halite_wire::{Map, Value, pyjson};
use std::net::{Ipv4Addr, Ipv6Addr};

fn yes_no(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

/// A list, the keys of a map, or a text alone, which stock takes apart into letters.
fn several(value: &Value) -> Vec<String> {
    match value {
        Value::Map(map) => map.iter().map(|(key, _)| python::str(key)).collect(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        other if !other.truthy() => Vec::new(),
        other => vec![python::str(other)],
    }
}

/// `json.dumps()`, without apostrophes: the file has it between these.
fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out.replace('\'', "\\u0027")
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Map(map) => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                pyjson::quote(out, &python::str(key), false);
                out.push_str(": ");
                write_json(value, out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (at, value) in list.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_json(value, out);
            }
            out.push(']');
        }
        Value::Nil => out.push_str("null"),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
        Value::Int(_) | Value::Float(_) => out.push_str(&python::str(value)),
        other => pyjson::quote(out, &python::str(other), false),
    }
}

/// The lines of a file as they are added.
struct Lines<'a> {
    opts: &'a Map,
    iface: &'a str,
    text: String,
}

impl Lines<'_> {
    fn add(&mut self, key: &str, value: &str) {
        self.text += &format!("{key}=\"{value}\"\n");
    }

    /// An option as it was given.
    fn plain(&mut self, option: &str, key: &str) {
        if let Some(value) = self.opts.get(option).filter(|value| value.truthy()) {
            let value = python::str(value);
            self.add(key, &value);
        }
    }

    /// A yes or no, if it is given.
    fn word(&mut self, option: &str, key: &str) -> Result<()> {
        if let Some(on) = word(self.opts, self.iface, option)? {
            self.add(key, yes_no(on));
        }
        Ok(())
    }
}

/// The text of the file.
pub fn file(iface: &str, kind: &str, enabled: bool, opts: &Map) -> Result<String> {
    let mtu = mtu(opts, iface)?;
    let bonding = match kind {
        "bond" => Some(bond::options(opts, iface)?),
        _ => None,
    };
    let mut out = Lines {
        opts,
        iface,
        text: String::new(),
    };
    out.add("DEVICE", iface);
    out.plain("nickname", "NAME");
    if let Some(address) = hwaddr(opts, iface, kind)? {
        out.add("HWADDR", &address);
    }
    out.plain("macaddr", "MACADDR");
    out.plain("uuid", "UUID");
    let user = word(opts, iface, "userctl")?.unwrap_or(false);
    out.add("USERCTL", yes_no(user));
    layer(&mut out, kind)?;
    protocol(&mut out, kind)?;
    out.add("ONBOOT", yes_no(enabled));
    if let Some(on) = word(opts, iface, "onparent")? {
        out.text += &format!("ONPARENT={}\n", yes_no(on));
    }
    out.word("ipv4_failure_fatal", "IPV4_FAILURE_FATAL")?;
    addresses(&mut out)?;
    ipv6(&mut out)?;
    out.plain("srcaddr", "SRCADDR");
    let servers = match opts.get("dns") {
        Some(Value::Nil) => {
            let text = "'NoneType' object is not iterable";
            return Err(CallError::Type(text.to_owned()));
        }
        given => given.map(several),
    };
    // The servers of a peer are wanted beside own ones.
    let wanted = word(opts, iface, "peerdns")?.or(servers.is_some().then_some(true));
    if let Some(on) = wanted {
        out.add("PEERDNS", yes_no(on));
    }
    out.word("peerroutes", "PEERROUTES")?;
    out.word("defroute", "DEFROUTE")?;
    if kind != "bridge" {
        out.plain("bridge", "BRIDGE");
    }
    out.word("stp", "STP")?;
    if let Some(delay) = opts
        .get("delay")
        .filter(|d| **d == Value::Int(0) || d.truthy())
    {
        out.add("DELAY", &python::str(delay));
    }
    if let Some(mtu) = mtu.filter(|mtu| *mtu != 0) {
        out.add("MTU", &mtu.to_string());
    }
    out.plain("zone", "ZONE");
    if kind == "ipip" {
        for key in ["my_inner_ipaddr", "my_outer_ipaddr"] {
            let address = opts.get(key).filter(|a| a.truthy());
            let address = address.ok_or_else(|| invalid(iface, key, &["1.2.3.4"]))?;
            out.text += &format!("{}={}\n", key.to_uppercase(), python::str(address));
        }
    }
    if let Some(options) = bonding {
        out.add("BONDING_OPTS", &options);
    }
    if kind != "bridge" {
        let options = ethtool::options(opts, iface)?;
        if !options.is_empty() {
            out.add("ETHTOOL_OPTS", &options);
        }
    }
    let domains = opts.get("domain").map(several).unwrap_or_default();
    if !domains.is_empty() {
        out.add("DOMAIN", &domains.join(" "));
    }
    let managed = word(opts, iface, "nm_controlled")?.unwrap_or(false);
    out.add("NM_CONTROLLED", yes_no(managed));
    for (at, server) in servers.unwrap_or_default().iter().enumerate() {
        out.add(&format!("DNS{}", at + 1), server);
    }
    Ok(out.text)
}

fn mtu(opts: &Map, iface: &str) -> Result<Option<i64>> {
    let Some(value) = opts.get("mtu") else {
        return Ok(None);
    };
    match number(value)? {
        Some(n) => Ok(Some(n)),
        None => Err(invalid(iface, "mtu", &["integer"])),
    }
}

/// The address of the device that the file is for; types with a device of their own know it.
fn hwaddr(opts: &Map, iface: &str, kind: &str) -> Result<Option<String>> {
    if opts.contains("hwaddr") && opts.contains("macaddr") {
        return Err(attribute(
            "Cannot pass both hwaddr and macaddr. Must use either hwaddr or macaddr",
        ));
    }
    let device = matches!(kind, "eth" | "alias" | "ib" | "slave" | "teamport");
    let Some(given) = opts.get("hwaddr") else {
        if !device || kind == "slave" || iface.starts_with('.') {
            return Ok(None);
        }
        let own = command_helpers::read_file(&format!("/sys/class/net/{iface}/address"));
        let own = own.ok().map(|text| text.trim().to_owned());
        return Ok(own.filter(|text| !text.is_empty()));
    };
    let text = python::str(given);
    let special = device && (given.is_str("auto") || given.is_str("none"));
    if device && !special && !debian_ip::is_mac(given)? {
        return Err(invalid(
            iface,
            &text,
            &["AA:BB:CC:DD:EE:FF", "auto", "none"],
        ));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// What it is a part of, and what kind of device it is.
fn layer(out: &mut Lines<'_>, kind: &str) -> Result<()> {
    let (opts, iface) = (out.opts, out.iface);
    if kind != "teamport" {
        out.plain("master", "MASTER");
    }
    if kind == "slave" {
        out.add("SLAVE", "yes");
    } else {
        out.word("slave", "SLAVE")?;
    }
    if kind != "vlan" {
        out.word("vlan", "VLAN")?;
    } else {
        out.add("VLAN", "yes");
        if let Some(value) = opts.get("reorder_hdr") {
            if truth(value).is_none() {
                return Err(invalid(iface, "reorder_hdr", WORDS));
            }
            out.plain("reorder_hdr", "REORDER_HDR");
        }
        if let Some(id) = opts.get("vlan_id") {
            let positive = match id {
                Value::Int(n) => *n > 0,
                Value::Float(n) => *n > 0.0,
                Value::Bool(yes) => *yes,
                other => {
                    return Err(CallError::Type(format!(
                        "'>' not supported between instances of '{}' and 'int'",
                        python::type_name(other)
                    )));
                }
            };
            if !positive {
                return Err(invalid(iface, "vlan_id", &["Positive integer"]));
            }
            out.plain("vlan_id", "VID");
        }
        if let Some(device) = opts.get("phys_dev") {
            if !device.truthy() {
                return Err(invalid(iface, "phys_dev", &["Non-empty string"]));
            }
            out.plain("phys_dev", "PHYSDEV");
        }
    }
    team(out, kind);
    let named = match kind {
        "eth" => "Ethernet",
        "bond" => "Bond",
        "bridge" => "Bridge",
        "ib" => "InfiniBand",
        "ipip" => "IPIP",
        "vlan"
            if ["reorder_hdr", "vlan_id", "phys_dev"]
                .iter()
                .any(|key| opts.contains(key)) =>
        {
            "Vlan"
        }
        _ => return Ok(()),
    };
    out.add("TYPE", named);
    Ok(())
}

fn team(out: &mut Lines<'_>, kind: &str) {
    let (device, option) = match kind {
        "team" => ("Team", "team_config"),
        "teamport" => ("TeamPort", "team_port_config"),
        _ => return,
    };
    out.add("DEVICETYPE", device);
    if let Some(config) = out.opts.get(option).filter(|config| config.truthy()) {
        out.text += &format!("{}='{}'\n", option.to_uppercase(), json(config));
    }
    if kind == "teamport" {
        let named = out.opts.contains("team_master");
        let option = if named { "team_master" } else { "master" };
        out.plain(option, "TEAM_MASTER");
    }
}

fn protocol(out: &mut Lines<'_>, kind: &str) -> Result<()> {
    let Some(given) = out.opts.get("proto") else {
        if kind == "slave" {
            out.add("BOOTPROTO", "none");
        }
        return Ok(());
    };
    let valid = ["none", "bootp", "dhcp"];
    let name = python::str(given);
    if !valid.contains(&name.as_str()) {
        return Err(invalid(out.iface, &name, &valid));
    }
    // A port has no addresses of its own.
    out.add("BOOTPROTO", if kind == "slave" { "none" } else { &name });
    Ok(())
}

/// The addresses of an option that takes several, with the length of the mask behind a slash.
fn networks(opts: &Map, key: &str, valid: fn(&str) -> bool, error: &str) -> Result<Vec<String>> {
    let all = match opts.get(key) {
        Some(Value::Array(list)) => list.iter().map(python::str).collect(),
        Some(other) if other.truthy() => return Err(attribute(error)),
        _ => Vec::new(),
    };
    match all.iter().all(|one: &String| valid(one)) {
        true => Ok(all),
        false => Err(attribute(error)),
    }
}

fn is_network<A: std::str::FromStr>(text: &str, most: u8) -> bool {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, mask.parse().ok()),
        None => (text, Some(most)),
    };
    address.parse::<A>().is_ok() && mask.is_some_and(|mask: u8| mask <= most)
}

fn addresses(out: &mut Lines<'_>) -> Result<()> {
    let given = |key: &str| out.opts.get(key).is_some_and(Value::truthy);
    if given("prefix") && given("netmask") {
        return Err(attribute("Cannot use prefix and netmask together"));
    }
    for (option, key) in [
        ("ipaddr", "IPADDR"),
        ("ipaddr_start", "IPADDR_START"),
        ("ipaddr_end", "IPADDR_END"),
        ("clonenum_start", "CLONENUM_START"),
        ("netmask", "NETMASK"),
        ("prefix", "PREFIX"),
    ] {
        out.plain(option, key);
    }
    let is_valid = |text: &str| is_network::<Ipv4Addr>(text, 32);
    let all = networks(out.opts, "ipaddrs", is_valid, "ipv4 CIDR is invalid")?;
    for (at, one) in all.iter().enumerate() {
        let Some((address, prefix)) = one.split_once('/') else {
            let text = "not enough values to unpack (expected 2, got 1)";
            return Err(CallError::raised("ValueError", text));
        };
        out.add(&format!("IPADDR{}", at + 1), address);
        out.add(&format!("PREFIX{}", at + 1), prefix);
    }
    out.plain("gateway", "GATEWAY");
    Ok(())
}

fn ipv6(out: &mut Lines<'_>) -> Result<()> {
    let (opts, iface) = (out.opts, out.iface);
    let is_valid = |text: &str| is_network::<Ipv6Addr>(text, 128);
    let more = networks(opts, "ipv6addrs", is_valid, "ipv6 CIDR is invalid")?;
    let enabled = opts.get("enable_ipv6").is_some_and(Value::truthy);
    if enabled {
        out.add("IPV6INIT", "yes");
    }
    // They are checked even if nothing of this is in the file.
    let add = |out: &mut Lines<'_>, option: &str, key: &str| -> Result<()> {
        if let Some(on) = word(opts, iface, option)?.filter(|_| enabled) {
            out.add(key, yes_no(on));
        }
        Ok(())
    };
    add(out, "ipv6_autoconf", "IPV6_AUTOCONF")?;
    add(out, "dhcpv6c", "DHCPV6C")?;
    if enabled {
        out.plain("ipv6addr", "IPV6ADDR");
        out.plain("ipv6gateway", "IPV6_DEFAULTGW");
        if !more.is_empty() {
            out.add("IPV6ADDR_SECONDARIES", &more.join(" "));
        }
    }
    add(out, "ipv6_peerdns", "IPV6_PEERDNS")?;
    add(out, "ipv6_defroute", "IPV6_DEFROUTE")?;
    add(out, "ipv6_peerroutes", "IPV6_PEERROUTES")
}
