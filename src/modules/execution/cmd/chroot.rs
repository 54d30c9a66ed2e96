//! Commands in another root directory.

use super::super::declare::Result;
use super::super::{Call, python};
use super::options::get;
use halite_wire::{Map, Value, shlex};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kernel file systems mounted below the new root while the command runs: directory, device, type.
const KERNEL: [(&str, &str, &str); 3] = [
    ("dev", "devtmpfs", "devtmpfs"),
    ("proc", "proc", "proc"),
    ("sys", "sysfs", "sysfs"),
];
/// Call options that are not passed on to the command.
const OWN_OPTIONS: [&str; 7] = [
    "root",
    "cmd",
    "runas",
    "group",
    "binds",
    "hide_output",
    "shell",
];

/// `cmd.run_chroot`.
pub fn run_chroot(call: &mut Call<'_>) -> Result {
    let root = PathBuf::from(call.text("root").unwrap_or_default());
    let binds: Vec<PathBuf> = call
        .arg("binds")
        .str_list()
        .iter()
        .map(PathBuf::from)
        .collect();
    let ran = mounted(call, &root, &binds);
    end_processes(&root);
    let below = binds.iter().map(|bind| join_root(&root, bind));
    let kernel = KERNEL.iter().rev().map(|(dir, ..)| root.join(dir));
    for place in below.chain(kernel) {
        call.salt(
            "mount.umount",
            vec![place.to_string_lossy().into_owned().into()],
            Map::new(),
        )?;
    }
    let mut ran = ran?;
    if call.flag("hide_output")
        && let Value::Map(map) = &mut ran
    {
        map.set("stdout", "");
        map.set("stderr", "");
    }
    Ok(ran)
}

fn join_root(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn mounted(call: &mut Call<'_>, root: &Path, binds: &[PathBuf]) -> Result {
    let mut mount = |place: &Path, device: &str, key: &str, value: &str| {
        let args = vec![place.to_string_lossy().into_owned().into(), device.into()];
        call.salt("mount.mount", args, Map(vec![(key.into(), value.into())]))
    };
    for (dir, device, kind) in KERNEL {
        mount(&root.join(dir), device, "fstype", kind)?;
    }
    for bind in binds {
        mount(
            &join_root(root, bind),
            &bind.to_string_lossy(),
            "opts",
            "default,bind",
        )?;
    }
    let words = match call.arg("cmd") {
        Value::Array(words) => words.iter().map(python::str).collect::<Vec<_>>().join(" "),
        other => python::str(other),
    };
    let shell = if root.join("bin/bash").is_file() {
        "/bin/bash"
    } else {
        "/bin/sh"
    };
    // The user belongs to the new root, so `chroot` looks it up.
    let user = match get(call, "runas") {
        runas if runas.truthy() => {
            let group = get(call, "group");
            let group = if group.truthy() {
                python::str(group)
            } else {
                String::new()
            };
            format!(
                "--userspec {} ",
                shlex::quote(&format!("{}:{group}", python::str(runas)))
            )
        }
        _ => String::new(),
    };
    let line = format!(
        "chroot {user}{} {shell} -c {}",
        shlex::quote(&root.to_string_lossy()),
        shlex::quote(&words)
    );
    let mut options = call.bound.kwargs.clone();
    for (arg, value) in call.function.args.iter().zip(&call.bound.named) {
        if !OWN_OPTIONS.contains(&arg.name) {
            options.set(arg.name, value.clone());
        }
    }
    call.salt("cmd.run_all", vec![line.into()], options)
}

/// Terminates processes still running in the new root: three requests, then SIGKILL.
fn end_processes(root: &Path) {
    for attempt in 0..6 {
        let pids = processes(root);
        if pids.is_empty() {
            return;
        }
        let signal = if attempt < 3 {
            Signal::SIGTERM
        } else {
            Signal::SIGKILL
        };
        for pid in pids {
            let _ = kill(pid, signal);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if !processes(root).is_empty() {
        log::error!(
            "cannot terminate processes in {}; it remains mounted",
            root.display()
        );
    }
}

fn processes(root: &Path) -> Vec<Pid> {
    let Ok(root) = root.canonicalize() else {
        return Vec::new();
    };
    if root == Path::new("/") {
        return Vec::new();
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let own = std::fs::read_link(entry.path().join("root")).ok()?;
            own.starts_with(&root).then_some(Pid::from_raw(pid))
        })
        .collect()
}
