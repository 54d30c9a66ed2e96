//! One session key per file, `cachedir/sessions/<id>` or, for AES-256-GCM, `cachedir/sessions_gcm/<id>`, where
//! the fingerprint of the minion's RSA key follows. Its modification time is when the key was created.

use super::found;
use crate::keys::Version;
use crate::sessions::SessionStore;
use halite_crypto::{CipherKind, KeyString};
use halite_sys::daemon::{make_dir, write_atomic, write_new};
use halite_wire::ids::MinionId;
use std::fs::Metadata;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// The session key files of one master.
#[derive(Clone, Debug)]
pub struct LocalSessions {
    cachedir: PathBuf,
    lifetime: Duration,
}

impl LocalSessions {
    /// Sessions below `cachedir` that live for `lifetime` (option `publish_session`).
    pub fn new(cachedir: &std::path::Path, lifetime: Duration) -> LocalSessions {
        LocalSessions {
            cachedir: cachedir.to_owned(),
            lifetime,
        }
    }

    fn dir(&self, kind: CipherKind) -> PathBuf {
        self.cachedir.join(match kind {
            CipherKind::Salt => "sessions",
            CipherKind::Gcm => "sessions_gcm",
        })
    }

    fn path(&self, kind: CipherKind, id: &MinionId) -> PathBuf {
        self.dir(kind).join(id.as_str())
    }

    /// The metadata of a key that has not expired.
    fn lives(&self, kind: CipherKind, id: &MinionId) -> io::Result<Option<Metadata>> {
        let meta = match found(std::fs::metadata(self.path(kind, id)))? {
            Some(meta) if meta.is_file() => meta,
            _ => return Ok(None),
        };
        let age = meta.modified()?.elapsed().unwrap_or_default();
        Ok((age <= self.lifetime_of(id)).then_some(meta))
    }

    /// The key and, for AES-256-GCM, whose it is. A damaged file counts as missing: the next sign-in writes a good one.
    fn read(&self, kind: CipherKind, id: &MinionId) -> io::Result<Option<(KeyString, String)>> {
        if self.lives(kind, id)?.is_none() {
            return Ok(None);
        }
        let text = found(std::fs::read_to_string(self.path(kind, id)))?;
        let text = Zeroizing::new(text.unwrap_or_default());
        let (key, owner) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let key = KeyString::from_text(key).ok();
        Ok(key.map(|key| (key, owner.to_owned())))
    }

    /// The lifetime minus up to an eighth, depending on the id: minions that signed in at the same time, as after a
    /// restart, do not all sign in again at the same time.
    fn lifetime_of(&self, id: &MinionId) -> Duration {
        let share = crc32fast::hash(id.as_str().as_bytes()) % 1024;
        self.lifetime - self.lifetime / 8 * share / 1024
    }
}

impl SessionStore for LocalSessions {
    /// Creates the directories, readable only by their owner.
    fn prepare(&self) -> io::Result<()> {
        CipherKind::ALL
            .into_iter()
            .try_for_each(|kind| make_dir(&self.dir(kind), 0o700))
    }

    fn get(&self, kind: CipherKind, id: &MinionId) -> io::Result<Option<KeyString>> {
        Ok(self.read(kind, id)?.map(|(key, _)| key))
    }

    fn version(&self, kind: CipherKind, id: &MinionId) -> Option<Version> {
        let meta = self.lives(kind, id).ok()??;
        Some(super::version(&meta))
    }

    fn get_or_create(&self, kind: CipherKind, id: &MinionId, owner: &str) -> io::Result<KeyString> {
        let own = || -> io::Result<Option<KeyString>> {
            let found = self.read(kind, id)?;
            Ok(found
                .filter(|(_, of)| kind == CipherKind::Salt || of == owner)
                .map(|(key, _)| key))
        };
        if let Some(key) = own()? {
            return Ok(key);
        }
        let key = KeyString::generate();
        let text = Zeroizing::new(match kind {
            CipherKind::Salt => key.as_str().to_owned(),
            CipherKind::Gcm => format!("{} {owner}", key.as_str()),
        });
        let path = self.path(kind, id);
        match write_new(&path, text.as_bytes(), 0o600) {
            Ok(()) => return Ok(key),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        // Another worker may have signed in the same minion since the first check: both use its key.
        if let Some(other) = own()? {
            return Ok(other);
        }
        // Expired, damaged, or of a minion that had the id before.
        write_atomic(&path, text.as_bytes(), 0o600)?;
        Ok(key)
    }

    fn end(&self, kind: CipherKind, id: &MinionId) -> io::Result<()> {
        found(std::fs::remove_file(self.path(kind, id))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: CipherKind = CipherKind::Salt;

    #[test]
    fn workers_agree_on_a_new_key() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalSessions::new(dir.path(), Duration::from_secs(60));
        store.prepare().unwrap();
        let id: MinionId = "m".parse().unwrap();
        assert!(store.get(KIND, &id).unwrap().is_none());
        // Repeated, since the interleaving is random.
        for _ in 0..200 {
            store.remove(&id).unwrap();
            let keys: Vec<KeyString> = std::thread::scope(|s| {
                let workers: Vec<_> = (0..8)
                    .map(|_| s.spawn(|| store.get_or_create(KIND, &id, "a").unwrap()))
                    .collect();
                workers.into_iter().map(|w| w.join().unwrap()).collect()
            });
            let kept = store.get(KIND, &id).unwrap().unwrap();
            assert!(keys.iter().all(|k| *k == kept));
        }
        assert_eq!(
            std::fs::read_dir(dir.path().join("sessions"))
                .unwrap()
                .count(),
            1
        );
    }

    #[test]
    fn sessions_of_a_fleet_do_not_expire_together() {
        let day = Duration::from_secs(86_400);
        let store = LocalSessions::new(std::path::Path::new("/"), day);
        let ids = (0..1000).map(|n| format!("web{n}").parse().unwrap());
        let mut ends: Vec<Duration> = ids.map(|id| store.lifetime_of(&id)).collect();
        ends.sort_unstable();
        ends.dedup();
        assert!(ends.len() > 500, "{}", ends.len());
        assert!(ends[0] >= day / 8 * 7 && ends[ends.len() - 1] <= day);
        assert!(ends[ends.len() - 1] - ends[0] > day / 9);
    }

    #[test]
    fn old_and_damaged_keys_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalSessions::new(dir.path(), Duration::from_secs(60));
        store.prepare().unwrap();
        let id: MinionId = "m".parse().unwrap();
        let first = store.get_or_create(KIND, &id, "a").unwrap();
        let file = std::fs::File::open(dir.path().join("sessions/m")).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(61))
            .unwrap();
        assert!(
            store.get(KIND, &id).unwrap().is_none(),
            "it has lived its time"
        );
        assert!(store.get_or_create(KIND, &id, "a").unwrap() != first);
        std::fs::write(dir.path().join("sessions/m"), "junk").unwrap();
        assert!(store.get(KIND, &id).unwrap().is_none());
        let healed = store.get_or_create(KIND, &id, "a").unwrap();
        assert!(store.get(KIND, &id).unwrap() == Some(healed));
        let other = store.get_or_create(CipherKind::Gcm, &id, "a").unwrap();
        assert!(store.get(KIND, &id).unwrap().as_ref() != Some(&other));
        // Of the same owner, and of another one.
        let gcm = |owner: &str| store.get_or_create(CipherKind::Gcm, &id, owner).unwrap();
        let version = || store.version(CipherKind::Gcm, &id).unwrap();
        let before = version();
        assert!(gcm("a") == other && version() == before);
        assert!(gcm("b") != other && version() != before);
        assert!(gcm("b") == gcm("b"));
        store.remove(&id).unwrap();
        for kind in CipherKind::ALL {
            assert!(store.get(kind, &id).unwrap().is_none());
        }
    }
}
