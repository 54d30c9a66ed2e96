//! `disk`: size and usage of file systems, block devices and their tools.

mod devices;
mod drives;

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell, which};
use halite_wire::map;
use halite_wire::{Map, Value};

const ARGS: &[Arg] = &[opt("args", Lit::Nil)];

pub(super) const MODULE: Module = Module {
    name: "disk",
    functions: &[
        Function::new("blkid", devices::blkid, "The block devices with their attributes, optionally only one device or those with a token.")
            .args(&[opt("device", Lit::Nil), opt("token", Lit::Nil)]),
        Function::new("dump", devices::dump, "The parameters of a block device, all or those given.")
            .args(&[req("device"), opt("args", Lit::Nil)]),
        Function::new("format", devices::format, "Creates a file system on a device. Existing data are lost.")
            .inner("format_")
            .args(&[
                req("device"),
                opt("fs_type", Lit::Str("ext4")),
                opt("inode_size", Lit::Nil),
                opt("lazy_itable_init", Lit::Nil),
                opt("fat", Lit::Nil),
                opt("force", Lit::Bool(false)),
            ]),
        Function::new("fstype", |c| { let device = python::str(c.arg("device")); fstype(c, &device) }, "The file system type of a device.")
            .args(&[req("device")]),
        Function::new("get_fstype_from_path", get_fstype_from_path, "The file system type of a path.").args(&[req("path")]),
        Function::new("hdparms", drives::hdparms, "The hdparm parameters of disks.")
            .args(&[req("disks"), opt("args", Lit::Str("aAbBcCdgHiJkMmNnQrRuW"))]),
        Function::new("hpa", drives::hpa, "The host protected area of disks; with a size, sets it.")
            .args(&[req("disks"), opt("size", Lit::Nil)]),
        Function::new("inodeusage", inodeusage, "The inodes of all mounts; args are flags of df.").args(ARGS),
        Function::new("iostat", drives::iostat, "Average iostat values over a number of samples.")
            .args(&[opt("interval", Lit::Int(1)), opt("count", Lit::Int(5)), opt("disks", Lit::Nil)]),
        Function::new("percent", percent, "The usage of all mounts in percent, or of the given one.").args(ARGS),
        Function::new("resize2fs", devices::resize2fs, "Resizes an ext file system to the size of its device.").args(&[req("device")]),
        Function::new("smart_attributes", drives::smart_attributes, "The SMART attributes of a disk, all or those given by number; values selects the columns.")
            .args(&[req("dev"), opt("attributes", Lit::Nil), opt("values", Lit::Nil)]),
        Function::new("tune", devices::tune, "Sets parameters of a block device: read-ahead, filesystem-read-ahead, read-only, read-write.")
            .args(&[req("device")])
            .keywords(),
        Function::new("usage", usage, "Size and usage of all mounts; args are flags of df.").args(ARGS),
        Function::new("wipe", devices::wipe, "Removes the file system signatures of a device.").args(&[req("device")]),
    ],
};

/// The flags passed on to `df`; each is one letter.
fn flags(call: &Call<'_>, caller: &str) -> Result<Option<String>> {
    let words: Vec<String> = match call.arg("args") {
        Value::Nil => return Ok(None),
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Str(text) => text.chars().map(String::from).collect(),
        other => {
            let class = python::type_name(other);
            return Err(CallError::Type(format!("'{class}' object is not iterable")));
        }
    };
    const ALLOWED: [&str; 12] = ["a", "B", "h", "H", "i", "k", "l", "P", "t", "T", "x", "v"];
    if words.iter().any(|w| !ALLOWED.contains(&w.as_str())) {
        return Err(CallError::Command(format!(
            "Invalid flag passed to {caller}"
        )));
    }
    Ok(Some(words.concat()).filter(|f| !f.is_empty()))
}

fn df(call: &mut Call<'_>, options: &str, flags: Option<String>) -> Result<String> {
    let flags = flags.map(|f| format!("-{f}"));
    let mut argv = vec!["df", options];
    argv.extend(flags.as_deref());
    shell::run(call, &argv)
}

fn numeric(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

/// Splits a line of `df`; file system names may contain blanks.
fn split_columns(line: &str) -> Vec<String> {
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    while words.len() >= 2 && !numeric(&words[1]) {
        let second = words.remove(1);
        words[0] = format!("{} {second}", words[0]);
    }
    words
}

fn usage(call: &mut Call<'_>) -> Result {
    let flags = flags(call, "disk.usage")?;
    if !std::path::Path::new("/etc/mtab").is_file() {
        log::error!("df cannot run without /etc/mtab");
        return Ok(Map::new().into());
    }
    let text = df(call, "-P", flags)?;
    let mut out = Map::new();
    let mut held: Option<String> = None;
    for line in text.lines() {
        if line.is_empty() || line.starts_with("Filesystem") {
            continue;
        }
        // A long name is printed on its own line.
        let line = match held.take() {
            Some(head) => format!("{head} {line}"),
            None => line.to_owned(),
        };
        if line.split_whitespace().count() == 1 {
            held = Some(line);
            continue;
        }
        let words = split_columns(&line);
        match words.as_slice() {
            [filesystem, blocks, used, available, capacity, place, ..] => out.set(
                place,
                map! {
                    "filesystem" => filesystem, "1K-blocks" => blocks, "used" => used,
                    "available" => available, "capacity" => capacity,
                },
            ),
            [] | [_] => {}
            _ => out = Map::new(),
        }
    }
    Ok(out.into())
}

fn inodeusage(call: &mut Call<'_>) -> Result {
    let flags = flags(call, "disk.inodeusage")?;
    let text = df(call, "-iP", flags)?;
    let mut out = Map::new();
    for line in text.lines().filter(|l| !l.starts_with("Filesystem")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            &[filesystem, inodes, used, free, share, place, ..] => out.set(
                place,
                map! {
                    "inodes" => inodes, "used" => used, "free" => free, "use" => share,
                    "filesystem" => filesystem,
                },
            ),
            [] => {}
            _ => out = Map::new(),
        }
    }
    Ok(out.into())
}

fn percent(call: &mut Call<'_>) -> Result {
    let text = df(call, "-P", None)?;
    let mut out = Map::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with("Filesystem") {
            continue;
        }
        match split_columns(line).as_slice() {
            [_, _, _, _, capacity, place, ..] => out.set(place, capacity),
            [] | [_] => {}
            _ => out = Map::new(),
        }
    }
    let wanted = call.arg("args");
    if !wanted.truthy() {
        return Ok(out.into());
    }
    let found = wanted.as_str().and_then(|w| out.get(w)).cloned();
    Ok(found.unwrap_or_else(|| Map::new().into()))
}

/// The file system type of a device, from `lsblk` or else `df`.
fn fstype(call: &mut Call<'_>, device: &str) -> Result {
    if which("lsblk").is_none() && which("df").is_none() {
        return Err(CallError::CommandNotFound(
            "None of provided binaries([\"'lsblk'\", \"'df'\"]) were found in $PATH.".into(),
        ));
    }
    if which("lsblk").is_some() {
        let text = shell::run(call, &["lsblk", "-o", "fstype", device])?;
        let kind = text.lines().nth(1).unwrap_or_default().trim();
        if !kind.is_empty() {
            return Ok(kind.into());
        }
    }
    if which("df").is_some() {
        let text = shell::run(call, &["df", "-T", device])?;
        let line = text.lines().nth(1).unwrap_or_default();
        if !line.is_empty() {
            return Ok(line.into());
        }
    }
    Ok("".into())
}

fn get_fstype_from_path(call: &mut Call<'_>) -> Result {
    let path = vec![call.arg("path").clone()];
    let device = call.salt("mount.get_device_from_path", path, Map::new())?;
    fstype(call, &python::str(&device))
}
