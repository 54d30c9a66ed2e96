//! What follows a deletion or rejection: caches and sessions of minions that are gone, and
//! the request for a new AES key.

use super::{KeyChanges, Keys};
use halite_store::keys::KeyState;
use halite_wire::ids::MinionId;
use std::collections::BTreeSet;
use std::io;

impl Keys<'_> {
    /// Drops grains, pillar and mine of all minions without any key, but not of those in
    /// `preserved` (`salt/key.py check_minion_cache`), and the session keys of the changed
    /// ones that are not accepted any more. Failures are logged: the keys have changed anyway.
    pub fn forget_vanished(&self, changed: &KeyChanges, preserved: &[MinionId]) -> io::Result<()> {
        let accepted = self.stores.keys.list(KeyState::Accepted)?;
        for id in changed
            .done
            .iter()
            .filter(|id| accepted.binary_search(id).is_err())
        {
            report(id.as_str(), self.stores.sessions.remove(id));
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

    /// Asks Maintenance for a new AES key, so that minions without a key stop understanding
    /// publications.
    pub fn request_rotation(&self) -> io::Result<()> {
        log::info!("Rotating AES key");
        self.stores.rotation.request()
    }
}

fn report(what: &str, result: io::Result<()>) {
    if let Err(e) = result {
        log::warn!("the session key of {what} could not be removed: {e}");
    }
}
