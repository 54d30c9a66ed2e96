//! One PEM file per minion and state, in Salt's directories (reference `salt-protocol.md` 2.2): stock tools
//! and halite read the same files.

use super::{found, version};
use crate::keys::{IdList, KeyLock, KeyState, KeyStore, Version, universal_newlines};
use halite_crypto::clean_key;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::name_lock::NameLock;
use halite_sys::safe_open::read_regular;
use halite_wire::ids::MinionId;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Largest file of a key, in bytes.
pub(super) const LARGEST_KEY: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Listing {
    stamp: Option<Version>,
    ids: IdList,
}

/// The key directories below one `pki_dir`.
#[derive(Debug)]
pub struct LocalKeys {
    pki_dir: PathBuf,
    listings: [Mutex<Listing>; 4],
}

impl LocalKeys {
    /// A store below `pki_dir`. Nothing is read or created yet.
    pub fn new(pki_dir: impl Into<PathBuf>) -> LocalKeys {
        LocalKeys {
            pki_dir: pki_dir.into(),
            listings: Default::default(),
        }
    }

    /// The directory that holds the key directories.
    pub fn pki_dir(&self) -> &Path {
        &self.pki_dir
    }

    fn dir(&self, state: KeyState) -> PathBuf {
        self.pki_dir.join(state.dir())
    }

    /// The file with the key of `id` in `state`.
    pub fn path(&self, state: KeyState, id: &MinionId) -> PathBuf {
        self.dir(state).join(id.as_str())
    }

    /// Anything but a regular file counts as absent.
    fn read(&self, state: KeyState, id: &MinionId) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(state, id);
        let bytes = match std::fs::symlink_metadata(&path) {
            Ok(m) if m.is_file() => read_regular(&path, LARGEST_KEY),
            Ok(_) => return Ok(None),
            Err(e) => Err(e),
        };
        found(bytes)
    }
}

impl KeyStore for LocalKeys {
    /// Creates missing directories; `pki_dir` itself is only readable by its owner.
    fn prepare(&self) -> io::Result<()> {
        make_dir(&self.pki_dir, 0o700)?;
        for state in KeyState::ALL {
            make_dir(&self.dir(state), 0o755)?;
        }
        make_dir(&self.pki_dir.join("minions_autosign"), 0o755)
    }

    fn text(&self, state: KeyState, id: &MinionId) -> io::Result<Option<String>> {
        let bytes = self.read(state, id)?;
        Ok(bytes.map(|bytes| universal_newlines(&bytes)))
    }

    fn get(&self, state: KeyState, id: &MinionId) -> io::Result<Option<String>> {
        let Some(bytes) = self.read(state, id)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(Some(clean_key(text)))
    }

    fn version(&self, state: KeyState, id: &MinionId) -> Option<Version> {
        let meta = std::fs::symlink_metadata(self.path(state, id)).ok()?;
        meta.is_file().then(|| version(&meta))
    }

    fn put_text(&self, state: KeyState, id: &MinionId, text: &str) -> io::Result<()> {
        let write = || write_atomic(&self.path(state, id), text.as_bytes(), 0o600);
        match write() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                make_dir(&self.dir(state), 0o755)?;
                write()
            }
            other => other,
        }
    }

    fn change(&self, id: &MinionId, from: KeyState, to: KeyState) -> io::Result<bool> {
        let rename = || std::fs::rename(self.path(from, id), self.path(to, id));
        let renamed = match rename() {
            // The key is missing, or the directory that it goes to.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                make_dir(&self.dir(to), 0o755)?;
                rename()
            }
            other => other,
        };
        Ok(found(renamed)?.is_some())
    }

    fn delete(&self, state: KeyState, id: &MinionId) -> io::Result<bool> {
        Ok(found(std::fs::remove_file(self.path(state, id)))?.is_some())
    }

    /// The lock file is beside the directories whose entries are ids.
    fn lock(&self, id: &MinionId) -> io::Result<KeyLock> {
        let take = || NameLock::take(&self.pki_dir.join(".keys.lock"), id.as_str());
        let lock = match take() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                make_dir(&self.pki_dir, 0o700)?;
                take()
            }
            other => other,
        };
        Ok(Box::new(lock?))
    }

    /// Reads the directory only if its modification time has changed: listing the keys for each job is cheap even
    /// with 100 000 of them.
    fn list(&self, state: KeyState) -> io::Result<IdList> {
        let dir = self.dir(state);
        let Some(meta) = found(std::fs::metadata(&dir))? else {
            return Ok(IdList::default());
        };
        let stamp = version(&meta);
        let mut listing = match self.listings[state as usize].lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        if listing.stamp == Some(stamp) {
            return Ok(listing.ids.clone());
        }
        listing.ids = Arc::new(read_ids(&dir)?);
        // Two changes within the clock's granularity leave the same timestamp, so a recent timestamp is not
        // trusted.
        let trusted = meta
            .modified()
            .ok()
            .and_then(|t| SystemTime::now().duration_since(t).ok())
            .is_some_and(|age| age > Duration::from_millis(100));
        listing.stamp = trusted.then_some(stamp);
        Ok(listing.ids.clone())
    }

    fn consume_autosign(&self, id: &MinionId, max_age: Duration) -> io::Result<bool> {
        let path = self.pki_dir.join("minions_autosign").join(id.as_str());
        let meta = match found(std::fs::symlink_metadata(&path))? {
            Some(meta) if meta.is_file() => meta,
            _ => return Ok(false),
        };
        std::fs::remove_file(&path)?;
        let age = meta.modified()?.elapsed().unwrap_or_default();
        Ok(age <= max_age)
    }
}

fn read_ids(dir: &Path) -> io::Result<Vec<MinionId>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|n| !n.starts_with('.')) else {
            continue;
        };
        if !entry.file_type()?.is_file() {
            continue;
        }
        if let Ok(id) = name.parse() {
            ids.push(id);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}
