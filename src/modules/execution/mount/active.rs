//! Current mounts, from kernel tables.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell};
use halite_wire::map;
use halite_wire::{Map, Value};

/// Devices by mount point, as `mount` prints them.
fn devices_by_mount_point(call: &mut Call<'_>) -> Result<Map> {
    let text = shell::stdout(call, &["mount", "-l"])?;
    let mut out = Map::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let &[device, _, place, ..] = words.as_slice() {
            out.set(place, device);
        }
    }
    Ok(out)
}

fn table(path: &str) -> Result<String> {
    let bytes =
        std::fs::read(path).map_err(|_| CallError::Command(format!("File not readable {path}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Options as a list, with user and group names as ids.
fn options(text: &str) -> Vec<Value> {
    let number = |name: &str, value: &str| -> String {
        let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        let id = match name {
            _ if digits => None,
            "uid" => nix::unistd::User::from_name(value)
                .ok()
                .flatten()
                .map(|u| u.uid.as_raw()),
            _ => nix::unistd::Group::from_name(value)
                .ok()
                .flatten()
                .map(|g| g.gid.as_raw()),
        };
        id.map_or_else(|| value.to_owned(), |id| id.to_string())
    };
    let option = |option: &str| {
        let option = match option.split_once('=') {
            Some((name @ ("uid" | "gid"), value)) => {
                let value = value.split('=').next().unwrap_or_default();
                format!("{name}={}", number(name, value))
            }
            _ => option.to_owned(),
        };
        option.replace("\\040", "\\ ").into()
    };
    text.split(',').map(option).collect()
}

/// The map of `mount.active`.
pub(super) fn mounts(call: &mut Call<'_>) -> Result<Map> {
    let devices = devices_by_mount_point(call)?;
    let mut out = Map::new();
    for line in table("/proc/self/mounts")?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let &[device, place, kind, opts, ..] = words.as_slice() {
            let entry = map! {
                "device" => device, "alt_device" => devices.get(place).cloned(),
                "fstype" => kind, "opts" => options(opts),
            };
            out.set(place, entry);
        }
    }
    Ok(out)
}

fn extended(call: &mut Call<'_>) -> Result<Map> {
    let devices = devices_by_mount_point(call)?;
    let table = table("/proc/self/mountinfo")?;
    let known = call.salt("disk.blkid", Vec::new(), Map::new())?;
    let mut out = Map::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let bar = words.iter().position(|w| *w == "-").unwrap_or(words.len());
        let (Some(&[id, parent, number, root, place, opts]), Some(&[kind, device, superopts])) = (
            words.first_chunk::<6>(),
            words
                .get(bar + 1..)
                .and_then(|tail| tail.first_chunk::<3>()),
        ) else {
            continue;
        };
        let (major, minor) = number.split_once(':').unwrap_or((number, ""));
        let attributes = known.as_map().and_then(|m| m.get(device)?.as_map());
        let attribute = |name: &str| attributes.and_then(|a| a.get(name)).map(python::str);
        let entry = map! {
            "mountid" => id,
            "parentid" => parent,
            "major" => major,
            "minor" => minor,
            "root" => root,
            "opts" => options(opts),
            "fstype" => kind,
            "device" => device.replace("\\040", "\\ "),
            "alt_device" => devices.get(place).cloned(),
            "superopts" => options(superopts),
            "device_uuid" => attribute("UUID").map(|u| u.to_lowercase()),
            "device_label" => attribute("LABEL"),
        };
        out.set(place, entry);
    }
    Ok(out)
}

pub(super) fn active(call: &mut Call<'_>) -> Result {
    if !call.flag("extended") {
        return mounts(call).map(Into::into);
    }
    match extended(call) {
        Err(CallError::Command(_)) => mounts(call).map(Into::into),
        other => other.map(Into::into),
    }
}
