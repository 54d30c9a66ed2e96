//! The files of interfaces.

use super::{attribute, options, text};
use crate::execution::declare::Result;
use crate::execution::{CallError, command_helpers, python};
use halite_wire::{Map, Value};
use std::path::Path;

const FILE: &str = "/etc/network/interfaces";
const FOLDER: &str = "/etc/network/interfaces.d/";

/// Options of ethtool in the files.
const ETHTOOL: &[&str] = &[
    "link-speed",
    "link-duplex",
    "ethernet-autoneg",
    "ethernet-port",
    "ethernet-wol",
    "driver-message-level",
    "ethernet-pause-rx",
    "ethernet-pause-tx",
    "ethernet-pause-autoneg",
    "offload-rx",
    "offload-tx",
    "offload-sg",
    "offload-tso",
    "offload-ufo",
    "offload-gso",
    "offload-lro",
    "offload-gro",
    "hardware-irq-coalesce-adaptive-rx",
    "hardware-irq-coalesce-adaptive-tx",
    "hardware-irq-coalesce-rx-usecs",
    "hardware-irq-coalesce-rx-frames",
    "hardware-dma-ring-rx",
    "hardware-dma-ring-rx-mini",
    "hardware-dma-ring-rx-jumbo",
    "hardware-dma-ring-tx",
];

/// Runs code with the map at a path of keys; maps that are missing are made.
fn within<T>(map: &mut Map, path: &[&str], run: impl FnOnce(&mut Map) -> T) -> T {
    let Some((key, rest)) = path.split_first() else {
        return run(map);
    };
    let mut own = match map.get_mut(key) {
        Some(Value::Map(own)) => std::mem::take(own),
        _ => Map::new(),
    };
    let out = within(&mut own, rest, run);
    map.set(*key, own);
    out
}

fn push(map: &mut Map, key: &str, value: Value) {
    match map.get_mut(key) {
        Some(Value::Array(list)) => list.push(value),
        _ => map.set(key, vec![value]),
    }
}

/// All interfaces of the files.
pub fn parse() -> Result<Map> {
    let mut files = Vec::new();
    if Path::new(FILE).is_file() {
        files.push(FILE.to_owned());
    }
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut more: Vec<String> = entries
        .map(|entry| format!("{FOLDER}/{}", entry.file_name().to_string_lossy()))
        .collect();
    more.sort();
    files.extend(more);
    let mut all = Map::new();
    for file in files {
        let text = command_helpers::read_file(&file).map_err(|e| python::os_error(&e, &file))?;
        parse_file(&text, &file, &mut all)?;
    }
    Ok(finished(all))
}

fn parse_file(text: &str, file: &str, all: &mut Map) -> Result<()> {
    // The name and the family whose options follow.
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first().filter(|word| !word.starts_with('#')) else {
            continue;
        };
        if line.starts_with("iface") {
            let &[_, name, family, method] = words.as_slice() else {
                let shown: Vec<Value> = words.iter().map(|w| Value::from(*w)).collect();
                let text = format!("Interface file malformed: {}.", python::str(&shown.into()));
                return Err(attribute(text));
            };
            within(all, &[name, "data", family], |data| {
                data.set("addrfam", family);
                data.set("proto", method);
                data.set("filename", file);
            });
            open = Some((name.to_owned(), family.to_owned()));
        } else if line.starts_with(char::is_whitespace) {
            let value = line
                .trim()
                .strip_prefix(first)
                .unwrap_or_default()
                .trim_start();
            if value.is_empty() {
                let text = "not enough values to unpack (expected 2, got 1)";
                return Err(CallError::raised("ValueError", text));
            }
            match &open {
                Some((name, family)) => within(all, &[name, "data", family], |data| {
                    parse_option(first, value, family, data)
                })?,
                // Without an interface it belongs to nothing.
                None => parse_option(first, value, "", &mut Map::new())?,
            }
        } else if line.starts_with("auto") || line.starts_with("allow-hotplug") {
            let key = if line.starts_with("auto") {
                "enabled"
            } else {
                "hotplug"
            };
            for word in words.iter().skip(1) {
                within(all, &[word], |one| one.set(key, true));
            }
        } else if line.starts_with("source") {
            let source = words.get(1);
            let source =
                source.ok_or_else(|| CallError::raised("IndexError", "list index out of range"))?;
            within(all, &["source", "data"], |data| {
                push(data, "sources", (*source).into())
            });
        }
    }
    Ok(())
}

fn parse_option(name: &str, value: &str, family: &str, data: &mut Map) -> Result<()> {
    let group = |prefix: &str, key: &'static str| {
        let rest = name.split_once(['_', '-']).map(|(_, rest)| rest);
        name.starts_with(prefix).then_some((key, rest))
    };
    if options::is_known(name) {
        let key = name.replace('-', "_");
        let (_, value) = options::checked(name, &value.into(), family)?;
        if key == "address" && data.contains("address") {
            push(data, "addresses", value);
        } else {
            data.set(key, value);
        }
    } else if ETHTOOL.contains(&name) {
        within(data, &["ethtool"], |group| group.set(name, value));
    } else if let Some((key, rest)) = group("bond", "bonding").or(group("bridge", "bridging")) {
        let rest =
            rest.ok_or_else(|| CallError::raised("IndexError", "list index out of range"))?;
        within(data, &[key], |group| group.set(rest, value));
    } else if matches!(
        name,
        "up" | "pre-up" | "post-up" | "down" | "pre-down" | "post-down"
    ) {
        push(
            data,
            &format!("{}_cmds", name.replace('-', "_")),
            value.into(),
        );
    }
    Ok(())
}

/// Without interfaces that have no `iface` line; with the sorted names of grouped options.
fn finished(mut all: Map) -> Map {
    all.0
        .retain(|(_, value)| value.as_map().is_some_and(|one| one.contains("data")));
    for (name, value) in &mut all.0 {
        let Value::Map(one) = value else { continue };
        if name.is_str("source") {
            continue;
        }
        let Some(Value::Map(families)) = one.get_mut("data") else {
            continue;
        };
        for family in ["inet", "inet6"] {
            let Some(Value::Map(data)) = families.get_mut(family) else {
                continue;
            };
            for group in ["ethtool", "bonding", "bridging"] {
                if let Some(keys) = data.get(group).and_then(Value::as_map).map(sorted_keys) {
                    data.set(format!("{group}_keys"), keys);
                }
            }
        }
    }
    all
}

/// The sorted keys of a map.
pub fn sorted_keys(map: &Map) -> Vec<Value> {
    let mut keys: Vec<String> = map.iter().map(|(key, _)| python::str(key)).collect();
    keys.sort();
    keys.into_iter().map(Value::Str).collect()
}

/// Writes all interfaces with this one to the file, or this one alone to a file of its own; its text.
pub fn write(name: &str, data: &Map, file: Option<&str>) -> Result<String> {
    let mut all = parse()?;
    all.set(name, data.clone());
    let (mut whole, mut own) = (String::new(), String::new());
    for (key, value) in all.iter() {
        let (key, one) = (
            python::str(key),
            value.as_map().cloned().unwrap_or_default(),
        );
        let text = if one.str("type") == Some("source") {
            text::source(&one)
        } else {
            text::interface(&key, &one)
        };
        whole.push_str(&text);
        if key == name {
            own = text;
        }
    }
    let path = match file {
        Some(file) if file.starts_with('/') => file.to_owned(),
        Some(file) => format!("{FOLDER}/{file}"),
        None => FILE.to_owned(),
    };
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if !Path::new(folder).exists() {
        // Python's `dirname` has no slashes at its end.
        let folder = folder.trim_end_matches('/');
        return Err(attribute(format!("{folder} cannot be written.")));
    }
    let content = if file.is_some() { &own } else { &whole };
    command_helpers::write_file(&path, content).map_err(|e| python::os_error(&e, &path))?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        let text = "# x\nauto lo eth0\niface lo inet loopback\n\niface eth0 inet static\n  address 10.0.0.1\n\taddress 10.0.0.2\n  \
                    netmask 24\n  bond-mode 1\n  up echo a b\nsource /etc/x\nauto none\n";
        let mut all = Map::new();
        parse_file(text, "f", &mut all).unwrap();
        let all = finished(all);
        assert!(!all.contains("none") && all.contains("source"));
        let shown = text::interface("eth0", all.get("eth0").unwrap().as_map().unwrap());
        let wanted = "auto eth0\niface eth0 inet static\n    address 10.0.0.1\n    address 10.0.0.2\n    netmask 24\n    up echo a b\n    bond-mode 1\n";
        assert_eq!(shown, wanted);
        assert!(parse_file("iface eth0 inet\n", "f", &mut Map::new()).is_err());
    }
}
