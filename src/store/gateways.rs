//! What gateways store about the agents that registered through them.
//!
//! An id belongs to a gateway only while its accepted key is the one that was registered there. Nobody can
//! speak for a Salt minion through a gateway, nor for a gateway's agent through the ports of Salt.

use super::keys::{KeyState, KeyStore, Version};
use halite_crypto::IdentityPublic;
use halite_wire::ids::MinionId;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// How often a gateway writes its list of connected agents, even if nothing has changed.
pub const REFRESH: Duration = Duration::from_secs(5);
/// A list of connected agents older than this means that the gateway has stopped: it writes one every [`REFRESH`].
pub(crate) const STALE: Duration = Duration::from_secs(20);

/// The records of all gateways.
pub trait GatewayStores: Send + Sync {
    /// The records of the gateway `name`.
    fn of(&self, name: &str) -> Arc<dyn GatewayStore>;

    /// All gateways that have records.
    fn all(&self) -> Vec<Arc<dyn GatewayStore>>;
}

/// The records of one gateway.
pub trait GatewayStore: Send + Sync {
    /// Prepares the store for its first write.
    fn prepare(&self) -> io::Result<()>;

    /// Fingerprint of the key that `id` registered with; `None` if it never registered here.
    fn fingerprint(&self, id: &MinionId) -> io::Result<Option<String>>;

    /// Version of the record of `id`; `None` if there is none.
    fn version(&self, id: &MinionId) -> Option<Version>;

    /// Records that `id` registered here.
    fn put(&self, id: &MinionId, fingerprint: &str) -> io::Result<()>;

    /// What the gateway calls `id`, if it has recorded that: ARENA knows runtimes by a uuid.
    fn alias(&self, id: &MinionId) -> Option<String>;

    /// Records what the gateway calls `id`.
    fn put_alias(&self, id: &MinionId, alias: &str) -> io::Result<()>;

    /// Removes the record of `id`, if there is one; not its alias.
    fn remove(&self, id: &MinionId) -> io::Result<()>;

    /// All ids that have a record.
    fn ids(&self) -> io::Result<Vec<MinionId>>;

    /// Records which agents are connected, and from which address.
    fn put_connected(&self, connected: &BTreeMap<MinionId, IpAddr>) -> io::Result<()>;

    /// The connected agents and their addresses; empty if the list is older than 20 seconds.
    fn connected(&self) -> BTreeMap<MinionId, IpAddr>;

    /// Whether `id` has registered here.
    fn knows(&self, id: &MinionId) -> bool {
        self.version(id).is_some()
    }

    /// Whether `key` of `id` is the one that was registered here.
    fn owns(&self, id: &MinionId, key: &str) -> io::Result<bool> {
        let Some(registered) = self.fingerprint(id)? else {
            return Ok(false);
        };
        Ok(IdentityPublic::from_pem(key).is_ok_and(|key| key.agent_fingerprint() == registered))
    }

    /// The state of the key of `id`, if it is the key that was registered here.
    fn state(&self, keys: &dyn KeyStore, id: &MinionId) -> io::Result<Option<KeyState>> {
        match keys.state(id)? {
            Some((state, key)) if self.owns(id, &key)? => Ok(Some(state)),
            _ => Ok(None),
        }
    }
}
