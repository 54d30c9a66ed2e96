//! Cleanup after a deletion or rejection: removes caches and sessions of the minions, and requests a new AES
//! key.

use super::{KeyChanges, Keys};
use halite_store::keys::KeyState;
use halite_store::sessions::SessionStore;
use halite_wire::ids::MinionId;
use std::collections::BTreeSet;
use std::io;

impl Keys<'_> {
    /// Removes grains, pillar and mine of all minions without any key, except those in `preserved`
    /// (`salt/key.py check_minion_cache`), and the session keys of the changed minions that are not accepted
    /// any more. Failures are logged only: the keys have been changed already.
    pub fn forget_vanished(&self, changed: &KeyChanges, preserved: &[MinionId]) -> io::Result<()> {
        let accepted = self.stores.keys.list(KeyState::Accepted)?;
        for id in changed
            .done
            .iter()
            .filter(|id| accepted.binary_search(id).is_err())
        {
            end_sessions(&*self.stores.sessions, id);
        }
        if self.config.preserve_minion_cache {
            return Ok(());
        }
        let known = self.listings()?;
        let preserved: BTreeSet<&MinionId> = preserved.iter().collect();
        let stays = |id: &MinionId| {
            preserved.contains(id) || known.iter().any(|(_, ids)| ids.binary_search(id).is_ok())
        };
        self.stores.minions.retain(&stays)
    }

    /// Requests a new AES key from Maintenance, so that minions without a key can no longer decrypt
    /// publications.
    pub fn request_rotation(&self) -> io::Result<()> {
        log::info!("Rotating AES key");
        self.stores.rotation.request()
    }
}

/// Ends the sessions of a minion; a failure is logged only.
pub(super) fn end_sessions(sessions: &dyn SessionStore, id: &MinionId) {
    if let Err(e) = sessions.remove(id) {
        log::warn!("the session key of {id} could not be removed: {e}");
    }
}
