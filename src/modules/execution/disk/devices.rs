//! Block devices: attributes, parameters, creating and growing file systems.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell};
use halite_wire::{Map, Value};

/// One line of `blkid`: device, colon, `NAME="value"` pairs.
fn attributes(line: &str) -> (String, Map) {
    let first = line.split_whitespace().next().unwrap_or_default();
    let mut device = first.to_owned();
    device.pop();
    let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
    // Quotes separate names and values.
    let parts: Vec<&str> = rest.split('"').collect();
    let last = parts.len() - 1;
    let parts: Vec<&str> = parts
        .iter()
        .enumerate()
        .filter(|(i, p)| !p.is_empty() || *i == 0 || *i == last)
        .map(|(_, p)| *p)
        .collect();
    let pairs = parts.chunks_exact(2);
    let map = pairs
        .map(|pair| (pair[0].trim_matches('=').trim_matches(' '), pair[1]))
        .collect();
    (device, map)
}

pub(super) fn blkid(call: &mut Call<'_>) -> Result {
    shell::require("blkid")?;
    let device = call.text("device").filter(|d| !d.is_empty());
    let token = call.text("token").filter(|t| !t.is_empty());
    let mut argv = vec!["blkid"];
    match (&device, &token) {
        (Some(device), _) => argv.push(device),
        (None, Some(token)) => argv.extend(["-t", token.as_str()]),
        (None, None) => {}
    }
    let done = shell::run_all(call, &argv)?;
    if done.retcode > 0 {
        return Ok(Map::new().into());
    }
    let lines = done.stdout.lines().filter(|l| !l.is_empty());
    let mut out = Map::new();
    for (device, attributes) in lines.map(attributes) {
        out.set(device, attributes);
    }
    Ok(out.into())
}

const PARAMETERS: [&str; 12] = [
    "getro",
    "getsz",
    "getss",
    "getpbsz",
    "getiomin",
    "getioopt",
    "getalignoff",
    "getmaxsect",
    "getsize",
    "getsize64",
    "getra",
    "getfra",
];

pub(super) fn dump(call: &mut Call<'_>) -> Result {
    let device = python::str(call.arg("device"));
    let wanted = match call.arg("args") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Str(text) => text.chars().map(String::from).collect(),
        _ => Vec::new(),
    };
    parameters(call, &device, &wanted)
}

fn parameters(call: &mut Call<'_>, device: &str, wanted: &[String]) -> Result {
    let options: Vec<String> = PARAMETERS.iter().map(|p| format!("--{p}")).collect();
    let mut argv = vec!["blockdev"];
    argv.extend(options.iter().map(String::as_str));
    argv.push(device);
    let done = shell::run_all(call, &argv)?;
    if done.retcode != 0 {
        return Ok(false.into());
    }
    let lines = done.stdout.lines().filter(|l| !l.is_empty());
    let all: Map = PARAMETERS.iter().copied().zip(lines).collect();
    if wanted.is_empty() {
        return Ok(all.into());
    }
    let mut out = Map::new();
    for name in wanted {
        let Some(value) = all.get(name) else {
            let shown = python::repr(&name.as_str().into());
            return Err(CallError::raised("KeyError", shown));
        };
        out.set(name, value.clone());
    }
    Ok(out.into())
}

pub(super) fn tune(call: &mut Call<'_>) -> Result {
    let mut words: Vec<String> = Vec::new();
    let mut shown = Vec::new();
    let mut invalid = Vec::new();
    for (key, value) in call.bound.kwargs.iter() {
        let key = python::str(key);
        let (switch, is_flag) = match key.as_str() {
            "read-ahead" => ("setra", false),
            "filesystem-read-ahead" => ("setfra", false),
            "read-only" => ("setro", true),
            "read-write" => ("setrw", true),
            name if name.starts_with("__") => continue,
            _ => {
                invalid.push(format!("{key}={}", python::str(value)));
                continue;
            }
        };
        if is_flag && !(value.is_str("True") || *value == Value::Bool(true)) {
            invalid.push(format!("{key}={}", python::str(value)));
            continue;
        }
        words.push(format!("--{switch}"));
        if !is_flag {
            words.push(python::str(value));
        }
        shown.push(match switch {
            "setrw" => "getro".to_owned(),
            other => other.replace("set", "get"),
        });
    }
    if !invalid.is_empty() {
        let text = format!("Invalid keyword arguments: {}", invalid.join(", "));
        return Err(CallError::Invocation(text));
    }
    let device = python::str(call.arg("device"));
    let mut argv = vec!["blockdev"];
    argv.extend(words.iter().map(String::as_str));
    argv.push(&device);
    let done = shell::run_all(call, &argv)?;
    if done.retcode != 0 {
        return Err(CallError::Command(done.stderr));
    }
    parameters(call, &device, &shown)
}

pub(super) fn wipe(call: &mut Call<'_>) -> Result {
    let device = python::str(call.arg("device"));
    let done = shell::run_all(call, &["wipefs", "-a", &device])?;
    if done.retcode != 0 {
        log::error!("Error wiping device {device}: {}", done.stderr);
    }
    Ok((done.retcode == 0).into())
}

pub(super) fn resize2fs(call: &mut Call<'_>) -> Result {
    let device = python::str(call.arg("device"));
    let done = shell::run_all(call, &["resize2fs", &device])?;
    Ok((done.retcode == 0).then_some(true).into())
}

pub(super) fn format(call: &mut Call<'_>) -> Result {
    shell::require("sync")?;
    shell::require("mkfs")?;
    let device = python::str(call.arg("device"));
    let kind = python::str(call.arg("fs_type"));
    let ext = kind.starts_with("ext");
    let mut words = vec!["mkfs".to_owned(), "-t".to_owned(), kind.clone()];
    if let Some(size) = call.text("inode_size") {
        if ext {
            words.extend(["-i".to_owned(), size]);
        } else if kind == "xfs" {
            words.extend(["-i".to_owned(), format!("size={size}")]);
        }
    }
    if let Some(lazy) = call.text("lazy_itable_init").filter(|_| ext) {
        words.extend(["-E".to_owned(), format!("lazy_itable_init={lazy}")]);
    }
    if let Some(fat @ (12 | 16 | 32)) = call.arg("fat").as_int()
        && kind.ends_with("fat")
    {
        words.extend(["-F".to_owned(), fat.to_string()]);
    }
    if call.flag("force") {
        if ext {
            words.push("-F".to_owned());
        } else if kind == "xfs" {
            words.push("-f".to_owned());
        }
    }
    words.push(device);
    let argv: Vec<&str> = words.iter().map(String::as_str).collect();
    let made = shell::retcode(call, &argv)? == 0;
    let synced = shell::retcode(call, &["sync"])? == 0;
    Ok((made && synced).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn lines_of_blkid() {
        let (device, map) = attributes(r#"/dev/sda1: LABEL="a b" UUID="1-2" TYPE="ext4" "#);
        assert_eq!(device, "/dev/sda1");
        assert_eq!(
            map,
            map! {"LABEL" => "a b", "UUID" => "1-2", "TYPE" => "ext4"}
        );
    }
}
