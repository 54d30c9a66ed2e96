//! Keys and records of sysinspect minions: the key store that all minions share, seen from this gateway.

use super::session::{Registered, Registry, Standing};
use crate::config::{MasterConfig, SysinspectGateway};
use crate::crypto::{PrivateKey, PublicKey, clean_key};
use crate::gateway::clerk::{self, Task};
use crate::master::admission::{Candidate, Verdict};
use crate::store::gateways::GatewayStore;
use crate::store::keys::{KeyState, KeyStore};
use crate::store::open;
use crate::wire::ids::MinionId;
use crate::wire::sysinspect::MachineId;
use crossbeam_channel::Sender;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Ids whose standing is remembered; beyond this the table is emptied and fills again.
const HELD: usize = 50_000;

type Stamp = Option<(i64, i64, u64)>;

/// The key store as this gateway sees it.
pub(super) struct Keys {
    config: MasterConfig,
    settings: SysinspectGateway,
    keys: KeyStore,
    records: GatewayStore,
    master: PrivateKey,
    clerk: Sender<Task>,
    seen: HashMap<MachineId, ([Stamp; 4], Standing)>,
}

impl Keys {
    /// The key store that a configuration names.
    pub fn new(
        config: &MasterConfig,
        settings: &SysinspectGateway,
        master: PrivateKey,
        clerk: Sender<Task>,
    ) -> Keys {
        Keys {
            config: config.clone(),
            settings: settings.clone(),
            keys: open::key_store(config),
            records: GatewayStore::new(&config.cachedir, super::NAME),
            master,
            clerk,
            seen: HashMap::new(),
        }
    }

    /// Forgets the record of a minion whose key is gone.
    pub fn forget(&mut self, id: &MachineId) {
        if self.standing(id) != Standing::Unknown {
            return;
        }
        let removed = id.as_str().parse().map(|id| self.records.remove(&id));
        if let Ok(Err(e)) = removed {
            log::warn!("the record of {id} cannot be removed: {e}");
        }
        self.seen.remove(id);
    }

    /// Forgets the records of all minions whose keys went away while nobody listened.
    ///
    /// # Errors
    /// The records cannot be listed.
    pub fn sweep(&mut self) -> io::Result<()> {
        for id in self.records.ids()? {
            if let Ok(id) = id.as_str().parse() {
                self.forget(&id);
            }
        }
        Ok(())
    }

    fn look(&mut self, id: &MinionId, machine: &MachineId) -> io::Result<Standing> {
        let key = |state| self.keys.path(state, id);
        let stamps = [
            stamp(&key(KeyState::Rejected)),
            stamp(&key(KeyState::Pending)),
            stamp(&key(KeyState::Accepted)),
            stamp(&self.records.path(id)),
        ];
        if let Some((seen, standing)) = self.seen.get(machine)
            && *seen == stamps
        {
            return Ok(*standing);
        }
        let standing = match self.keys.state(id)? {
            None => Standing::Unknown,
            Some((_, key)) if !self.records.owns(id, &key)? => Standing::Foreign,
            Some((KeyState::Accepted, _)) => Standing::Accepted,
            Some((KeyState::Pending, _)) => Standing::Waiting,
            Some((KeyState::Rejected | KeyState::Denied, _)) => Standing::Rejected,
        };
        if self.seen.len() >= HELD {
            self.seen.clear();
        }
        self.seen.insert(machine.clone(), (stamps, standing));
        Ok(standing)
    }

    fn enter(&mut self, machine: &MachineId, key: &str, from: IpAddr) -> io::Result<Registered> {
        let Ok(id) = machine.as_str().parse::<MinionId>() else {
            return Ok(Registered::BadKey);
        };
        let known = self.look(&id, machine)? != Standing::Unknown;
        if known && key.is_empty() {
            return Ok(Registered::Taken);
        }
        // A minion of the seed's dialect sends no key. What is stored for it is the master's own: nobody but
        // the master could use the id at the ports of Salt, and its fingerprint is the one that the minion's user has accepted.
        let key = match key {
            "" => Ok(self.master.public()),
            text => PublicKey::from_pem(text),
        };
        let Ok(key) = key else {
            log::warn!("{from} tried to register {id} with something that is no RSA public key");
            return Ok(Registered::BadKey);
        };
        let presented = clean_key(&key.to_pem());
        let candidate = Candidate {
            id: &id,
            presented: &presented,
            grains: None,
            vouched: self.settings.auto_accept,
        };
        if known {
            return self.again(&candidate, from);
        }
        let waiting = self.keys.list(KeyState::Pending)?.len();
        if waiting >= self.settings.max_pending {
            log::warn!(
                "{id} from {from} may not register: {waiting} keys wait for the operator already"
            );
            return Ok(Registered::Full);
        }
        let verdict = candidate.verdict(&self.config, &self.keys)?;
        // The record first: an accepted key without one would be nobody's.
        self.records.put(&id, &key.pkcs1_fingerprint())?;
        candidate.keep(&self.keys, verdict)?;
        self.seen.remove(machine);
        self.tell(&candidate, verdict);
        Ok(match verdict {
            Verdict::Accepted => Registered::Accepted,
            Verdict::Pending { .. } => {
                let fingerprint = key.pkcs1_fingerprint();
                log::info!(
                    "new key {fingerprint} of the sysinspect minion {id} from {from}, waiting for `halite-key -a {id}`"
                );
                Registered::Waiting
            }
            Verdict::Rejected { .. } | Verdict::Denied => Registered::Rejected,
        })
    }

    /// Somebody presents a key for an id that is known.
    fn again(&self, candidate: &Candidate, from: IpAddr) -> io::Result<Registered> {
        let id = candidate.id;
        let stored = self.keys.state(id)?;
        if stored.is_none_or(|(_, key)| key == candidate.presented) {
            return Ok(Registered::Taken);
        }
        log::error!(
            "{from} presented another key for {id} than the stored one; if the minion was reinstalled, \
             `halite-key -d {id}` and let it register again"
        );
        candidate.keep(&self.keys, Verdict::Denied)?;
        self.tell(candidate, Verdict::Denied);
        Ok(Registered::Taken)
    }

    fn tell(&self, candidate: &Candidate, verdict: Verdict) {
        if self.config.auth_events {
            let (result, act) = verdict.told();
            let event = Task::Fire("salt/auth".to_owned(), candidate.event(result, act));
            clerk::give(&self.clerk, event);
        }
    }
}

impl Registry for Keys {
    fn standing(&mut self, id: &MachineId) -> Standing {
        let found = match id.as_str().parse::<MinionId>() {
            Ok(minion) => self.look(&minion, id),
            Err(_) => Ok(Standing::Foreign),
        };
        found.unwrap_or_else(|e| {
            log::error!("the key of {id} cannot be read ({e}); it is not let in");
            Standing::Foreign
        })
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

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.mtime(), meta.mtime_nsec(), meta.ino()))
}

#[cfg(test)]
mod tests;
