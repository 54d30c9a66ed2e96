//! Tables from `/proc` for `status`.

use super::super::declare::Result;
use super::super::{Call, CallError};
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

/// Stock returns an empty map for an unreadable table.
fn table(path: &str) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A number if the text is one, like `_number()`.
fn number(text: &str) -> Value {
    if let Ok(int) = text.parse::<u64>() {
        return int.into();
    }
    text.parse::<f64>()
        .map_or_else(|_| text.into(), Value::Float)
}

fn numbers(words: &[&str]) -> Vec<Value> {
    words.iter().map(|w| number(w)).collect()
}

fn field(words: &[&str], index: usize) -> Result {
    words
        .get(index)
        .map(|w| number(w))
        .ok_or_else(|| CallError::raised("IndexError", "list index out of range"))
}

/// Maps fields by name.
fn fields(words: &[&str], names: &[(&str, usize)]) -> Result {
    let mut out = Map::new();
    for (name, index) in names {
        out.set(*name, field(words, *index)?);
    }
    Ok(out.into())
}

pub(super) fn cpustats(_: &mut Call<'_>) -> Result {
    const CPU: &[(&str, usize)] = &[
        ("idle", 4),
        ("iowait", 5),
        ("irq", 6),
        ("nice", 2),
        ("softirq", 7),
        ("steal", 8),
        ("system", 3),
        ("user", 1),
    ];
    let mut out = Map::new();
    for line in table("/proc/stat").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else {
            continue;
        };
        let value = match *first {
            "cpu" => fields(&words, CPU)?,
            "intr" => map! {"total" => field(&words, 1)?, "irqs" => numbers(&words[2..])}.into(),
            "softirq" => {
                map! {"total" => field(&words, 1)?, "softirqs" => numbers(&words[2..])}.into()
            }
            _ => field(&words, 1)?,
        };
        out.set(*first, value);
    }
    Ok(out.into())
}

pub(super) fn meminfo(_: &mut Call<'_>) -> Result {
    let mut out = Map::new();
    for line in table("/proc/meminfo").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[name, value, ..] = words.as_slice() else {
            continue;
        };
        let mut entry = map! {"value" => value};
        if let Some(unit) = words.get(2) {
            entry.set("unit", *unit);
        }
        out.set(name.replace(':', ""), entry);
    }
    Ok(out.into())
}

pub(super) fn cpuinfo(_: &mut Call<'_>) -> Result {
    let mut out = Map::new();
    for line in table("/proc/cpuinfo").lines().filter(|l| !l.is_empty()) {
        let mut parts = line.split(':');
        let name = parts.next().unwrap_or_default().trim();
        let value = parts.next().unwrap_or_default().trim();
        if name == "flags" {
            let flags: Vec<Value> = value.split_whitespace().map(Into::into).collect();
            out.set(name, flags);
        } else {
            out.set(name, value);
        }
    }
    Ok(out.into())
}

pub(super) fn diskstats(_: &mut Call<'_>) -> Result {
    const FIELDS: &[(&str, usize)] = &[
        ("major", 0),
        ("minor", 1),
        ("device", 2),
        ("reads_issued", 3),
        ("reads_merged", 4),
        ("sectors_read", 5),
        ("ms_spent_reading", 6),
        ("writes_completed", 7),
        ("writes_merged", 8),
        ("sectors_written", 9),
        ("ms_spent_writing", 10),
        ("io_in_progress", 11),
        ("ms_spent_in_io", 12),
        ("weighted_ms_spent_in_io", 13),
    ];
    let mut out = Map::new();
    for line in table("/proc/diskstats").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(name) = words.get(2) {
            out.set(*name, fields(&words, FIELDS)?);
        }
    }
    Ok(out.into())
}

pub(super) fn vmstats(_: &mut Call<'_>) -> Result {
    let table = table("/proc/vmstat");
    let pairs = table.lines().filter_map(|line| line.split_once(' '));
    let out: Map = pairs.map(|(k, v)| (k, number(v.trim()))).collect();
    Ok(out.into())
}

/// Lines come in pairs: names, then values. Stock drops the last column.
pub(super) fn netstats(_: &mut Call<'_>) -> Result {
    let table = table("/proc/net/netstat");
    let mut out = Map::new();
    let mut header: Vec<&str> = vec![""];
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else {
            continue;
        };
        if *first != header[0] {
            header = words;
            continue;
        }
        let count = header.len() - 1;
        let row: Map = header
            .iter()
            .zip(&words)
            .take(count)
            .skip(1)
            .map(|(name, value)| (*name, number(value)))
            .collect();
        out.set(first.replace(':', ""), row);
    }
    Ok(out.into())
}

pub(super) fn netdev(_: &mut Call<'_>) -> Result {
    const FIELDS: &[(&str, usize)] = &[
        ("rx_bytes", 0),
        ("rx_compressed", 6),
        ("rx_drop", 3),
        ("rx_errs", 2),
        ("rx_fifo", 4),
        ("rx_frame", 5),
        ("rx_multicast", 7),
        ("rx_packets", 1),
        ("tx_bytes", 8),
        ("tx_carrier", 14),
        ("tx_colls", 13),
        ("tx_compressed", 15),
        ("tx_drop", 11),
        ("tx_errs", 10),
        ("tx_fifo", 12),
        ("tx_packets", 9),
    ];
    let mut out = Map::new();
    for line in table("/proc/net/dev").lines() {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let mut entry = map! {"iface" => name.trim()};
        for (key, index) in FIELDS {
            entry.set(*key, field(&words, *index)?);
        }
        out.set(name.trim(), entry);
    }
    Ok(out.into())
}

pub(super) fn version(_: &mut Call<'_>) -> Result {
    match std::fs::read_to_string("/proc/version") {
        Ok(text) => Ok(text.trim().into()),
        Err(_) => Ok(Map::new().into()),
    }
}

/// Arguments that start with a slash are paths, all others file system types.
pub(super) fn diskusage(call: &mut Call<'_>) -> Result {
    let mut selected: Vec<String> = Vec::new();
    let mut kinds: Vec<String> = Vec::new();
    for arg in &call.bound.varargs {
        let Some(text) = arg.as_str() else {
            let class = super::super::python::type_name(arg);
            let text = format!("'{class}' object has no attribute 'startswith'");
            return Err(CallError::raised("AttributeError", text));
        };
        if text.starts_with('/') {
            selected.push(text.to_owned())
        } else {
            kinds.push(text.to_owned())
        }
    }
    if call.bound.varargs.is_empty() {
        kinds.push("*".to_owned());
    }
    if !kinds.is_empty() {
        for line in table("/proc/mounts").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[_, place, kind, ..] = words.as_slice() else {
                continue;
            };
            if kinds.iter().any(|k| fnmatch(kind, k)) {
                selected.push(place.to_owned());
            }
        }
    }
    let mut out = Map::new();
    for path in selected.iter().filter(|p| Path::new(p).exists()) {
        let entry = match nix::sys::statvfs::statvfs(path.as_str()) {
            Ok(stats) => {
                let size = stats.block_size();
                map! {
                    "available" => stats.blocks_available().saturating_mul(size),
                    "total" => stats.blocks().saturating_mul(size),
                }
            }
            Err(_) => map! {"available" => Value::Nil, "total" => Value::Nil},
        };
        out.set(path.as_str(), entry);
    }
    Ok(out.into())
}
