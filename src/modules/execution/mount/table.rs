//! The tables `fstab` and `vfstab`: reading, adding, changing and removing entries.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell};
use super::joined;
use crate::execution::command_helpers;
use halite_wire::{Map, Value};
use std::path::Path;

/// The columns of a table.
struct TableFormat {
    keys: &'static [&'static str],
    /// Minimum number of fields; missing ones are `0`.
    least: usize,
    line: fn(&Entry) -> String,
    /// File system types identified by mount point instead of device.
    special: &'static [&'static str],
}

/// Values by column.
type Entry = Vec<(&'static str, String)>;

const FSTAB: TableFormat = TableFormat {
    keys: &["device", "name", "fstype", "opts", "dump", "pass_num"],
    least: 4,
    line: |e| {
        format!(
            "{}\t\t{}\t{}\t{}\t{} {}\n",
            get(e, "device"),
            get(e, "name"),
            get(e, "fstype"),
            get(e, "opts"),
            get(e, "dump"),
            get(e, "pass_num")
        )
    },
    special: &[
        "none",
        "tmpfs",
        "sysfs",
        "proc",
        "fusectl",
        "debugfs",
        "securityfs",
        "devtmpfs",
        "cgroup",
        "nfs",
        "nfs4",
        "glusterfs",
        "btrfs",
        "ceph",
    ],
};

const VFSTAB: TableFormat = TableFormat {
    keys: &[
        "device",
        "device_fsck",
        "name",
        "fstype",
        "pass_fsck",
        "mount_at_boot",
        "opts",
    ],
    least: 7,
    line: |e| {
        format!(
            "{:<11} {:<3} {:<19} {:<8} {:<3} {:<6} {}\n",
            get(e, "device"),
            get(e, "device_fsck"),
            get(e, "name"),
            get(e, "fstype"),
            get(e, "pass_fsck"),
            get(e, "mount_at_boot"),
            get(e, "opts")
        )
    },
    special: &["devfs", "proc", "ctfs", "objfs", "sharefs", "fs", "tmpfs"],
};

fn get<'a>(entry: &'a Entry, key: &str) -> &'a str {
    let found = entry.iter().find(|(k, _)| *k == key);
    found.map_or("", |(_, value)| value.as_str())
}

impl TableFormat {
    /// The entry on a line; `None` for comments and lines with a wrong number of fields.
    fn read(&self, line: &str) -> Option<Entry> {
        if line.starts_with('#') {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < self.least || words.len() > self.keys.len() {
            return None;
        }
        let words = words.into_iter().chain(std::iter::repeat("0"));
        let pairs = self.keys.iter().zip(words);
        Some(pairs.map(|(key, word)| (*key, word.to_owned())).collect())
    }
}

/// Whether an entry has all values of `wanted`, ignoring the order of options.
fn matches(wanted: &Entry, entry: &Entry) -> bool {
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split(',').map(str::to_owned).collect();
        words.sort();
        words
    };
    wanted.iter().all(|(key, value)| match *key {
        "opts" => sorted(get(entry, key)) == sorted(value),
        key => get(entry, key) == value,
    })
}

/// Lines with their ends.
pub(super) fn lines(config: &str) -> Result<Vec<String>> {
    let text = command_helpers::read_file(config).map_err(|e| {
        let why = python::os_text(&e, config);
        CallError::Command(format!("Couldn't read from {config}: {why}"))
    })?;
    Ok(text.split_inclusive('\n').map(str::to_owned).collect())
}

pub(super) fn fstab(call: &mut Call<'_>) -> Result {
    let config = python::str(call.arg("config"));
    let mut out = Map::new();
    if !Path::new(&config).is_file() {
        return Ok(out.into());
    }
    let text = command_helpers::read_file(&config).map_err(|e| python::os_error(&e, &config))?;
    for entry in text.lines().filter_map(|line| FSTAB.read(line)) {
        let mut name = get(&entry, "name").to_owned();
        while out.contains(&name) {
            name.push('_');
        }
        let mut map = Map::new();
        for (key, value) in entry.iter().filter(|(key, _)| *key != "name") {
            match *key {
                "opts" => {
                    let list: Vec<Value> = value.split(',').map(Into::into).collect();
                    map.set("opts", list);
                }
                "pass_num" => map.set("pass", value),
                key => map.set(key, value),
            }
        }
        out.set(name, map);
    }
    Ok(out.into())
}

pub(super) fn remove(call: &mut Call<'_>) -> Result {
    let config = python::str(call.arg("config"));
    // Nil is ignored.
    let wanted: Entry = ["name", "device"]
        .into_iter()
        .filter_map(|key| Some((key, call.text(key)?)))
        .collect();
    let mut lines = lines(&config)?;
    let before = lines.len();
    lines.retain(|line| {
        !FSTAB
            .read(line)
            .is_some_and(|entry| matches(&wanted, &entry))
    });
    if lines.len() < before {
        command_helpers::write_file(&config, &lines.concat()).map_err(|e| {
            let why = python::os_text(&e, &config);
            CallError::Command(format!("Couldn't write to {config}: {why}"))
        })?;
    }
    Ok(true.into())
}

pub(super) fn set_fstab(call: &mut Call<'_>) -> Result {
    let escaped = |text: String| text.replace("\\ ", "\\040");
    let entry = FSTAB
        .keys
        .iter()
        .filter_map(|key| {
            let value = match *key {
                "opts" => escaped(joined(call.arg("opts"))),
                "device" => escaped(call.text("device")?),
                key => call.text(key)?,
            };
            Some((*key, value))
        })
        .collect();
    set(call, &FSTAB, entry)
}

pub(super) fn set_vfstab(call: &mut Call<'_>) -> Result {
    let entry = VFSTAB
        .keys
        .iter()
        .filter_map(|key| {
            let value = match *key {
                "opts" => joined(call.arg("opts")),
                "mount_at_boot" if !call.arg(key).is_str("yes") => "no".to_owned(),
                key => call.text(key)?,
            };
            Some((*key, value))
        })
        .collect();
    set(call, &VFSTAB, entry)
}

/// The fields that identify an entry's line.
fn criteria(call: &Call<'_>, kind: &TableFormat, entry: &Entry) -> Result<Entry> {
    let keys: Vec<String> = match call.arg("match_on") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Str(word) if word == "auto" => {
            let special = kind.special.contains(&get(entry, "fstype"));
            vec![if special { "name" } else { "device" }.to_owned()]
        }
        Value::Str(word) => vec![word.clone()],
        _ => {
            let text = "match_on must be a string or list of strings";
            return Err(CallError::Command(text.into()));
        }
    };
    let pick = |key: &String| entry.iter().find(|(k, _)| k == key).cloned();
    let picked: Option<Entry> = keys.iter().map(pick).collect();
    picked.ok_or_else(|| {
        let unknown: Vec<&str> = keys
            .iter()
            .map(String::as_str)
            .filter(|k| !kind.keys.contains(k))
            .collect();
        let text = format!("Unrecognized keys in match_on: \"{}\"", unknown.join(", "));
        CallError::Command(text)
    })
}

fn set(call: &mut Call<'_>, kind: &TableFormat, entry: Entry) -> Result {
    let config = python::str(call.arg("config"));
    let wanted = criteria(call, kind, &entry)?;
    if !Path::new(&config).is_file() {
        return Err(CallError::Command(format!("Bad config file \"{config}\"")));
    }
    let own = (kind.line)(&entry);
    let mut outcome = None;
    let mut lines = lines(&config)?;
    for line in &mut lines {
        let Some(old) = kind.read(line).filter(|old| matches(&wanted, old)) else {
            continue;
        };
        if matches(&entry, &old) || call.flag("not_change") {
            outcome = Some("present");
        } else {
            outcome = Some("change");
            line.clone_from(&own);
        }
    }
    if outcome.is_none() {
        lines.push(own);
    }
    let outcome = outcome.unwrap_or("new");
    if outcome != "present" && !shell::test_mode(call) {
        command_helpers::write_file(&config, &lines.concat())
            .map_err(|_| CallError::Command(format!("File not writable {config}")))?;
    }
    Ok(outcome.into())
}
