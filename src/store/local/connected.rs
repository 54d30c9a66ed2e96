//! Lists of connected minions with their addresses, one file each: a line for each minion.

use crate::gateways::STALE;
use crate::presence::{Addresses, Elsewhere};
use halite_sys::daemon::{make_dir, write_atomic};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub(super) fn write_list(path: &Path, connected: &Addresses) -> io::Result<()> {
    let lines = connected
        .iter()
        .map(|(id, address)| format!("{id} {address}\n"));
    let text: String = lines.collect();
    write_atomic(path, text.as_bytes(), 0o644)
}

/// Empty if there is none, or if its writer has stopped: it is written or touched again and again.
pub(super) fn read_list(path: &Path) -> Addresses {
    let fresh = std::fs::metadata(path)
        .and_then(|meta| meta.modified())
        .is_ok_and(|at| at.elapsed().unwrap_or_default() < STALE);
    if !fresh {
        return Addresses::new();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (id, address) = line.split_once(' ')?;
            Some((id.parse().ok()?, address.parse().ok()?))
        })
        .collect()
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
        write_list(&self.path, connected)
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
