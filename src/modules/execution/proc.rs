//! Files of running jobs: `<cachedir>/proc/<jid>`, msgpack of the publish load with a leading `pid` (`salt/minion.py
//! _thread_return`, `salt/utils/minion.py running`).
//!
//! By the time a job is signalled, its pid may belong to another process. The file therefore also has the process's
//! start time in clock ticks ([`START`]); readers here check it and hide it.

use halite_config::paths::minion::cache;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Key of the process's start time.
pub const START: &str = "__start";

/// Key of the master that published the job; nil if none did.
pub const MASTER: &str = "__master";

/// Maximum size of a job file.
const MAX_FILE: u64 = 64 << 20;

/// Directory of job files.
pub fn dir(cachedir: &Path) -> PathBuf {
    cache::jobs(cachedir)
}

fn path(cachedir: &Path, jid: &str) -> io::Result<PathBuf> {
    let jid: Jid = jid
        .parse()
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{e}")))?;
    Ok(dir(cachedir).join(jid.as_str()))
}

/// Records that process `pid` runs the job `jid`; called by the job's own process at its start. The file appears
/// atomically and only the minion's user can read it.
///
/// # Errors
/// The jid is invalid, or the directory is not writable.
pub fn write(cachedir: &Path, jid: &str, load: &Map, pid: u32) -> io::Result<()> {
    let target = path(cachedir, jid)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir(cachedir))?;
    let mut map = halite_wire::map! {"pid" => pid};
    map.0
        .extend(load.0.iter().filter(|(k, _)| !k.is_str("pid")).cloned());
    if let Some(start) = Process::read(pid) {
        map.set(START, start.start);
    }
    let temporary = dir(cachedir).join(format!(".{jid}.{pid}"));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(&msgpack::encode_map(&map, Profile::Wire))?;
    fs::rename(&temporary, &target)
}

/// Removes a job's file. A missing file is no error.
///
/// # Errors
/// The jid is invalid, or the directory is not writable.
pub fn remove(cachedir: &Path, jid: &str) -> io::Result<()> {
    match fs::remove_file(path(cachedir, jid)?) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The loads of all running jobs except this process's own. Files of dead processes are removed; other files are left
/// alone.
pub fn running(cachedir: &Path) -> Vec<Map> {
    let mut jids = jids(&dir(cachedir));
    jids.sort();
    jids.iter().filter_map(|jid| load(cachedir, jid)).collect()
}

/// The jids among the file names of a directory.
pub fn jids(dir: &Path) -> Vec<Jid> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Reads a regular file of limited size.
pub fn read_file(path: &Path, most: u64) -> Option<Vec<u8>> {
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_file() || meta.len() > most {
        return None;
    }
    fs::read(path).ok()
}

/// A job's load, if its process runs and is not this one.
fn load(cachedir: &Path, jid: &Jid) -> Option<Map> {
    let path = dir(cachedir).join(jid.as_str());
    let map = match msgpack::decode(&read_file(&path, MAX_FILE)?) {
        Ok(Value::Map(map)) => map,
        // A file another minion has just created is still empty.
        _ => return None,
    };
    let pid = pid_of(&map);
    if process_of(&map).is_none() {
        log::debug!("Job {jid} no longer has a process");
        let _ = fs::remove_file(&path);
        return None;
    }
    if pid == Some(std::process::id()) {
        return None;
    }
    let mut map = map;
    map.remove(START);
    map.remove(MASTER);
    Some(map)
}

/// The process of a job's file, if it still runs the job.
pub fn process_of(map: &Map) -> Option<Process> {
    let process = pid_of(map).and_then(Process::read)?;
    process.is_job(map.int(START)).then_some(process)
}

/// The pid in a job's load.
pub fn pid_of(map: &Map) -> Option<u32> {
    map.int("pid")
        .and_then(|p| u32::try_from(p).ok())
        .filter(|p| *p > 1)
}

/// Process data from the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Parent process id.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Start time in clock ticks after boot.
    pub start: i64,
    zombie: bool,
}

impl Process {
    /// Reads `/proc/<pid>/stat`.
    pub fn read(pid: u32) -> Option<Process> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(pid: u32, stat: &str) -> Option<Process> {
        // The name in parentheses may contain anything, including blanks and parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        Some(Process {
            pid,
            zombie: matches!(*words.first()?, "Z" | "X"),
            parent: words.get(1)?.parse().ok()?,
            group: words.get(2)?.parse().ok()?,
            start: words.get(19)?.parse().ok()?,
        })
    }

    /// Whether this same process still runs, and not another one with its pid.
    pub fn still_runs(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.start == self.start && !now.zombie)
    }

    /// Whether this is the process of a job file with that start time. A file without one is from another minion;
    /// then the name must match, as in stock (`salt/utils/minion.py _check_cmdline`).
    fn is_job(&self, start: Option<i64>) -> bool {
        if self.zombie {
            return false;
        }
        match start {
            Some(start) => start == self.start,
            None => named_salt(self.pid),
        }
    }

    /// All descendants of this process, nearest first.
    pub fn descendants(&self) -> Vec<Process> {
        let all = Self::all();
        let mut found: Vec<Process> = Vec::new();
        let mut parents = vec![self.pid];
        while let Some(parent) = parents.pop() {
            for child in all.iter().filter(|p| p.parent == parent) {
                if child.pid != self.pid && !found.contains(child) {
                    found.push(*child);
                    parents.push(child.pid);
                }
            }
        }
        found
    }

    fn all() -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        entries
            .filter_map(|e| Self::read(e.ok()?.file_name().to_str()?.parse().ok()?))
            .collect()
    }
}

fn named_salt(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    line.contains("salt") || line.contains("halite")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses() {
        let stat = "7 (a) b) (c) S 3 5 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        let want = Process {
            pid: 7,
            parent: 3,
            group: 5,
            start: 4242,
            zombie: false,
        };
        assert_eq!(Process::parse(7, stat), Some(want));
        assert_eq!(Process::parse(7, "7 (x"), None);
    }
}
