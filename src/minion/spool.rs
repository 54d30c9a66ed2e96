//! Results that no master has acknowledged yet: one file each in `<cachedir>/returns/`.
//!
//! A file is written under a temporary name and renamed, so it is complete or absent; it is removed when the
//! master has acknowledged it. Files found at startup are sent again. The directory is bounded: beyond the
//! limits the oldest results are removed first.

use halite_config::paths::minion::cache;
use halite_sys::daemon::{make_dir, write_atomic};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Most results stored.
const MAX_FILES: usize = 5000;
/// Most bytes stored.
const MAX_BYTES: u64 = 256 << 20;

/// The spool directory.
#[derive(Clone, Debug)]
pub struct Spool {
    dir: PathBuf,
    max_files: usize,
    max_bytes: u64,
}

impl Spool {
    /// Creates the directory; only the minion's account can read it.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn open(cachedir: &Path) -> io::Result<Spool> {
        Spool::at(cache::unsent_returns(cachedir))
    }

    /// Like [`Spool::open`], for one of several masters: each has a directory of its own.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn open_for(cachedir: &Path, master: &str) -> io::Result<Spool> {
        Spool::at(Spool::dir_for(cachedir, master))
    }

    /// The directory of results for one of several masters.
    pub fn dir_for(cachedir: &Path, master: &str) -> PathBuf {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = master
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        // Neither hidden nor able to leave the directory; a plain name stays as it is.
        cache::unsent_returns(cachedir).join(format!("to-{name}"))
    }

    /// Takes over the results in another directory.
    pub fn adopt(&self, dir: &Path) {
        let from = Spool {
            dir: dir.to_owned(),
            ..self.clone()
        };
        for name in from.names() {
            if let Err(e) = fs::rename(dir.join(&name), self.dir.join(&name)) {
                log::error!("{}/{name}: {e}; it stays where it is", dir.display());
            }
        }
    }

    fn at(dir: PathBuf) -> io::Result<Spool> {
        make_dir(&dir, 0o700)?;
        Ok(Spool {
            dir,
            max_files: MAX_FILES,
            max_bytes: MAX_BYTES,
        })
    }

    /// Stores a result under a name, which must be a plain file name.
    ///
    /// # Errors
    /// The directory is not writable.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        write_atomic(&self.dir.join(name), bytes, 0o600)?;
        self.trim();
        Ok(())
    }

    /// Reads a result; `None` if it is gone or not a file.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.dir.join(name)).ok()
    }

    /// Removes a result that the master has acknowledged.
    pub fn remove(&self, name: &str) {
        if let Err(e) = fs::remove_file(self.dir.join(name))
            && e.kind() != io::ErrorKind::NotFound
        {
            log::error!(
                "{}/{name}: {e}; the result may be sent twice",
                self.dir.display()
            );
        }
    }

    /// Names of the waiting results, oldest first (names start with the jid).
    pub fn names(&self) -> Vec<String> {
        self.list().into_iter().map(|(name, _)| name).collect()
    }

    fn list(&self) -> Vec<(String, u64)> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        let mut found: Vec<(String, u64)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let meta = entry.metadata().ok()?;
                (meta.is_file() && !name.starts_with('.')).then_some((name, meta.len()))
            })
            .collect();
        found.sort();
        found
    }

    fn trim(&self) {
        let list = self.list();
        let mut files = list.len();
        let mut bytes: u64 = list.iter().map(|(_, size)| size).sum();
        for (name, size) in list {
            if files <= 1 || files <= self.max_files && bytes <= self.max_bytes {
                return;
            }
            log::error!(
                "too many results wait for the master: the one of job {name} is given up ({} holds at most {} results \
                 and {} MiB)",
                self.dir.display(),
                self.max_files,
                self.max_bytes >> 20
            );
            self.remove(&name);
            files -= 1;
            bytes -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_wait_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(dir.path()).unwrap();
        spool.put("2", b"two").unwrap();
        spool.put("1", b"one").unwrap();
        fs::write(dir.path().join("returns/.1.7~"), b"half").unwrap();
        assert_eq!(Spool::open(dir.path()).unwrap().names(), ["1", "2"]);
        assert_eq!(spool.get("1").unwrap(), b"one");
        spool.remove("1");
        spool.remove("1");
        assert_eq!(spool.names(), ["2"]);
        assert_eq!(spool.get("1"), None);
    }

    #[test]
    fn the_oldest_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path()).unwrap();
        spool.max_files = 2;
        for name in ["1", "2", "3"] {
            spool.put(name, b"xxxx").unwrap();
        }
        assert_eq!(spool.names(), ["2", "3"]);
        spool.max_bytes = 5;
        spool.put("4", b"yyyyyyyy").unwrap();
        assert_eq!(
            spool.names(),
            ["4"],
            "the last one stays, whatever its size"
        );
    }
}
