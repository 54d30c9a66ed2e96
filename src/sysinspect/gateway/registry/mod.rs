//! Keys and records of sysinspect minions: the key store that all minions share, seen from this gateway.

use super::session::{Registered, Registry};
use crate::wire::MachineId;
use halite_config::{MasterConfig, SysinspectGateway};
use halite_crypto::{PrivateKey, PublicKey};
use halite_gateway::agent_keys::{AgentKeys, Newcomer, RegisterOutcome, Standing};
use halite_gateway::writer::WriteQueue;
use halite_store::Stores;
use halite_wire::ids::MinionId;
use std::io;
use std::net::IpAddr;

/// The key store as this gateway sees it.
pub(super) struct Keys {
    settings: SysinspectGateway,
    agents: AgentKeys,
    master: PrivateKey,
}

impl Keys {
    /// Opens the key store that `config` names.
    pub fn new(
        config: &MasterConfig,
        stores: &Stores,
        settings: &SysinspectGateway,
        master: PrivateKey,
        writer: WriteQueue,
    ) -> Keys {
        Keys {
            settings: settings.clone(),
            agents: AgentKeys::new(config, stores, super::NAME, writer),
            master,
        }
    }

    /// Removes the record of a minion whose key no longer exists.
    pub fn forget(&mut self, id: &MachineId) {
        if let Ok(id) = id.as_str().parse() {
            self.agents.forget(&id);
        }
    }

    /// Removes the records of minions whose keys were deleted while no gateway ran.
    ///
    /// # Errors
    /// The records cannot be listed.
    pub fn sweep(&mut self) -> io::Result<()> {
        self.agents.sweep().map(drop)
    }

    fn enter(&mut self, machine: &MachineId, key: &str, from: IpAddr) -> io::Result<Registered> {
        let Ok(id) = machine.as_str().parse::<MinionId>() else {
            return Ok(Registered::BadKey);
        };
        let known = self.agents.try_standing(&id)? != Standing::Unknown;
        if known && key.is_empty() {
            return Ok(Registered::Taken);
        }
        // A minion of the seed's dialect sends no key. The master's own key is stored for it: nobody but the master
        // could use the id at Salt's ports, and its fingerprint is the one that the minion's user has accepted.
        let key = match key {
            "" => Ok(self.master.public()),
            text => PublicKey::from_pem(text),
        };
        let Ok(key) = key else {
            log::warn!("{from} tried to register {id} with a key that is not an RSA public key");
            return Ok(Registered::BadKey);
        };
        let newcomer = Newcomer {
            id: &id,
            key: &key.into(),
            from: &from.to_string(),
            vouched: self.settings.auto_accept,
            max_pending: self.settings.max_pending,
        };
        if known {
            self.agents.check_presented_key(&newcomer)?;
            return Ok(Registered::Taken);
        }
        Ok(match self.agents.register(&newcomer)? {
            RegisterOutcome::Accepted => Registered::Accepted,
            RegisterOutcome::Waiting => Registered::Waiting,
            RegisterOutcome::Rejected => Registered::Rejected,
            RegisterOutcome::Full => Registered::Full,
        })
    }
}

impl Registry for Keys {
    fn standing(&mut self, id: &MachineId) -> Standing {
        match id.as_str().parse::<MinionId>() {
            Ok(id) => self.agents.standing(&id),
            Err(_) => Standing::Foreign,
        }
    }

    fn register(&mut self, id: &MachineId, key: &str, from: IpAddr) -> Registered {
        self.enter(id, key, from).unwrap_or_else(|e| {
            log::error!("{id} cannot be registered: {e}");
            Registered::Full
        })
    }

    fn proves(&mut self, id: &MachineId, cipher: &[u8]) -> bool {
        self.master.holds_pkcs1v15(cipher, id.as_str().as_bytes())
    }
}

#[cfg(test)]
mod tests;
