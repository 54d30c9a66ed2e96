//! Session keys: one text per minion in `cachedir/sessions/<id>`, created at sign-in,
//! kept across restarts (reference `salt-protocol.md` 4.3).

use crate::crypto::KeyString;
use crate::sys::daemon::{make_dir, write_atomic};
use crate::wire::ids::MinionId;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The session key files of one master.
#[derive(Clone, Debug)]
pub struct SessionStore {
    dir: PathBuf,
    lifetime: Duration,
}

impl SessionStore {
    /// Sessions below `cachedir` that live for `lifetime` (option `publish_session`).
    pub fn new(cachedir: &std::path::Path, lifetime: Duration) -> SessionStore {
        SessionStore {
            dir: cachedir.join("sessions"),
            lifetime,
        }
    }

    /// Makes the directory, readable by its owner only.
    pub fn create_dir(&self) -> io::Result<()> {
        make_dir(&self.dir, 0o700)
    }

    /// The key of `id` if there is one that has not expired.
    pub fn get(&self, id: &MinionId) -> io::Result<Option<KeyString>> {
        let path = self.dir.join(id.as_str());
        let meta = match std::fs::metadata(&path) {
            Ok(meta) if meta.is_file() => meta,
            Ok(_) => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        if meta.modified()?.elapsed().unwrap_or_default() > self.lifetime {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path)?;
        // A damaged file counts as none: the next sign-in writes a good one.
        Ok(KeyString::from_text(text.trim()).ok())
    }

    /// The key of `id`, made now if there is none or it has expired.
    pub fn get_or_create(&self, id: &MinionId) -> io::Result<KeyString> {
        if let Some(key) = self.get(id)? {
            return Ok(key);
        }
        let key = KeyString::generate();
        write_atomic(&self.dir.join(id.as_str()), key.as_str().as_bytes(), 0o600)?;
        // Two workers may have raced; what is on disk is the truth for both.
        Ok(self.get(id)?.unwrap_or(key))
    }

    /// Number of minions that hold a session.
    pub fn count(&self) -> io::Result<usize> {
        Ok(std::fs::read_dir(&self.dir)?.count())
    }

    /// Forgets the key of `id`.
    pub fn remove(&self, id: &MinionId) -> io::Result<()> {
        match std::fs::remove_file(self.dir.join(id.as_str())) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}
