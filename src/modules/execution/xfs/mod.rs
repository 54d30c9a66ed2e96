//! `xfs`: creates, changes, dumps and inspects XFS file systems.

mod parse;

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::shell::CommandOutput;
use super::{Call, CallError, python, shell, which};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "xfs",
    functions: &[
        Function::new(
            "defragment",
            defragment,
            "Defragments a mounted file system.",
        )
        .args(&[req("device")])
        .names(&["device"]),
        Function::new("devices", devices, "The devices with an XFS file system."),
        Function::new("dump", dump, "Dumps a file system to a file.")
            .args(&[
                req("device"),
                req("destination"),
                opt("level", Lit::Int(0)),
                opt("label", Lit::Nil),
                opt("noerase", Lit::Nil),
            ])
            .names(&["device"]),
        Function::new(
            "estimate",
            estimate,
            "The space a directory would need on XFS.",
        )
        .args(&[req("path")]),
        Function::new("info", info, "The geometry of a file system.")
            .args(&[req("device")])
            .names(&["device"]),
        Function::new("inventory", inventory, "The inventory of dumps."),
        Function::new(
            "mkfs",
            mkfs,
            "Creates a file system on a device. Existing data are lost.",
        )
        .args(&[
            req("device"),
            opt("label", Lit::Nil),
            opt("ssize", Lit::Nil),
            opt("noforce", Lit::Nil),
            opt("bso", Lit::Nil),
            opt("gmo", Lit::Nil),
            opt("ino", Lit::Nil),
            opt("lso", Lit::Nil),
            opt("rso", Lit::Nil),
            opt("nmo", Lit::Nil),
            opt("dso", Lit::Nil),
        ])
        .names(&["device"]),
        Function::new(
            "modify",
            modify,
            "Changes label, lazy counters or UUID of a file system.",
        )
        .args(&[
            req("device"),
            opt("label", Lit::Nil),
            opt("lazy_counting", Lit::Nil),
            opt("uuid", Lit::Nil),
        ])
        .names(&["device"]),
        Function::new(
            "prune_dump",
            prune_dump,
            "Removes a dump from the inventory.",
        )
        .args(&[req("sessionid")]),
    ],
};

/// Runs a program and raises its error output on failure.
fn checked(call: &mut Call<'_>, argv: &[&str]) -> Result<CommandOutput> {
    let done = shell::run_all(call, argv)?;
    if done.retcode != 0 && !done.stderr.is_empty() {
        Err(CallError::Command(done.stderr))
    } else {
        Ok(done)
    }
}

fn info(call: &mut Call<'_>) -> Result {
    let device = python::str(call.arg("device"));
    let done = shell::run_all(call, &["xfs_info", &device])?;
    if !done.stderr.is_empty() {
        let text = done.stderr.replace("xfs_info:", "");
        return Err(CallError::Command(text.trim().to_owned()));
    }
    parse::info(&done.stdout).map(Into::into)
}

fn dump(call: &mut Call<'_>) -> Result {
    if which("xfsdump").is_none() {
        return Err(CallError::Command(
            "Utility \"xfsdump\" has to be installed or missing.".into(),
        ));
    }
    let device = python::str(call.arg("device"));
    let label = call
        .text("label")
        .filter(|l| !l.is_empty())
        .unwrap_or_else(|| {
            let now = jiff::Zoned::now().strftime("%Y.%m.%d, %H:%M").to_string();
            format!("XFS dump for \"{device}\" of {now}")
        });
    let (level, target) = (
        python::str(call.arg("level")),
        python::str(call.arg("destination")),
    );
    let mut argv = vec!["xfsdump", "-F"];
    if !call.flag("noerase") {
        argv.push("-E");
    }
    argv.extend(["-L", &label, "-l", &level, "-f", &target, &device]);
    let done = checked(call, &argv)?;
    Ok(parse::dumped(&done.stdout).into())
}

fn inventory(call: &mut Call<'_>) -> Result {
    let done = checked(call, &["xfsrestore", "-I"])?;
    Ok(parse::inventory(&done.stdout).into())
}

fn prune_dump(call: &mut Call<'_>) -> Result {
    let session = python::str(call.arg("sessionid"));
    let done = checked(call, &["xfsinvutil", "-s", &session, "-F"])?;
    let pruned = parse::pruned(&done.stdout);
    if pruned.str("uuid") == Some(&session) {
        Ok(pruned.into())
    } else {
        Err(CallError::Command(format!(
            "Session UUID \"{session}\" was not found."
        )))
    }
}

fn devices(call: &mut Call<'_>) -> Result {
    let done = checked(call, &["blkid", "-o", "export"])?;
    Ok(parse::devices(&done.stdout, &mounts()).into())
}

/// XFS mount points by device.
fn mounts() -> Map {
    let table = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut out = Map::new();
    for line in table.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let &[device, place, "xfs", options, ..] = words.as_slice() {
            let options: Vec<Value> = options.split(',').map(Into::into).collect();
            out.set(device, map! {"mount_point" => place, "options" => options});
        }
    }
    out
}

fn estimate(call: &mut Call<'_>) -> Result {
    let path = python::str(call.arg("path"));
    if !Path::new(&path).exists() {
        return Err(CallError::Command(format!(
            "Path \"{path}\" was not found."
        )));
    }
    let done = checked(call, &["xfs_estimate", "-v", &path])?;
    parse::estimate(&done.stdout).map(Into::into)
}

/// Whether a text is a list of `name=value`.
///
/// # Errors
/// An item is not a pair.
fn is_list(value: &Value) -> Result<bool, ()> {
    let Value::Str(text) = value else {
        return if value.truthy() { Err(()) } else { Ok(false) };
    };
    if !text.contains('=') {
        return Ok(false);
    }
    let pairs = text.split(',').all(|part| part.split('=').count() == 2);
    if pairs { Ok(true) } else { Err(()) }
}

fn mkfs(call: &mut Call<'_>) -> Result {
    let mut words = vec!["mkfs.xfs".to_owned()];
    if let Some(label) = call.text("label").filter(|l| !l.is_empty()) {
        words.extend(["-L".to_owned(), label]);
    }
    if let Some(size) = call.text("ssize").filter(|s| !s.is_empty()) {
        words.extend(["-s".to_owned(), size]);
    }
    for (option, name) in [
        ("-b", "bso"),
        ("-m", "gmo"),
        ("-n", "nmo"),
        ("-i", "ino"),
        ("-d", "dso"),
        ("-l", "lso"),
        ("-r", "rso"),
    ] {
        let value = call.arg(name);
        let shown = python::str(value);
        match is_list(value) {
            Ok(true) => words.extend([option.to_owned(), shown]),
            Ok(false) => {}
            Err(()) => {
                let text = format!("Wrong parameters \"{shown}\" for option \"{option}\"");
                return Err(CallError::Command(text));
            }
        }
    }
    if !call.flag("noforce") {
        words.push("-f".to_owned());
    }
    words.push(python::str(call.arg("device")));
    let argv: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = checked(call, &argv)?;
    parse::info(&done.stdout).map(Into::into)
}

fn modify(call: &mut Call<'_>) -> Result {
    let device = python::str(call.arg("device"));
    let label = call.text("label").filter(|l| !l.is_empty());
    let (lazy, uuid) = (call.arg("lazy_counting").clone(), call.arg("uuid").clone());
    if label.is_none() && lazy.is_nil() && uuid.is_nil() {
        let text = format!("Nothing specified for modification for \"{device}\" device");
        return Err(CallError::Command(text));
    }
    let mut argv = vec!["xfs_admin"];
    if let Some(label) = &label {
        argv.extend(["-L", label.as_str()]);
    }
    match &lazy {
        Value::Bool(false) => argv.extend(["-c", "0"]),
        lazy if lazy.truthy() => argv.extend(["-c", "1"]),
        _ => {}
    }
    match &uuid {
        Value::Bool(false) => argv.extend(["-U", "nil"]),
        uuid if uuid.truthy() => argv.extend(["-U", "generate"]),
        _ => {}
    }
    argv.push(&device);
    checked(call, &argv)?;
    let done = checked(call, &["blkid", "-o", "export", &device])?;
    Ok(parse::devices(&done.stdout, &mounts()).into())
}

fn defragment(call: &mut Call<'_>) -> Result {
    let device = python::str(call.arg("device"));
    if device == "/" {
        return Err(CallError::Command("Root is not a device.".into()));
    }
    if !mounts().contains(&device) {
        let text = format!("Device \"{device}\" is not mounted");
        return Err(CallError::Command(text));
    }
    let done = checked(call, &["xfs_fsr", &device])?;
    Ok(map! {"log" => done.stdout}.into())
}
