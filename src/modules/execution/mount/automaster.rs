//! The automounter's tables.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell};
use super::joined;
use super::table::lines;
use crate::execution::command_helpers;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::io::Write;
use std::path::Path;

/// The three fields of an entry: mount point below `/..`, options, type and device.
fn entry(line: &str) -> Option<[&str; 3]> {
    if line.starts_with('#') {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    words.try_into().ok()
}

fn device(word: &str) -> Result<&str> {
    word.split(':')
        .nth(1)
        .ok_or_else(|| CallError::raised("IndexError", "list index out of range"))
}

pub(super) fn automaster(call: &mut Call<'_>) -> Result {
    entries(&python::str(call.arg("config"))).map(Into::into)
}

fn entries(config: &str) -> Result<Map> {
    let mut out = Map::new();
    if !Path::new(config).is_file() {
        return Ok(out);
    }
    let text = command_helpers::read_file(config).map_err(|e| python::os_error(&e, config))?;
    for [name, opts, target] in text.lines().filter_map(entry) {
        let mut opts = opts.split(',');
        let kind = opts.next().unwrap_or_default();
        let opts: Vec<Value> = opts.map(Into::into).collect();
        let map = map! {"device" => device(target)?, "fstype" => kind, "opts" => opts};
        out.set(name.replace("/..", ""), map);
    }
    Ok(out)
}

pub(super) fn remove(call: &mut Call<'_>) -> Result {
    let config = python::str(call.arg("config"));
    let name = python::str(call.arg("name"));
    let wanted = call.text("device").filter(|d| !d.is_empty());
    if !entries(&config)?.contains(&name) {
        return Ok(true.into());
    }
    let mut kept = String::new();
    for line in lines(&config)? {
        let gone = match entry(&line) {
            Some([own, _, target]) if own.replace("/..", "") == name => match &wanted {
                Some(wanted) => device(target)? == wanted,
                None => true,
            },
            _ => false,
        };
        if !gone {
            kept.push_str(&line);
        }
    }
    command_helpers::write_file(&config, &kept).map_err(|e| {
        let why = python::os_text(&e, &config);
        CallError::Command(format!("Couldn't write to {config}: {why}"))
    })?;
    shell::run(call, &["automount", "-cv"])?;
    Ok(true.into())
}

/// Registers a new table in `/etc/auto_master`.
fn reload_automount(config: &str) -> Result<()> {
    const MASTER: &str = "/etc/auto_master";
    std::fs::write(config, "").map_err(|e| python::os_error(&e, config))?;
    let old = std::fs::read(MASTER).map_err(|e| python::os_error(&e, MASTER))?;
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(MASTER)
        .map_err(|e| python::os_error(&e, MASTER))?;
    let end = if old.last().is_some_and(|b| *b != b'\n') {
        "\n"
    } else {
        ""
    };
    file.write_all(format!("{end}/-\t\t\t{config}\n").as_bytes())
        .map_err(|e| python::os_error(&e, MASTER))
}

pub(super) fn set(call: &mut Call<'_>) -> Result {
    let config = python::str(call.arg("config"));
    if !Path::new(&config).is_file() {
        reload_automount(&config)?;
    }
    let kind = python::str(call.arg("fstype"));
    let name = format!("/..{}", python::str(call.arg("name")));
    let options = format!("-fstype={kind},{}", joined(call.arg("opts")));
    let mut target = format!("{kind}:{}", python::str(call.arg("device")));
    if kind == "smbfs" {
        target = target.replace(&kind, "");
    }
    let own = format!("{name}\t{options}\t{target}\n");
    let (mut change, mut present) = (false, false);
    let mut kept = String::new();
    for line in lines(&config)? {
        match entry(&line) {
            Some([n, o, t]) if n == name || t == target => {
                present = true;
                if call.flag("not_change") {
                    continue;
                }
                change |= n != name || o != options || t != target;
                if change {
                    kept.push_str(&own);
                }
            }
            _ => kept.push_str(&line),
        }
    }
    let test = shell::test_mode(call);
    let store = |text: &str| {
        command_helpers::write_file(&config, text)
            .map_err(|_| CallError::Command(format!("File not writable {config}")))
    };
    if change {
        if !test {
            store(&kept)?;
        }
        return Ok("change".into());
    }
    if present {
        return Ok("present".into());
    }
    if !test {
        kept.push_str(&own);
        store(&kept)?;
    }
    Ok("new".into())
}
