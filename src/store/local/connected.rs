//! Lists of connected minions, one file each: a line for each minion, with its address or the time.

use crate::gateways::STALE;
use crate::presence::{Addresses, Elsewhere, LastSeen};
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::MinionId;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

pub(super) fn write_list(
    path: &Path,
    list: &BTreeMap<MinionId, impl Display>,
    mode: u32,
) -> io::Result<()> {
    let lines = list.iter().map(|(id, value)| format!("{id} {value}\n"));
    let text: String = lines.collect();
    write_atomic(path, text.as_bytes(), mode)
}

/// What a list says; without its file nothing.
fn read_lines<T: FromStr>(path: &Path) -> BTreeMap<MinionId, T> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (id, value) = line.split_once(' ')?;
            Some((id.parse().ok()?, value.parse().ok()?))
        })
        .collect()
}

/// Empty if there is none, or if its writer has stopped: it is written or touched again and again.
pub(super) fn read_list(path: &Path) -> Addresses {
    let fresh = std::fs::metadata(path)
        .and_then(|meta| meta.modified())
        .is_ok_and(|at| at.elapsed().unwrap_or_default() < STALE);
    if !fresh {
        return Addresses::new();
    }
    read_lines(path)
}

/// When minions were connected last: `cachedir/last_seen`.
#[derive(Clone, Debug)]
pub struct LocalLastSeen {
    path: PathBuf,
}

impl LocalLastSeen {
    /// In this file. Nothing is read or created yet.
    pub fn new(path: PathBuf) -> LocalLastSeen {
        LocalLastSeen { path }
    }
}

impl LastSeen for LocalLastSeen {
    fn put(&self, all: &BTreeMap<MinionId, i64>) -> io::Result<()> {
        write_list(&self.path, all, 0o600)
    }

    fn get(&self) -> BTreeMap<MinionId, i64> {
        read_lines(&self.path)
    }
}

/// Minions at other masters: `cachedir/cluster/connected`.
#[derive(Clone, Debug)]
pub struct LocalElsewhere {
    path: PathBuf,
}

impl LocalElsewhere {
    /// In the directory of the role `cluster`. Nothing is read or created yet.
    pub fn new(cluster_dir: &Path) -> LocalElsewhere {
        let path = cluster_dir.join("connected");
        LocalElsewhere { path }
    }
}

impl Elsewhere for LocalElsewhere {
    fn put(&self, connected: &Addresses) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            make_dir(dir, 0o700)?;
        }
        write_list(&self.path, connected, 0o644)
    }

    fn keep(&self) -> io::Result<()> {
        let file = File::options().write(true).open(&self.path)?;
        file.set_modified(SystemTime::now())
    }

    fn get(&self) -> Addresses {
        read_list(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_list_counts_as_long_as_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = LocalElsewhere::new(&dir.path().join("cluster"));
        assert!(elsewhere.keep().is_err());
        let who = Addresses::from([("a1".parse().unwrap(), "10.0.0.1".parse().unwrap())]);
        elsewhere.put(&who).unwrap();
        let file = File::open(dir.path().join("cluster/connected")).unwrap();
        file.set_modified(SystemTime::now() - STALE - Duration::from_secs(1))
            .unwrap();
        assert!(elsewhere.get().is_empty());
        elsewhere.keep().unwrap();
        assert_eq!(elsewhere.get(), who);
    }
}
