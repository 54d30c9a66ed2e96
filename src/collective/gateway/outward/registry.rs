//! Keys and records of nodes in the key store shared with all minions.
//!
//! Nodes of a collective do not present their own keys: PSK and Choria's replies have none, and with SSL
//! and AES all servers share one. The key stored for a node is the master's own, so that nobody but the master
//! can use its id on Salt's ports; with the network's key, which all its servers have, each of
//! them could sign in as any other.

use halite_config::{CollectiveGateway, MasterConfig};
use halite_crypto::IdentityPublic;
use halite_gateway::agent_keys::{AgentKeys, Newcomer, RegisterOutcome, Standing};
use halite_gateway::writer::WriteQueue;
use halite_store::Stores;
use halite_wire::ids::MinionId;
use std::io;

/// The key store for nodes.
pub(in crate::gateway) trait Registry: Send {
    /// The standing of `id`.
    fn standing(&mut self, id: &MinionId) -> Standing;
    /// Registers a node whose id is unused.
    fn enter(&mut self, id: &MinionId) -> RegisterOutcome;
    /// Removes the record of an id whose key is gone.
    fn forget(&mut self, id: &MinionId);
}

/// The key store of the master.
pub(in crate::gateway) struct Keys {
    agents: AgentKeys,
    key: IdentityPublic,
    from: String,
    auto_accept: bool,
    max_pending: usize,
}

impl Keys {
    /// The key store of the configuration; `key` is the master's own.
    pub fn new(
        config: &MasterConfig,
        stores: &Stores,
        settings: &CollectiveGateway,
        key: IdentityPublic,
        writer: WriteQueue,
    ) -> Keys {
        Keys {
            agents: AgentKeys::new(config, stores, super::super::NAME, writer),
            key,
            from: format!("the collective {}", settings.collectives.join(", ")),
            auto_accept: settings.auto_accept,
            max_pending: settings.max_pending,
        }
    }

    /// Ids that registered here before; removes records whose keys were deleted meanwhile.
    ///
    /// # Errors
    /// The records cannot be listed.
    pub fn sweep(&mut self) -> io::Result<Vec<MinionId>> {
        self.agents.sweep()
    }
}

impl Registry for Keys {
    fn standing(&mut self, id: &MinionId) -> Standing {
        self.agents.standing(id)
    }

    fn enter(&mut self, id: &MinionId) -> RegisterOutcome {
        let newcomer = Newcomer {
            id,
            key: &self.key,
            from: &self.from,
            vouched: self.auto_accept,
            max_pending: self.max_pending,
        };
        self.agents.register(&newcomer).unwrap_or_else(|e| {
            log::error!("{id} cannot be registered: {e}");
            RegisterOutcome::Full
        })
    }

    fn forget(&mut self, id: &MinionId) {
        self.agents.forget(id);
    }
}
