//! Keys and records of a gateway's agents: the key store that all minions share, seen from one gateway.

use super::writer::{Task, WriteQueue};
use halite_config::MasterConfig;
use halite_crypto::{PublicKey, clean_key};
use halite_master::admission::{Candidate, Verdict};
use halite_store::Stores;
use halite_store::gateways::GatewayStore;
use halite_store::keys::{KeyState, KeyStore, Version};
use halite_wire::ids::MinionId;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ids whose standing is remembered; beyond this the table is emptied and fills again.
const HELD: usize = 50_000;
/// How long the number of keys that wait is believed.
const COUNTED: Duration = Duration::from_secs(1);

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has registered here and its key is accepted.
    Accepted,
    /// It has registered here and waits for the operator.
    Waiting,
    /// The operator has rejected it.
    Rejected,
    /// It is the id of somebody who has not registered here.
    Foreign,
    /// Nobody has it.
    Unknown,
}

/// How a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// Its key is accepted.
    Accepted,
    /// The operator decides.
    Waiting,
    /// A list refuses it.
    Rejected,
    /// There is no room for more that wait.
    Full,
}

/// Somebody who registers.
pub struct Newcomer<'a> {
    /// Who.
    pub id: &'a MinionId,
    /// The key to be kept for it.
    pub key: &'a PublicKey,
    /// Where it was heard, for the log.
    pub from: &'a str,
    /// Whether an option of the gateway accepts it.
    pub vouched: bool,
    /// Keys that may wait for the operator.
    pub max_pending: usize,
}

/// The key store as one gateway sees it.
pub struct AgentKeys {
    config: MasterConfig,
    name: &'static str,
    keys: Arc<dyn KeyStore>,
    records: Arc<dyn GatewayStore>,
    writer: WriteQueue,
    seen: HashMap<MinionId, ([Option<Version>; 4], Standing)>,
    waiting: Option<(Instant, usize)>,
    /// Times that there was no room.
    full: u64,
}

impl AgentKeys {
    /// The key store that a configuration names, for the gateway `name`.
    pub fn new(
        config: &MasterConfig,
        stores: &Stores,
        name: &'static str,
        writer: WriteQueue,
    ) -> AgentKeys {
        AgentKeys {
            config: config.clone(),
            name,
            keys: stores.keys.clone(),
            records: stores.gateways.of(name),
            writer,
            seen: HashMap::new(),
            waiting: None,
            full: 0,
        }
    }

    /// Whether one more key may wait for the operator. Nothing is written for it, and one that may not is counted, and told of at times.
    ///
    /// # Errors
    /// The keys cannot be listed.
    pub fn has_room(&mut self, newcomer: &Newcomer) -> io::Result<bool> {
        let (id, from) = (newcomer.id, newcomer.from);
        let waiting = self.count()?;
        if waiting < newcomer.max_pending {
            return Ok(true);
        }
        self.full += 1;
        // A flood is told a few times, not a million.
        if self.full.is_power_of_two() {
            log::warn!(
                "{id} from {from} may not register: {waiting} keys wait for the operator already; {} refused so far",
                self.full
            );
        }
        Ok(false)
    }

    /// Forgets the record of an id whose key is gone.
    pub fn forget(&mut self, id: &MinionId) {
        if self.standing(id) != Standing::Unknown {
            return;
        }
        if let Err(e) = self.records.remove(id) {
            log::warn!("the record of {id} cannot be removed: {e}");
        }
        self.seen.remove(id);
    }

    /// Forgets the records of all ids whose keys went away while nobody listened; the others are told.
    ///
    /// # Errors
    /// The records cannot be listed.
    pub fn sweep(&mut self) -> io::Result<Vec<MinionId>> {
        let mut ids = self.records.ids()?;
        for id in &ids {
            self.forget(id);
        }
        ids.retain(|id| self.records.knows(id));
        Ok(ids)
    }

    /// What is known of `id`; `Foreign` where that cannot be read.
    pub fn standing(&mut self, id: &MinionId) -> Standing {
        self.look(id).unwrap_or_else(|e| {
            log::error!("the key of {id} cannot be read ({e}); it is not let in");
            Standing::Foreign
        })
    }

    /// What is known of `id`.
    ///
    /// # Errors
    /// Key or record cannot be read.
    pub fn look(&mut self, id: &MinionId) -> io::Result<Standing> {
        let key = |state| self.keys.version(state, id);
        let versions = [
            key(KeyState::Rejected),
            key(KeyState::Pending),
            key(KeyState::Accepted),
            self.records.version(id),
        ];
        if let Some((seen, standing)) = self.seen.get(id)
            && *seen == versions
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
        self.seen.insert(id.clone(), (versions, standing));
        Ok(standing)
    }

    /// Registers somebody whose id nobody has.
    ///
    /// # Errors
    /// Key or record cannot be read or written.
    pub fn enter(&mut self, newcomer: &Newcomer) -> io::Result<Entered> {
        let (id, from) = (newcomer.id, newcomer.from);
        if !self.has_room(newcomer)? {
            return Ok(Entered::Full);
        }
        let presented = clean_key(&newcomer.key.to_pem());
        let candidate = Candidate {
            id,
            presented: &presented,
            grains: None,
            vouched: newcomer.vouched,
        };
        let verdict = candidate.verdict(&self.config, &*self.keys)?;
        // The record first: an accepted key without one would be nobody's.
        let fingerprint = newcomer.key.pkcs1_fingerprint();
        self.records.put(id, &fingerprint)?;
        candidate.keep(&*self.keys, verdict)?;
        self.seen.remove(id);
        self.tell(&candidate, verdict);
        Ok(match verdict {
            Verdict::Accepted => Entered::Accepted,
            Verdict::Pending { .. } => {
                if let Some((_, count)) = &mut self.waiting {
                    *count += 1;
                }
                log::info!(
                    "new key {fingerprint} of the {} minion {id} from {from}, waiting for `halite-key -a {id}`",
                    self.name
                );
                Entered::Waiting
            }
            Verdict::Rejected { .. } | Verdict::Denied => Entered::Rejected,
        })
    }

    /// Somebody presents a key for an id that is known; another one than the stored is kept as denied.
    ///
    /// # Errors
    /// Key or record cannot be read or written.
    pub fn again(&mut self, newcomer: &Newcomer) -> io::Result<()> {
        let (id, from) = (newcomer.id, newcomer.from);
        let presented = clean_key(&newcomer.key.to_pem());
        let stored = self.keys.state(id)?;
        if stored.is_none_or(|(_, key)| key == presented) {
            return Ok(());
        }
        log::error!(
            "{from} presented another key for {id} than the stored one; if the minion was reinstalled, \
             `halite-key -d {id}` and let it register again"
        );
        let candidate = Candidate {
            id,
            presented: &presented,
            grains: None,
            vouched: newcomer.vouched,
        };
        candidate.keep(&*self.keys, Verdict::Denied)?;
        self.tell(&candidate, Verdict::Denied);
        Ok(())
    }

    /// Keys that wait for the operator; a list is read once a second at most.
    fn count(&mut self) -> io::Result<usize> {
        if let Some((at, count)) = self.waiting
            && at.elapsed() < COUNTED
        {
            return Ok(count);
        }
        let count = self.keys.list(KeyState::Pending)?.len();
        self.waiting = Some((Instant::now(), count));
        Ok(count)
    }

    fn tell(&self, candidate: &Candidate, verdict: Verdict) {
        if self.config.auth_events {
            let (result, act) = verdict.told();
            let event = Task::Fire("salt/auth".to_owned(), candidate.event(result, act));
            self.writer.push(event);
        }
    }
}
