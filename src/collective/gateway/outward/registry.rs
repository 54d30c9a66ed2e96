//! Keys and records of nodes: the key store that all minions share, seen from this gateway.
//!
//! Nodes of a collective have no key of their own that they could show: PSK and Choria's replies carry none, and with SSL
//! and AES all servers share one. What is stored for a node is the master's own key, so that nobody but the master
//! could use its id at the ports of Salt; the key of a network, which every one of its servers holds, would let each of
//! them sign in as any other.

use halite_config::{CollectiveGateway, MasterConfig};
use halite_crypto::PublicKey;
use halite_gateway::agent_keys::{AgentKeys, RegisterOutcome, Newcomer, Standing};
use halite_gateway::writer::WriteQueue;
use halite_wire::ids::MinionId;
use std::io;

/// The key store as nodes meet it.
pub(in crate::gateway) trait Registry: Send {
    /// What is known of `id`.
    fn standing(&mut self, id: &MinionId) -> Standing;
    /// Registers a node whose id nobody has.
    fn enter(&mut self, id: &MinionId) -> RegisterOutcome;
    /// Forgets the record of an id whose key is gone.
    fn forget(&mut self, id: &MinionId);
}

/// The key store of the master.
pub(in crate::gateway) struct Keys {
    agents: AgentKeys,
    key: PublicKey,
    from: String,
    auto_accept: bool,
    max_pending: usize,
}

impl Keys {
    /// The key store that a configuration names; `key` is the master's own.
    pub fn new(
        config: &MasterConfig,
        settings: &CollectiveGateway,
        key: PublicKey,
        writer: WriteQueue,
    ) -> Keys {
        Keys {
            agents: AgentKeys::new(config, super::super::NAME, writer),
            key,
            from: format!("the collective {}", settings.collectives.join(", ")),
            auto_accept: settings.auto_accept,
            max_pending: settings.max_pending,
        }
    }

    /// Ids that came in here before, without those whose keys went away while nobody listened.
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
