//! What a master stores: keys, session keys, jobs, data of minions, files.
//!
//! The other rooms use [`Stores`]: one trait per store, opened together, once per process. A master stores files
//! ([`local`]). [`memory`] is a second implementation, for tests of code that uses stores; both pass the same tests.
//! What is specific to one host has no trait: the file server, mirrors of repositories, the audit log.

pub mod audit;
pub mod cached_data;
pub mod files;
pub mod gateways;
pub mod git;
pub mod jobs;
pub mod keys;
pub mod local;
pub mod memory;
pub mod mine;
pub mod minions;
pub mod presence;
pub mod records;
pub mod relayed;
pub mod sessions;
pub mod tokens;

use halite_config::MasterConfig;
use halite_crypto::HashType;
use std::io;
use std::sync::Arc;

/// All stores of one master. Clones share the same stores.
#[derive(Clone)]
pub struct Stores {
    /// Keys of minions.
    pub keys: Arc<dyn keys::KeyStore>,
    /// Session keys.
    pub sessions: Arc<dyn sessions::SessionStore>,
    /// The job cache.
    pub jobs: Arc<dyn jobs::JobStore>,
    /// Grains and pillar of minions.
    pub minions: Arc<dyn minions::MinionCache>,
    /// The mine.
    pub mine: Arc<dyn mine::MineStore>,
    /// Tokens of external authentication.
    pub tokens: Arc<dyn tokens::TokenStore>,
    /// Which minion started a job.
    pub owners: Arc<dyn records::JobOwners>,
    /// Ids of syndics.
    pub syndics: Arc<dyn records::Syndics>,
    /// Records of gateways.
    pub gateways: Arc<dyn gateways::GatewayStores>,
    /// Requests for a new publication key.
    pub rotation: Arc<dyn records::RotationRequests>,
    /// When minions were connected last.
    pub last_seen: Arc<dyn presence::LastSeen>,
    /// Minions that are connected to other masters of the cluster.
    pub elsewhere: Arc<dyn presence::Elsewhere>,
}

impl Stores {
    /// The stores of a configuration. Nothing is read or created yet.
    pub fn open(config: &MasterConfig) -> Stores {
        local::open(config)
    }

    /// Prepares keys and session keys for their first write.
    ///
    /// # Errors
    /// A directory cannot be created.
    pub fn prepare(&self) -> io::Result<()> {
        self.keys.prepare()?;
        self.sessions.prepare()
    }
}

/// The hash of file names and fingerprints (option `hash_type`).
pub fn hash_type(config: &MasterConfig) -> HashType {
    config.hash_type.parse().unwrap_or(HashType::Sha256)
}

#[cfg(test)]
mod tests;
