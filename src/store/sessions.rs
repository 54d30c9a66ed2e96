//! Session keys of minions, created at sign-in and kept across restarts (reference `salt-protocol.md` 4.3). A minion can have
//! one of each kind: a key that was sent by Salt's sign-in is never used for AES-256-GCM.

use crate::keys::Version;
use halite_crypto::{CipherKind, KeyString};
use halite_wire::ids::MinionId;
use std::io;

/// Where session keys are stored.
pub trait SessionStore: Send + Sync {
    /// Prepares the store for its first write.
    fn prepare(&self) -> io::Result<()>;

    /// The key of `id`; `None` if there is none, or it has expired.
    fn get(&self, kind: CipherKind, id: &MinionId) -> io::Result<Option<KeyString>>;

    /// Changes with the key; `None` if there is none, or it has expired.
    fn version(&self, kind: CipherKind, id: &MinionId) -> Option<Version>;

    /// The key of `id`, created now if there is none or it has expired. Processes that call this at the same time get
    /// the same key. `owner` is the fingerprint of the minion's RSA key: for AES-256-GCM, the session of another one counts
    /// as missing.
    fn get_or_create(&self, kind: CipherKind, id: &MinionId, owner: &str) -> io::Result<KeyString>;

    /// Removes one key of `id`.
    fn end(&self, kind: CipherKind, id: &MinionId) -> io::Result<()>;

    /// Removes the keys of `id`.
    fn remove(&self, id: &MinionId) -> io::Result<()> {
        CipherKind::ALL
            .into_iter()
            .try_for_each(|kind| self.end(kind, id))
    }
}
