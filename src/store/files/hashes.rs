//! Hashes of files, computed once for all workers.
//!
//! A hash is valid for one combination of device, inode, size, mtime and ctime of a file. Hashes of large files
//! are also cached on disk, one entry per inode. A worker locks the entry while it computes the hash, so a large
//! file is read only once however many minions ask for it.

use halite_crypto::HashType;
use nix::fcntl::{Flock, FlockArg};
use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Smaller files are hashed by each worker: that is cheaper than an entry on disk.
const LARGE: u64 = 256 * 1024;
/// Hashes kept in memory; when there are more, the table is emptied.
const MAX_IN_MEMORY: usize = 20_000;
/// A file that changed more recently than this might change again without a new timestamp.
const STABLE_AFTER: Duration = Duration::from_secs(2);
/// Entries that were not used for so long are removed.
const MAX_UNUSED: Duration = Duration::from_secs(7 * 86_400);
const CHUNK: usize = 256 * 1024;

/// The state of a file that a hash is valid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Key {
    fn of(meta: &Metadata) -> Key {
        Key {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            ctime: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    fn is_stable(&self, now: SystemTime) -> bool {
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let changed = self.mtime.0.max(self.ctime.0);
        u64::try_from(changed).is_ok_and(|at| Duration::from_secs(at) + STABLE_AFTER <= now)
    }

    fn line(&self, hash: &str) -> String {
        let ((m, mn), (c, cn)) = (self.mtime, self.ctime);
        format!("{} {m}.{mn:09} {c}.{cn:09} {hash}\n", self.size)
    }
}

/// The hashes of one `hash_type`.
pub struct Hashes {
    kind: HashType,
    dir: PathBuf,
    memory: HashMap<Key, String>,
    /// Files read so far, for tests and measurements.
    pub read: u64,
}

impl Hashes {
    /// Hashes cached in `dir`, which is created when it is first needed.
    pub fn new(kind: HashType, dir: PathBuf) -> Hashes {
        Hashes {
            kind,
            dir,
            memory: HashMap::new(),
            read: 0,
        }
    }

    /// The hash of an open regular file, in hexadecimal digits.
    ///
    /// # Errors
    /// The file cannot be read. An unusable cache is not an error.
    pub fn of(&mut self, file: &File) -> io::Result<String> {
        self.at(file, SystemTime::now())
    }

    fn at(&mut self, file: &File, now: SystemTime) -> io::Result<String> {
        let key = Key::of(&file.metadata()?);
        if let Some(hash) = self.memory.get(&key) {
            return Ok(hash.clone());
        }
        if !key.is_stable(now) {
            return self.compute(file);
        }
        let hash = if key.size < LARGE {
            self.compute(file)?
        } else {
            self.shared(file, &key)?
        };
        if Key::of(&file.metadata()?) == key {
            if self.memory.len() >= MAX_IN_MEMORY {
                self.memory.clear();
            }
            self.memory.insert(key, hash.clone());
        }
        Ok(hash)
    }

    /// Reads the hash from the entry on disk, or computes it while holding the lock of the entry.
    fn shared(&mut self, file: &File, key: &Key) -> io::Result<String> {
        let Some(entry) = self.entry(key) else {
            return self.compute(file);
        };
        if let Some(hash) = known(&entry, key, self.kind) {
            return Ok(hash);
        }
        let Ok(mut entry) = Flock::lock(entry, FlockArg::LockExclusive) else {
            return self.compute(file);
        };
        // Another worker may have computed it while we waited for the lock.
        if let Some(hash) = known(&entry, key, self.kind) {
            return Ok(hash);
        }
        let hash = self.compute(file)?;
        if Key::of(&file.metadata()?) == *key {
            let text = key.line(&hash);
            let saved = entry
                .set_len(0)
                .and_then(|()| entry.rewind())
                .and_then(|()| entry.write_all(text.as_bytes()));
            if let Err(e) = saved {
                log::debug!("cannot cache a hash in {}: {e}", self.dir.display());
            }
        }
        Ok(hash)
    }

    fn entry(&self, key: &Key) -> Option<File> {
        let name = format!("{:x}-{:x}.{}", key.dev, key.ino, self.kind);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let path = self.dir.join(name);
        let opened = options.open(&path).or_else(|_| {
            let mut make = std::fs::DirBuilder::new();
            make.recursive(true).mode(0o700).create(&self.dir)?;
            options.open(&path)
        });
        opened
            .inspect_err(|e| log::warn!("{}: {e}; hashes are not shared", path.display()))
            .ok()
    }

    fn compute(&mut self, file: &File) -> io::Result<String> {
        self.read += 1;
        let mut hasher = self.kind.hasher();
        // Most files are far smaller than a chunk, which would be zeroed for each.
        let size = file.metadata().map_or(CHUNK as u64, |meta| meta.len() + 1);
        let mut chunk = vec![0; size.min(CHUNK as u64) as usize];
        let mut at = 0;
        loop {
            match file.read_at(&mut chunk, at) {
                Ok(0) => return Ok(hasher.hex()),
                Ok(n) => {
                    hasher.update(&chunk[..n]);
                    at += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// The hash in an entry, if it is valid for this state of the file.
fn known(mut entry: &File, key: &Key, kind: HashType) -> Option<String> {
    let mut text = String::new();
    entry.rewind().ok()?;
    entry.take(1024).read_to_string(&mut text).ok()?;
    let digits = kind.hex(b"").len();
    let hash = text.trim_end().rsplit(' ').next()?.to_owned();
    // A partly written line does not compare equal.
    (hash.len() == digits && text == key.line(&hash)).then_some(hash)
}

/// Removes entries that have not been written or read for a week.
pub fn expire(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let used = entry
            .metadata()
            .and_then(|m| Ok(m.modified()?.max(m.accessed()?)));
        let old = used.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MAX_UNUSED));
        if old && let Err(e) = std::fs::remove_file(entry.path()) {
            log::debug!("{}: {e}", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_file_is_read_once_for_all_workers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        std::fs::write(&path, vec![7; LARGE as usize]).unwrap();
        let file = File::open(&path).unwrap();
        let new = || Hashes::new(HashType::Sha256, dir.path().join("hash"));
        let mut first = new();
        let hash = first.at(&file, later()).unwrap();
        assert_eq!(hash, HashType::Sha256.hex(&vec![7; LARGE as usize]));
        assert_eq!(
            (first.at(&file, later()).unwrap(), first.read),
            (hash.clone(), 1)
        );
        let mut second = new();
        assert_eq!(
            (second.at(&file, later()).unwrap(), second.read),
            (hash.clone(), 0)
        );
        let mut other = Hashes::new(HashType::Md5, dir.path().join("hash"));
        assert_ne!((other.at(&file, later()).unwrap(), other.read), (hash, 0));
    }

    #[test]
    fn workers_that_ask_together_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        std::fs::write(&path, vec![1; 4 * LARGE as usize]).unwrap();
        let read: u64 = std::thread::scope(|s| {
            let ask = || {
                let mut hashes = Hashes::new(HashType::Sha256, dir.path().join("hash"));
                hashes.at(&File::open(&path).unwrap(), later()).unwrap();
                hashes.read
            };
            let all: Vec<_> = (0..4).map(|_| s.spawn(ask)).collect();
            all.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(read, 1);
    }

    #[test]
    fn a_changed_file_has_another_hash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut hashes = Hashes::new(HashType::Sha1, dir.path().join("hash"));
        for (n, size) in [(1, 10), (2, LARGE as usize), (3, LARGE as usize)] {
            std::fs::write(&path, vec![n; size]).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(n));
            let file = File::options().write(true).read(true).open(&path).unwrap();
            file.set_modified(at).unwrap();
            let hash = hashes.at(&file, later()).unwrap();
            assert_eq!(hash, HashType::Sha1.hex(&vec![n; size]));
        }
    }

    #[test]
    fn hashes_of_recently_changed_files_are_not_cached() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "x").unwrap();
        let mut hashes = Hashes::new(HashType::Sha256, dir.path().join("hash"));
        let file = File::open(&path).unwrap();
        hashes.of(&file).unwrap();
        hashes.of(&file).unwrap();
        assert_eq!(hashes.read, 2);
    }

    #[test]
    fn a_damaged_entry_is_computed_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        std::fs::write(&path, vec![7; LARGE as usize]).unwrap();
        let file = File::open(&path).unwrap();
        let cache = dir.path().join("hash");
        let good = Hashes::new(HashType::Sha256, cache.clone())
            .at(&file, later())
            .unwrap();
        let entry = std::fs::read_dir(&cache)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let text = std::fs::read_to_string(&entry).unwrap();
        for bad in [
            "",
            "x",
            &text[..text.len() - 3],
            "\0\0\0",
            &text.replace(&good, ""),
        ] {
            std::fs::write(&entry, bad).unwrap();
            let mut hashes = Hashes::new(HashType::Sha256, cache.clone());
            assert_eq!(hashes.at(&file, later()).unwrap(), good, "{bad:?}");
            assert_eq!(std::fs::read_to_string(&entry).unwrap(), text);
        }
    }
}
