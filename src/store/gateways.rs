//! What a gateway keeps of the agents that came in through it, below `cachedir/gateways/<name>`.
//!
//! An id is a gateway's only as long as its accepted key is the one that was registered there: so
//! nobody speaks for a Salt minion through a gateway, nor for a gateway's agent through the ports of
//! Salt.

use super::keys::{KeyState, KeyStore};
use halite_crypto::PublicKey;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::ids::MinionId;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A list of connected agents that is older than this was left behind by a gateway that is gone. A gateway
/// writes it every [`REFRESH`].
const STALE: Duration = Duration::from_secs(20);
/// How often a gateway says who is connected, even if nothing has changed.
pub const REFRESH: Duration = Duration::from_secs(5);

/// The records of one gateway.
#[derive(Clone, Debug)]
pub struct GatewayStore {
    dir: PathBuf,
}

impl GatewayStore {
    /// The records of the gateway `name`; nothing is touched yet.
    pub fn new(cachedir: &Path, name: &str) -> GatewayStore {
        GatewayStore {
            dir: cachedir.join("gateways").join(name),
        }
    }

    /// All gateways that have records below `cachedir`.
    pub fn all(cachedir: &Path) -> Vec<GatewayStore> {
        let Ok(entries) = std::fs::read_dir(cachedir.join("gateways")) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        names
            .map(|name| GatewayStore::new(cachedir, &name))
            .collect()
    }

    /// Makes the directories that are missing.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn create_dirs(&self) -> io::Result<()> {
        make_dir(&self.dir, 0o700)?;
        make_dir(&self.dir.join("minions"), 0o700)
    }

    /// Where the record of `id` lies.
    pub fn path(&self, id: &MinionId) -> PathBuf {
        self.dir.join("minions").join(id.as_str())
    }

    /// Fingerprint of the key under which `id` registered here; `None` if it never did.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn fingerprint(&self, id: &MinionId) -> io::Result<Option<String>> {
        match std::fs::read_to_string(self.path(id)) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Notes that `id` registered here.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn put(&self, id: &MinionId, fingerprint: &str) -> io::Result<()> {
        write_atomic(&self.path(id), fingerprint.as_bytes(), 0o600)
    }

    /// Forgets `id`.
    ///
    /// # Errors
    /// The record cannot be removed; one that is not there is none.
    pub fn remove(&self, id: &MinionId) -> io::Result<()> {
        match std::fs::remove_file(self.path(id)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Whether `key` of `id` is the one that was registered here.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn owns(&self, id: &MinionId, key: &str) -> io::Result<bool> {
        let Some(noted) = self.fingerprint(id)? else {
            return Ok(false);
        };
        Ok(PublicKey::from_pem(key).is_ok_and(|key| key.pkcs1_fingerprint() == noted))
    }

    /// The state that decides about `id`, if its key is the one that was registered here.
    ///
    /// # Errors
    /// Key or record cannot be read.
    pub fn state(&self, keys: &KeyStore, id: &MinionId) -> io::Result<Option<KeyState>> {
        match keys.state(id)? {
            Some((state, key)) if self.owns(id, &key)? => Ok(Some(state)),
            _ => Ok(None),
        }
    }

    /// Says who is connected, and from where.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn put_connected(&self, connected: &BTreeMap<MinionId, IpAddr>) -> io::Result<()> {
        let lines = connected
            .iter()
            .map(|(id, address)| format!("{id} {address}\n"));
        let text: String = lines.collect();
        write_atomic(&self.dir.join("connected"), text.as_bytes(), 0o644)
    }

    /// Who is connected; nobody where the gateway has not said so lately.
    pub fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        let path = self.dir.join("connected");
        let fresh = std::fs::metadata(&path)
            .and_then(|meta| meta.modified())
            .is_ok_and(|at| at.elapsed().unwrap_or_default() < STALE);
        if !fresh {
            return BTreeMap::new();
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines()
            .filter_map(|line| {
                let (id, address) = line.split_once(' ')?;
                Some((id.parse().ok()?, address.parse().ok()?))
            })
            .collect()
    }

    /// All ids that have a record.
    ///
    /// # Errors
    /// The records cannot be listed.
    pub fn ids(&self) -> io::Result<Vec<MinionId>> {
        let entries = match std::fs::read_dir(self.dir.join("minions")) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        Ok(names.filter_map(|name| name.parse().ok()).collect())
    }

    /// Whether `id` has ever registered here.
    pub fn knows(&self, id: &MinionId) -> bool {
        self.path(id).exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_crypto::PrivateKey;

    #[test]
    fn a_key_that_changed_is_not_the_gateways() {
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyStore::new(dir.path().join("pki"));
        keys.create_dirs().unwrap();
        let store = GatewayStore::new(dir.path(), "sysinspect");
        store.create_dirs().unwrap();
        let id: MinionId = "a1".parse().unwrap();
        let [own, other] = [0, 1].map(|_| PrivateKey::generate(1024).unwrap().public());
        keys.put(KeyState::Accepted, &id, &own.to_pem()).unwrap();
        assert_eq!(store.state(&keys, &id).unwrap(), None);
        store.put(&id, &own.pkcs1_fingerprint()).unwrap();
        assert_eq!(store.state(&keys, &id).unwrap(), Some(KeyState::Accepted));
        keys.put(KeyState::Accepted, &id, &other.to_pem()).unwrap();
        assert_eq!(store.state(&keys, &id).unwrap(), None);
        store.remove(&id).unwrap();
        store.remove(&id).unwrap();
        assert!(!store.knows(&id));
    }

    #[test]
    fn a_stale_list_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = GatewayStore::new(dir.path(), "sysinspect");
        store.create_dirs().unwrap();
        let who = BTreeMap::from([("a1".parse().unwrap(), "10.0.0.1".parse().unwrap())]);
        store.put_connected(&who).unwrap();
        assert_eq!(store.connected(), who);
        assert_eq!(GatewayStore::all(dir.path()).len(), 1);
        let file = std::fs::File::open(dir.path().join("gateways/sysinspect/connected")).unwrap();
        let old = std::time::SystemTime::now() - 2 * STALE;
        file.set_modified(old).unwrap();
        assert!(store.connected().is_empty());
    }
}
