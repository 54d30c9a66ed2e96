//! What SIGUSR1 asks a daemon for: a report of what it is doing, in a file where Salt's daemons write theirs
//! (`salt/utils/debug.py`): `salt-debug-<Unix time>.log` in the temporary directory.

use super::process::stat_fields;
use super::time::unix_now;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Reports within one second, which get a number each.
const MOST_NAMES: u32 = 1000;

/// Writes the report of this process if SIGUSR1 has asked for one: `title` and `more`, which the process knows
/// about itself, then its memory, descriptors and threads. Call in each turn of a loop.
pub fn write_if_asked(title: &str, more: impl FnOnce() -> String) {
    if !super::signals::take_report() {
        return;
    }
    let text = format!("{title}\n{}{}", more(), describe(std::process::id()));
    match write(&std::env::temp_dir(), unix_now(), &text) {
        Ok(path) => log::warn!("SIGUSR1: a report is in {}", path.display()),
        Err(e) => log::warn!(
            "SIGUSR1: no report can be written to {}: {e}",
            std::env::temp_dir().display()
        ),
    }
}

/// Creates the file, which must not exist: others may write to the directory, and links there must not lead
/// elsewhere.
fn write(dir: &Path, now: u64, text: &str) -> io::Result<PathBuf> {
    for n in 0..MOST_NAMES {
        let number = if n == 0 {
            String::new()
        } else {
            format!("-{n}")
        };
        let path = dir.join(format!("salt-debug-{now}{number}.log"));
        let created = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match created {
            Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Memory, threads and, as far as they may be seen, descriptors of a process, in indented lines.
pub fn describe(pid: u32) -> String {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let mut out = format!("  process: {pid}\n");
    let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
    for (field, name) in [
        ("State:", "state"),
        ("VmRSS:", "resident"),
        ("VmHWM:", "most resident"),
    ] {
        if let Some(value) = status.lines().find_map(|line| line.strip_prefix(field)) {
            let _ = writeln!(out, "  {name}: {}", value.trim());
        }
    }
    let descriptors = descriptors(&proc);
    if !descriptors.is_empty() {
        let _ = writeln!(out, "  descriptors: {}", descriptors.join(", "));
    }
    for task in entries(&proc.join("task")) {
        let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
        let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
        let fields = stat_fields(&stat);
        let field = |n: usize| fields.get(n).copied().unwrap_or("?");
        let _ = writeln!(
            out,
            "  thread {}: {}, state {}, ticks {} in the program and {} in the system",
            task.file_name().unwrap_or_default().display(),
            name.trim_end(),
            field(0),
            field(11),
            field(12)
        );
    }
    out
}

/// Numbers of open descriptors by kind: `12 socket`.
fn descriptors(proc: &Path) -> Vec<String> {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries(&proc.join("fd")) {
        let target = fs::read_link(entry).unwrap_or_default();
        let text = target.to_string_lossy();
        let kind = match text.split_once(':') {
            Some((kind, _)) if !kind.contains('/') => kind,
            _ => "file",
        };
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
        .into_iter()
        .map(|(kind, n)| format!("{n} {kind}"))
        .collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_report_goes_into_a_new_private_file() {
        let dir = tempfile::tempdir().unwrap();
        let (first, other) = (
            dir.path().join("salt-debug-7.log"),
            dir.path().join("other"),
        );
        symlink(&other, &first).unwrap();
        let path = write(dir.path(), 7, "text").unwrap();
        assert_eq!(path, dir.path().join("salt-debug-7-1.log"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!other.exists());
    }

    #[test]
    fn a_process_is_described() {
        let _socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let text = describe(std::process::id());
        for part in ["  process: ", "  state: ", " socket", "  thread "] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
