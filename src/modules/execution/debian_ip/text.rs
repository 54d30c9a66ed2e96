//! The texts of the files.

use crate::execution::declare::Result;
use crate::execution::{CallError, python};
use halite_wire::{Map, Value};

/// The options of an interface in their order, with their names in the file.
const SHOWN: &[(&str, &str)] = &[
    ("autoconf", "autoconf"),
    ("privext", "privext"),
    ("dhcp", "dhcp"),
    ("hwaddress", "hwaddress"),
    ("hwaddr", "hwaddress"),
    ("vlan_raw_device", "vlan-raw-device"),
    ("address", "address"),
    ("addresses", "address"),
    ("netmask", "netmask"),
    ("metric", "metric"),
    ("gateway", "gateway"),
    ("pointopoint", "pointopoint"),
    ("scope", "scope"),
    ("hostname", "hostname"),
    ("media", "media"),
    ("leasehours", "leasehours"),
    ("leasetime", "leasetime"),
    ("vendor", "vendor"),
    ("client", "client"),
    ("bootfile", "bootfile"),
    ("server", "server"),
    ("mode", "mode"),
    ("endpoint", "endpoint"),
    ("dstaddr", "dstaddr"),
    ("local", "local"),
    ("ttl", "ttl"),
    ("mtu", "mtu"),
    ("provider", "provider"),
    ("unit", "unit"),
    ("options", "options"),
    ("master", "bond-master"),
    ("dns_nameservers", "dns-nameservers"),
    ("wireless_mode", "wireless-mode"),
    ("wpa_ap_scan", "wpa-ap-scan"),
    ("wpa_conf", "wpa-conf"),
    ("wpa_driver", "wpa-driver"),
    ("wpa_group", "wpa-group"),
    ("wpa_key_mgmt", "wpa-key-mgmt"),
    ("wpa_pairwise", "wpa-pairwise"),
    ("wpa_proto", "wpa-proto"),
    ("wpa_psk", "wpa-psk"),
    ("wpa_roam", "wpa-roam"),
    ("wpa_ssid", "wpa-ssid"),
    ("accept_ra", "accept_ra"),
    ("up_cmds", "up"),
    ("down_cmds", "down"),
    ("pre_up_cmds", "pre-up"),
    ("post_up_cmds", "post-up"),
    ("pre_down_cmds", "pre-down"),
    ("post_down_cmds", "post-down"),
];

/// What a value consists of, if it is a list, a map or a text.
fn parts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(list) => Some(list.iter().map(python::str).collect()),
        Value::Map(map) => Some(map.iter().map(|(key, _)| python::str(key)).collect()),
        Value::Str(text) => Some(text.chars().map(String::from).collect()),
        _ => None,
    }
}

/// The lines of an interface.
pub fn interface(name: &str, data: &Map) -> String {
    let mut out = String::new();
    let has = |key: &str| data.get(key).is_some_and(Value::truthy);
    if has("enabled") {
        out += &format!("auto {name}\n");
    }
    if has("hotplug") {
        out += &format!("allow-hotplug {name}\n");
    }
    for family in ["inet", "inet6"] {
        let families = data.get("data").and_then(Value::as_map);
        let one = families
            .and_then(|all| all.get(family))
            .and_then(Value::as_map);
        let Some(one) = one.filter(|one| one.str("addrfam") == Some(family)) else {
            continue;
        };
        if let Some(method) = one.get("proto").filter(|method| method.truthy()) {
            out += &format!("iface {name} {family} {}\n", python::str(method));
            options(one, &mut out);
        }
    }
    out
}

fn options(one: &Map, out: &mut String) {
    for (key, name) in SHOWN {
        let Some(value) = one.get(key).filter(|value| value.truthy()) else {
            continue;
        };
        let joined = parts(value).filter(|_| *key == "dns_nameservers");
        let lines = match (joined, value) {
            (Some(words), _) => vec![words.join(" ")],
            (None, Value::Str(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                vec![python::str(value)]
            }
            (None, other) => parts(other).unwrap_or_default(),
        };
        for line in lines {
            *out += &format!("    {name} {line}\n");
        }
    }
    for (group, prefix) in [
        ("ethtool", ""),
        ("bonding", "bond-"),
        ("bridging", "bridge_"),
    ] {
        let Some(values) = one.get(group).and_then(Value::as_map) else {
            continue;
        };
        let keys = one
            .get(&format!("{group}_keys"))
            .cloned()
            .unwrap_or_default();
        for key in keys.str_list() {
            // Numbers are not shown.
            let text = match values.get(&key) {
                Some(Value::Str(text)) => text.clone(),
                Some(other) => match parts(other) {
                    Some(words) => words.join(" "),
                    None => continue,
                },
                None => continue,
            };
            *out += &format!("    {prefix}{key} {text}\n");
        }
    }
}

/// The lines that name other files.
pub fn source(data: &Map) -> String {
    let sources = data
        .get("data")
        .and_then(Value::as_map)
        .and_then(|d| d.get("sources"));
    let names = sources.map(Value::str_list).unwrap_or_default();
    names
        .iter()
        .map(|name| format!("\nsource {name}\n"))
        .collect()
}

/// The options of the kernel module of a bond.
pub fn bond(name: &str, options: &Map) -> String {
    let words = options
        .iter()
        .map(|(key, value)| format!("{}={} ", python::str(key), python::str(value)));
    format!(
        "alias {name} bonding\noptions {name} {}",
        words.collect::<String>()
    )
}

/// The file of a provider for pppd(8).
pub fn peer(inet: &Map) -> String {
    let text = |key: &str| inet.get(key).map(python::str);
    let Some(user) = inet.get("user").filter(|user| user.truthy()) else {
        return String::new();
    };
    let flag = |key: &str| {
        if inet.get(key).is_some_and(|v| v.is_str("False")) {
            ""
        } else {
            key
        }
        .to_owned()
    };
    let valued = |key: &str, default: &str| match text(key) {
        Some(value) if value.is_empty() => String::new(),
        value => format!("{key} {}", value.as_deref().unwrap_or(default)),
    };
    // Some options have a space after them in stock's files.
    let spaced = |line: String| if line.is_empty() { line } else { line + " " };
    let password = inet.get("password").filter(|p| p.truthy());
    let password = password.map_or(String::new(), |p| format!("password {} ", python::str(p)));
    let asyncmap = inet.get("default-asyncmap").is_some_and(Value::truthy);
    let mut lines = vec![
        format!("user {}", python::str(user)),
        password,
        format!(
            "plugin rp-pppoe.so {}",
            text("pppoe_iface").as_deref().unwrap_or("eth0")
        ),
        String::new(),
        flag("noipdefault"),
        spaced(flag("usepeerdns")),
        flag("defaultroute"),
        String::new(),
        valued("holdoff", "15"),
        valued("maxfail", "0"),
        String::new(),
        flag("hide-password"),
        spaced(valued("lcp-echo-interval", "20")),
        spaced(valued("lcp-echo-failure", "3")),
        String::new(),
        flag("noauth"),
        flag("persist"),
        spaced(valued("mtu", "1492")),
        flag("noaccomp"),
        if asyncmap { "default-asyncmap" } else { "" }.to_owned(),
    ];
    if let Some(name) = text("linkname") {
        lines.extend([String::new(), format!("linkname {name}")]);
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}

/// The script that adds or deletes routes.
pub fn routes(action: &str, iface: &str, routes: &Value) -> Result<String> {
    let mut out = format!(
        "#!/bin/sh\n# {action}\ntest \"${{IFACE}}\" = \"{}\" || exit 0\n",
        word(iface)?
    );
    for route in routes.as_array().unwrap_or_default() {
        let route = route.as_map().cloned().unwrap_or_default();
        let given = |key: &str| route.get(key).filter(|v| v.truthy()).map(python::str);
        let part = |key: &str, before: &str| -> Result<String> {
            match given(key) {
                Some(value) => Ok(format!("{before}{}", word(&value)?)),
                None => Ok(String::new()),
            }
        };
        if let Some(name) = given("name") {
            out += &format!("# {}\n", name.replace('\n', " "));
        }
        out += &format!(
            "ip route {action} {}{} {} dev {iface}{}\n",
            part("ipaddr", "")?,
            part("netmask", "/")?,
            part("gateway", "via ")?,
            part("metric", " metric ")?,
        );
    }
    Ok(out)
}

/// A word of a script: nothing in it may mean anything to the shell.
fn word(text: &str) -> Result<&str> {
    let plain = |c: char| c.is_alphanumeric() || "._:/@+%, -".contains(c);
    if text.chars().all(plain) {
        Ok(text)
    } else {
        Err(CallError::Invocation(format!(
            "{text} is not part of a route"
        )))
    }
}
