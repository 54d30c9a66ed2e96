//! The key store: one PEM file per minion and state, in Salt's directory layout
//! (reference `salt-protocol.md` 2.2), so that stock tools and halite read the same truth.

use halite_crypto::clean_key;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::MinionId;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// State of a minion's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyState {
    /// Trusted.
    Accepted,
    /// A key that differs from the stored one was presented.
    Denied,
    /// Waiting for the operator.
    Pending,
    /// Refused by the operator.
    Rejected,
}

impl KeyState {
    /// All states, in the order in which `salt-key` prints them.
    pub const ALL: [KeyState; 4] = [
        KeyState::Accepted,
        KeyState::Denied,
        KeyState::Pending,
        KeyState::Rejected,
    ];

    /// Directory below `pki_dir`.
    pub fn dir(self) -> &'static str {
        match self {
            KeyState::Accepted => "minions",
            KeyState::Denied => "minions_denied",
            KeyState::Pending => "minions_pre",
            KeyState::Rejected => "minions_rejected",
        }
    }

    /// Name of the state as Salt 3008's events carry it (`salt/key.py Key.change_state`).
    pub fn name(self) -> &'static str {
        match self {
            KeyState::Accepted => "accepted",
            KeyState::Denied => "denied",
            KeyState::Pending => "pending",
            KeyState::Rejected => "rejected",
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sorted ids of one state.
pub type IdList = Arc<Vec<MinionId>>;

#[derive(Debug, Default)]
struct Listing {
    stamp: Option<(i64, i64, u64)>,
    ids: IdList,
}

/// The key directories below one `pki_dir`.
#[derive(Debug)]
pub struct KeyStore {
    pki_dir: PathBuf,
    listings: [Mutex<Listing>; 4],
}

impl KeyStore {
    /// A store below `pki_dir`; nothing is touched yet.
    pub fn new(pki_dir: impl Into<PathBuf>) -> KeyStore {
        KeyStore {
            pki_dir: pki_dir.into(),
            listings: Default::default(),
        }
    }

    /// The directory that holds the key directories.
    pub fn pki_dir(&self) -> &Path {
        &self.pki_dir
    }

    /// Makes the directories that are missing. `pki_dir` itself is for its owner alone.
    pub fn create_dirs(&self) -> io::Result<()> {
        make_dir(&self.pki_dir, 0o700)?;
        for state in KeyState::ALL {
            make_dir(&self.pki_dir.join(state.dir()), 0o755)?;
        }
        make_dir(&self.pki_dir.join("minions_autosign"), 0o755)
    }

    /// Where the key of `id` lies in `state`.
    pub fn path(&self, state: KeyState, id: &MinionId) -> PathBuf {
        self.pki_dir.join(state.dir()).join(id.as_str())
    }

    /// The key text of `id` in `state`, or `None`. Anything but a regular file counts as absent.
    pub fn get(&self, state: KeyState, id: &MinionId) -> io::Result<Option<String>> {
        let Some(octets) = self.read(state, id)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&octets)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(Some(clean_key(text)))
    }

    /// The file of `id` in `state` as it stands, with line feeds for line ends; `None` if
    /// there is no regular file. [`KeyStore::get`] gives the form that is compared.
    pub fn text(&self, state: KeyState, id: &MinionId) -> io::Result<Option<String>> {
        Ok(self
            .read(state, id)?
            .map(|octets| universal_newlines(&octets)))
    }

    fn read(&self, state: KeyState, id: &MinionId) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(state, id);
        let octets = match std::fs::symlink_metadata(&path) {
            Ok(m) if m.is_file() => std::fs::read(&path),
            Ok(_) => return Ok(None),
            Err(e) => Err(e),
        };
        match octets {
            Ok(octets) => Ok(Some(octets)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Makes the directory of `state` if it is missing.
    pub fn create_dir(&self, state: KeyState) -> io::Result<()> {
        make_dir(&self.pki_dir.join(state.dir()), 0o755)
    }

    /// The state that decides about `id`: rejected before pending before accepted
    /// (`salt/cache/localfs_key.py`). Denied keys stand beside these and do not count.
    pub fn state(&self, id: &MinionId) -> io::Result<Option<(KeyState, String)>> {
        for state in [KeyState::Rejected, KeyState::Pending, KeyState::Accepted] {
            if let Some(key) = self.get(state, id)? {
                return Ok(Some((state, key)));
            }
        }
        Ok(None)
    }

    /// Stores `key` for `id` in `state`, leaving other states alone.
    pub fn put(&self, state: KeyState, id: &MinionId, key: &str) -> io::Result<()> {
        write_atomic(&self.path(state, id), clean_key(key).as_bytes(), 0o600)
    }

    /// Moves the key of `id` from one state to another. `false` if there was none.
    pub fn change(&self, id: &MinionId, from: KeyState, to: KeyState) -> io::Result<bool> {
        match std::fs::rename(self.path(from, id), self.path(to, id)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Removes the key of `id` in `state`. `false` if there was none.
    pub fn delete(&self, state: KeyState, id: &MinionId) -> io::Result<bool> {
        match std::fs::remove_file(self.path(state, id)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Ids in `state`, sorted. The directory is read again only when its modification
    /// time has changed, so that asking per job is cheap at 100 000 keys.
    pub fn list(&self, state: KeyState) -> io::Result<IdList> {
        let dir = self.pki_dir.join(state.dir());
        let meta = match std::fs::metadata(&dir) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(IdList::default()),
            Err(e) => return Err(e),
        };
        let stamp = (meta.mtime(), meta.mtime_nsec(), meta.ino());
        let mut listing = match self.listings[state as usize].lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        if listing.stamp == Some(stamp) {
            return Ok(listing.ids.clone());
        }
        listing.ids = Arc::new(read_ids(&dir)?);
        // A change within the clock's granularity would leave the time as it is: a fresh
        // directory is believed only once it has rested.
        let rested = meta
            .modified()
            .ok()
            .and_then(|t| SystemTime::now().duration_since(t).ok())
            .is_some_and(|age| age > Duration::from_millis(100));
        listing.stamp = rested.then_some(stamp);
        Ok(listing.ids.clone())
    }

    /// Takes a one-shot pre-approval of `id` (`minions_autosign/<id>`): removes it and says
    /// whether it was valid, that is not older than `max_age`.
    pub fn consume_autosign(&self, id: &MinionId, max_age: Duration) -> io::Result<bool> {
        let path = self.pki_dir.join("minions_autosign").join(id.as_str());
        let meta = match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() => meta,
            Ok(_) => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        std::fs::remove_file(&path)?;
        let age = meta.modified()?.elapsed().unwrap_or_default();
        Ok(age <= max_age)
    }
}

/// A file as Python's text mode reads it; octets that are no UTF-8 are replaced.
pub fn universal_newlines(octets: &[u8]) -> String {
    let text = String::from_utf8_lossy(octets);
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        text.into_owned()
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
