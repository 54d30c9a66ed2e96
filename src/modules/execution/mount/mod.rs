//! `mount`: mounts, swap, and their tables.

mod active;
mod automaster;
mod cache;
mod table;

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell, which};
use crate::execution::command_helpers;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

const FSTAB: Arg = opt("config", Lit::Str("/etc/fstab"));
const VFSTAB: Arg = opt("config", Lit::Str("/etc/vfstab"));
const AUTO: Arg = opt("config", Lit::Str("/etc/auto_salt"));
const AIX: Arg = opt("config", Lit::Str("/etc/filesystems"));
const TEST: Arg = opt("test", Lit::Bool(false));
const MATCH_ON: Arg = opt("match_on", Lit::Str("auto"));
const NOT_CHANGE: Arg = opt("not_change", Lit::Bool(false));
const PLACE: &[Arg] = &[req("name")];

pub(super) const MODULE: Module = Module {
    name: "mount",
    functions: &[
        Function::new(
            "active",
            active::active,
            "The current mounts; extended adds details.",
        )
        .args(&[opt("extended", Lit::Bool(false))]),
        Function::new(
            "automaster",
            automaster::automaster,
            "The entries of an automounter's table.",
        )
        .args(&[AUTO]),
        Function::new(
            "delete_mount_cache",
            cache::delete,
            "Removes the cached data of a mount.",
        )
        .args(&[req("real_name")]),
        Function::new(
            "filesystems",
            |_| Ok(Map::new().into()),
            "Always empty: only AIX has this table.",
        )
        .args(&[AIX]),
        Function::new(
            "fstab",
            table::fstab,
            "The entries of fstab by mount point.",
        )
        .args(&[FSTAB]),
        Function::new(
            "get_device_from_path",
            get_device_from_path,
            "The device that a path is on.",
        )
        .args(&[req("path")]),
        Function::new(
            "get_mount_from_path",
            |c| Ok(mount_point(&python::str(c.arg("path"))).into()),
            "The mount point of a path.",
        )
        .args(&[req("path")]),
        Function::new("is_fuse_exec", is_fuse_exec, "Whether a program uses FUSE.")
            .args(&[req("cmd")]),
        Function::new(
            "is_mounted",
            is_mounted,
            "Whether something is mounted at a path.",
        )
        .args(PLACE),
        Function::new(
            "mount",
            mount,
            "Mounts a device, or an entry of fstab; returns true or the error output.",
        )
        .args(&[
            req("name"),
            opt("device", Lit::Bool(false)),
            opt("mkmnt", Lit::Bool(false)),
            opt("fstype", Lit::Str("")),
            opt("opts", Lit::Str("defaults")),
            opt("user", Lit::Nil),
            opt("util", Lit::Str("mount")),
        ])
        .names(&["name", "device"]),
        Function::new(
            "read_mount_cache",
            cache::read,
            "The cached data of a mount.",
        )
        .args(PLACE),
        Function::new(
            "remount",
            remount,
            "Remounts with other options, or mounts.",
        )
        .args(&[
            req("name"),
            req("device"),
            opt("mkmnt", Lit::Bool(false)),
            opt("fstype", Lit::Str("")),
            opt("opts", Lit::Str("defaults")),
            opt("user", Lit::Nil),
        ])
        .names(&["name", "device"]),
        Function::new(
            "rm_automaster",
            automaster::remove,
            "Removes an entry from an automounter's table.",
        )
        .args(&[req("name"), req("device"), AUTO]),
        Function::new(
            "rm_filesystems",
            |_| Ok(false.into()),
            "Always false: only AIX has this table.",
        )
        .args(&[req("name"), req("device"), AIX]),
        Function::new("rm_fstab", table::remove, "Removes an entry from fstab.").args(&[
            req("name"),
            req("device"),
            FSTAB,
        ]),
        Function::new(
            "rm_vfstab",
            table::remove,
            "Like mount.rm_fstab for another file.",
        )
        .args(&[req("name"), req("device"), VFSTAB]),
        Function::new(
            "set_automaster",
            automaster::set,
            "Ensures an entry in an automounter's table: new, change or present.",
        )
        .args(&[
            req("name"),
            req("device"),
            req("fstype"),
            opt("opts", Lit::Str("")),
            AUTO,
            TEST,
            NOT_CHANGE,
        ])
        .one_line(&[])
        .keywords(),
        Function::new(
            "set_filesystems",
            |_| Ok(Value::Nil),
            "Does nothing: only AIX has this table.",
        )
        .args(&[
            req("name"),
            req("device"),
            req("vfstype"),
            opt("opts", Lit::Str("-")),
            opt("mount", Lit::Str("true")),
            AIX,
            TEST,
            MATCH_ON,
            NOT_CHANGE,
        ])
        .keywords()
        .names(&["name", "device"]),
        Function::new(
            "set_fstab",
            table::set_fstab,
            "Ensures an entry in fstab: new, change or present.",
        )
        .args(&[
            req("name"),
            req("device"),
            req("fstype"),
            opt("opts", Lit::Str("defaults")),
            opt("dump", Lit::Int(0)),
            opt("pass_num", Lit::Int(0)),
            FSTAB,
            TEST,
            MATCH_ON,
            NOT_CHANGE,
        ])
        .one_line(&[])
        .keywords(),
        Function::new(
            "set_vfstab",
            table::set_vfstab,
            "Ensures an entry in vfstab: new, change or present.",
        )
        .args(&[
            req("name"),
            req("device"),
            req("fstype"),
            opt("opts", Lit::Str("-")),
            opt("device_fsck", Lit::Str("-")),
            opt("pass_fsck", Lit::Str("-")),
            opt("mount_at_boot", Lit::Str("yes")),
            VFSTAB,
            TEST,
            MATCH_ON,
            NOT_CHANGE,
        ])
        .one_line(&[])
        .keywords(),
        Function::new(
            "swapoff",
            swapoff,
            "Disables swap on a device or file; nothing if it was not in use.",
        )
        .args(PLACE)
        .names(&["name", "device"]),
        Function::new("swapon", swapon, "Enables swap on a device or file.")
            .args(&[req("name"), opt("priority", Lit::Nil)])
            .names(&["name", "device"]),
        Function::new(
            "swaps",
            |_| swaps().map(Into::into),
            "The active swap devices and files.",
        ),
        Function::new(
            "umount",
            umount,
            "Unmounts; returns true or the error output.",
        )
        .args(&[
            req("name"),
            opt("device", Lit::Nil),
            opt("user", Lit::Nil),
            opt("util", Lit::Str("mount")),
            opt("lazy", Lit::Bool(false)),
        ])
        .names(&["name", "device"]),
        Function::new("vfstab", table::fstab, "Like mount.fstab for another file.").args(&[VFSTAB]),
        Function::new(
            "write_mount_cache",
            cache::write,
            "Caches the data of a mount.",
        )
        .args(&[
            req("real_name"),
            req("device"),
            req("mkmnt"),
            req("fstype"),
            req("mount_opts"),
        ]),
    ],
};

/// Mount options as one word, from a list or text.
fn joined(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let words: Vec<String> = list.iter().map(python::str).collect();
            words.join(",")
        }
        other => python::str(other),
    }
}

/// True, or the program's error output.
fn outcome(call: &mut Call<'_>, argv: &[&str]) -> Result {
    let user = map! {"runas" => call.arg("user").clone()};
    let done = shell::run_all_with(call, argv, user)?;
    match done.retcode {
        0 => Ok(true.into()),
        _ => Ok(done.stderr.into()),
    }
}

fn mount(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    match call.arg("util").as_str() {
        Some("mount") => {}
        Some("guestfs") => {
            let root = map! {"root" => call.arg("device").clone()};
            return call.salt("guestfs.mount", vec![name.into()], root);
        }
        Some("qemu_nbd") => {
            let args = vec![name.into(), call.arg("device").clone()];
            let mounted = call.salt("qemu_nbd.init", args, Map::new())?;
            let first = mounted.as_map().and_then(|m| m.iter().next());
            return Ok(first.map_or(Value::Bool(false), |(key, _)| key.clone()));
        }
        _ => return Ok(false.into()),
    }
    if !Path::new(&name).exists() && call.flag("mkmnt") {
        make_mount_point(&name, call.text("user"))?;
    }
    let options = match call.arg("opts") {
        Value::Nil => None,
        opts => Some(joined(opts)),
    };
    attach(call, &name, options)
}

/// Like `file.mkdir`: creates parents too; owned by the user.
fn make_mount_point(name: &str, user: Option<String>) -> Result<()> {
    std::fs::create_dir_all(name).map_err(|e| python::os_error(&e, name))?;
    let Some(user) = user else {
        return Ok(());
    };
    let found = nix::unistd::User::from_name(&user).ok().flatten();
    let ids = found.map(|u| (u.uid.as_raw(), u.gid.as_raw()));
    if let Some((uid, gid)) = ids {
        std::os::unix::fs::chown(name, Some(uid), Some(gid))
            .map_err(|e| python::os_error(&e, name))?;
    }
    Ok(())
}

/// Runs `mount` with the call's device and type.
fn attach(call: &mut Call<'_>, name: &str, options: Option<String>) -> Result {
    let device = call.arg("device").clone();
    if !device.truthy() {
        return outcome(call, &["mount", name]);
    }
    let (device, kind) = (
        python::str(&device),
        call.text("fstype").unwrap_or_default(),
    );
    let mut argv = vec!["mount"];
    if let Some(options) = &options {
        argv.extend(["-o", options.as_str()]);
    }
    if !kind.is_empty() {
        argv.extend(["-t", kind.as_str()]);
    }
    argv.extend([device.as_str(), name]);
    outcome(call, &argv)
}

fn remount(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let mut options = joined(call.arg("opts"));
    if active::mounts(call)?.contains(&name) {
        if !options.split(',').any(|o| o == "remount") {
            options.push_str(if options.is_empty() {
                "remount"
            } else {
                ",remount"
            });
        }
        return attach_device(call, &name, options);
    }
    if !Path::new(&name).exists() && call.flag("mkmnt") {
        make_mount_point(&name, call.text("user"))?;
    }
    attach(call, &name, Some(options))
}

/// A remount passes the device even if it is false or empty.
fn attach_device(call: &mut Call<'_>, name: &str, options: String) -> Result {
    let (device, kind) = (
        python::str(call.arg("device")),
        call.text("fstype").unwrap_or_default(),
    );
    let mut argv = vec!["mount", "-o", &options];
    if !kind.is_empty() {
        argv.extend(["-t", kind.as_str()]);
    }
    argv.extend([device.as_str(), name]);
    outcome(call, &argv)
}

fn umount(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    if call.arg("util").is_str("guestfs") {
        let disk = map! {"disk" => call.arg("device").clone()};
        call.salt("guestfs.umount", vec![name.into()], disk)?;
        return Ok(Value::Nil);
    }
    if !active::mounts(call)?.contains(&name) {
        return Ok(format!("{name} does not have anything mounted").into());
    }
    let device = call.arg("device").clone();
    let target = if device.truthy() {
        python::str(&device)
    } else {
        name
    };
    let mut argv = vec!["umount"];
    if call.flag("lazy") {
        argv.push("-l");
    }
    argv.push(&target);
    outcome(call, &argv)
}

fn is_mounted(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    Ok(active::mounts(call)?.contains(&name).into())
}

fn is_fuse_exec(call: &mut Call<'_>) -> Result {
    let Some(path) = which(&python::str(call.arg("cmd"))) else {
        return Ok(false.into());
    };
    if which("ldd").is_none() {
        return Err(CallError::CommandNotFound("ldd".into()));
    }
    Ok(shell::run(call, &["ldd", &path])?
        .contains("libfuse")
        .into())
}

fn swaps() -> Result<Map> {
    let path = "/proc/swaps";
    let text = command_helpers::read_file(path).map_err(|e| python::os_error(&e, path))?;
    let mut out = Map::new();
    for line in text.lines().filter(|l| !l.starts_with("Filename")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let &[name, kind, size, used, priority, ..] = words.as_slice() {
            out.set(
                name,
                map! {"type" => kind, "size" => size, "used" => used, "priority" => priority},
            );
        }
    }
    Ok(out)
}

fn swapon(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let found = |new: bool| -> Result<Option<Map>> {
        let stats = swaps()?.get(&name).cloned();
        Ok(stats.map(|stats| map! {"stats" => stats, "new" => new}))
    };
    if let Some(already) = found(false)? {
        return Ok(already.into());
    }
    let priority = call.arg("priority").clone();
    let level = python::str(&priority);
    let mut argv = vec!["swapon", name.as_str()];
    if priority.truthy() {
        argv.extend(["-p", level.as_str()]);
    }
    shell::run(call, &argv)?;
    Ok(found(true)?.unwrap_or_default().into())
}

fn swapoff(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    if !swaps()?.contains(&name) {
        return Ok(Value::Nil);
    }
    shell::run(call, &["swapoff", &name])?;
    Ok((!swaps()?.contains(&name)).into())
}

/// The mount point of a path.
fn mount_point(path: &str) -> String {
    use std::os::unix::fs::MetadataExt;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let mut at = real(&absolute);
    while let Some(parent) = at.parent().map(Path::to_path_buf) {
        let (here, above) = (
            std::fs::symlink_metadata(&at),
            std::fs::symlink_metadata(&parent),
        );
        if let (Ok(here), Ok(above)) = (here, above)
            && !here.is_symlink()
            && (here.dev() != above.dev() || here.ino() == above.ino())
        {
            break;
        }
        at = parent;
    }
    at.to_string_lossy().into_owned()
}

/// The path with links resolved; missing components are kept.
fn real(path: &Path) -> std::path::PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_path_buf(),
    }
}

fn get_device_from_path(call: &mut Call<'_>) -> Result {
    let place = mount_point(&python::str(call.arg("path")));
    let mounts = active::mounts(call)?;
    let entry = mounts.get(&place).and_then(Value::as_map);
    Ok(entry.and_then(|e| e.get("device")).cloned().into())
}
