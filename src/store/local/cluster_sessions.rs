//! Session keys of a cluster: every master derives the same key, so that a minion can go from one to another without a
//! sign-in, and none has to be stored or sent.
//!
//! A key depends on the cluster's secret, the id, the accepted RSA key of that id, how often an accepted key was taken away from
//! it (the file `cachedir/cluster/epochs/<id>`, written by the role `cluster`), and the period of time. So it ends with the
//! key: a deleted minion has none, and one that is accepted again has another.

use super::LocalKeys;
use crate::keys::{KeyState, KeyStore, Version};
use crate::sessions::SessionStore;
use halite_crypto::noise::fingerprint;
use halite_crypto::{CipherKind, ClusterSecret, KeyString};
use halite_sys::time::unix_now;
use halite_wire::ids::MinionId;
use std::io;
use std::path::{Path, PathBuf};

/// Derived session keys.
pub struct ClusterSessions {
    /// Or why it cannot be read.
    secret: Result<ClusterSecret, String>,
    keys: LocalKeys,
    epochs: PathBuf,
    /// Seconds.
    lifetime: u64,
}

/// How often the accepted key of `id` was taken away, by the files in `epochs`.
pub fn epoch(epochs: &Path, id: &MinionId) -> u64 {
    let text = std::fs::read_to_string(epochs.join(id.as_str()));
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

impl ClusterSessions {
    /// Sessions that live for `lifetime` seconds (option `publish_session`), of minions whose keys are in `keys`.
    pub fn new(
        secret: Result<ClusterSecret, String>,
        keys: LocalKeys,
        epochs: PathBuf,
        lifetime: u64,
    ) -> ClusterSessions {
        ClusterSessions {
            secret,
            keys,
            epochs,
            lifetime: lifetime.max(1),
        }
    }

    /// The period that `now` (Unix seconds) is in; those of different ids begin at different times, so that a fleet does not
    /// sign in again all at once.
    fn period(&self, id: &MinionId, now: u64) -> u64 {
        let offset = u64::from(crc32fast::hash(id.as_str().as_bytes())) % self.lifetime;
        (now + offset) / self.lifetime
    }

    /// The key of a minion whose RSA key has the fingerprint `owner`.
    fn key(&self, kind: CipherKind, id: &MinionId, owner: &str) -> io::Result<KeyString> {
        let secret = self
            .secret
            .as_ref()
            .map_err(|why| io::Error::other(why.clone()))?;
        let period = self.period(id, unix_now()).to_be_bytes();
        let epoch = epoch(&self.epochs, id).to_be_bytes();
        let parts = [
            kind.enc().as_bytes(),
            id.as_str().as_bytes(),
            owner.as_bytes(),
            &epoch,
            &period,
        ];
        Ok(secret.key("session", &parts))
    }

    /// The fingerprint of the accepted key of `id`.
    fn owner(&self, id: &MinionId) -> io::Result<Option<String>> {
        let key = self.keys.get(KeyState::Accepted, id)?;
        Ok(key.map(|key| fingerprint(&key)))
    }
}

impl SessionStore for ClusterSessions {
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    fn get(&self, kind: CipherKind, id: &MinionId) -> io::Result<Option<KeyString>> {
        let owner = self.owner(id)?;
        owner.map(|owner| self.key(kind, id, &owner)).transpose()
    }

    fn version(&self, _: CipherKind, id: &MinionId) -> Option<Version> {
        let (seconds, nanoseconds, inode) = self.keys.version(KeyState::Accepted, id)?;
        let epoch = epoch(&self.epochs, id).rotate_left(32);
        Some((
            seconds,
            nanoseconds,
            inode ^ epoch ^ self.period(id, unix_now()),
        ))
    }

    /// # Errors
    /// The id has no accepted key, or for AES-256-GCM another one than `owner`'s.
    fn get_or_create(&self, kind: CipherKind, id: &MinionId, owner: &str) -> io::Result<KeyString> {
        match self.owner(id)? {
            Some(accepted) if kind == CipherKind::Salt || accepted == owner => {
                self.key(kind, id, &accepted)
            }
            _ => Err(io::Error::other(format!(
                "the key of {id} has changed meanwhile"
            ))),
        }
    }

    /// Nothing: a session ends with the accepted key.
    fn end(&self, _: CipherKind, _: &MinionId) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: CipherKind = CipherKind::Gcm;

    fn store(dir: &std::path::Path, lifetime: u64) -> ClusterSessions {
        let secret = ClusterSecret::new("0123456789abcdef0123456789abcdef", "c");
        let keys = LocalKeys::new(dir);
        keys.prepare().unwrap();
        ClusterSessions::new(
            secret.map_err(|e| e.to_string()),
            keys,
            dir.join("epochs"),
            lifetime,
        )
    }

    #[test]
    fn masters_agree_and_keys_decide() {
        let dirs = [0, 1].map(|_| tempfile::tempdir().unwrap());
        let [one, other] = [0, 1].map(|n: usize| store(dirs[n].path(), 3600));
        let id: MinionId = "m1".parse().unwrap();
        assert_eq!(one.get(KIND, &id).unwrap(), None);
        assert!(one.get_or_create(KIND, &id, "x").is_err());
        for store in [&one, &other] {
            store.keys.put(KeyState::Accepted, &id, "key one").unwrap();
        }
        let owner = fingerprint("key one");
        let key = one.get_or_create(KIND, &id, &owner).unwrap();
        assert_eq!(other.get(KIND, &id).unwrap(), Some(key.clone()));
        assert_ne!(one.get(CipherKind::Salt, &id).unwrap(), Some(key.clone()));
        assert!(
            one.get_or_create(KIND, &id, &fingerprint("key two"))
                .is_err()
        );
        let before = one.version(KIND, &id);
        one.keys.put(KeyState::Accepted, &id, "key two").unwrap();
        assert_ne!(one.get(KIND, &id).unwrap(), Some(key.clone()));
        assert_ne!(one.version(KIND, &id), before);
        // Taken away, and accepted again.
        one.keys.put(KeyState::Accepted, &id, "key one").unwrap();
        assert_eq!(one.get(KIND, &id).unwrap(), Some(key.clone()));
        let before = one.version(KIND, &id);
        std::fs::create_dir(dirs[0].path().join("epochs")).unwrap();
        std::fs::write(dirs[0].path().join("epochs/m1"), "1").unwrap();
        assert_ne!(one.get(KIND, &id).unwrap(), Some(key));
        assert_ne!(one.version(KIND, &id), before);
        one.keys.delete(KeyState::Accepted, &id).unwrap();
        assert_eq!(one.get(KIND, &id).unwrap(), None);
        assert_eq!(one.version(KIND, &id), None);
    }

    #[test]
    fn periods_of_a_fleet_do_not_begin_together() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), 1000);
        let ids = (0..500).map(|n| format!("web{n}").parse().unwrap());
        let changed = ids.filter(|id| store.period(id, 1_000_000) != store.period(id, 1_000_100));
        let changed = changed.count();
        assert!((20..100).contains(&changed), "{changed}");
    }
}
