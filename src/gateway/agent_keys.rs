//! Keys and records of a gateway's agents: the key store that all minions share, seen from one gateway.

use super::writer::{Task, WriteQueue};
use halite_config::MasterConfig;
use halite_crypto::{IdentityPublic, clean_key};
use halite_master::admission::{Candidate, Decision, Verdict};
use halite_master::score;
use halite_store::Stores;
use halite_store::gateways::GatewayStore;
use halite_store::keys::{KeyState, KeyStore, Version};
use halite_sys::scoreboard::Scoreboard;
use halite_sys::time::unix_now;
use halite_wire::ids::MinionId;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ids whose standing is cached. When the cache is full it is cleared.
const MAX_CACHED: usize = 50_000;
/// How long the count of pending keys is cached.
const PENDING_COUNT_TTL: Duration = Duration::from_secs(1);

/// The standing of an id at this gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has registered here and its key is accepted.
    Accepted,
    /// It has registered here and waits for the operator.
    Waiting,
    /// The operator has rejected it.
    Rejected,
    /// The id is taken, but not by an agent that registered here.
    Foreign,
    /// No key has this id.
    Unknown,
}

/// Result of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterOutcome {
    /// Its key is accepted.
    Accepted,
    /// The key waits for the operator.
    Waiting,
    /// A list (such as `autoreject_file`) rejects it.
    Rejected,
    /// `max_pending` keys wait already; nothing was stored.
    Full,
}

/// An agent that registers.
pub struct Newcomer<'a> {
    /// Its id.
    pub id: &'a MinionId,
    /// The key to store for it.
    pub key: &'a IdentityPublic,
    /// Where the request came from, for the log.
    pub from: &'a str,
    /// Whether an option of the gateway, such as `auto_accept`, accepts it.
    pub vouched: bool,
    /// At most this many keys may be pending.
    pub max_pending: usize,
}

impl Newcomer<'_> {
    fn candidate<'c>(&'c self, presented: &'c str, is_alone: bool) -> Candidate<'c> {
        Candidate {
            id: self.id,
            presented,
            grains: None,
            vouched: self.vouched,
            is_alone,
        }
    }
}

/// The key store as seen by one gateway.
pub struct AgentKeys {
    config: MasterConfig,
    name: &'static str,
    keys: Arc<dyn KeyStore>,
    records: Arc<dyn GatewayStore>,
    writer: WriteQueue,
    /// Where the role `cluster` says whether it is connected.
    board: Option<Scoreboard>,
    seen: HashMap<MinionId, ([Option<Version>; 4], Standing)>,
    waiting: Option<(Instant, usize)>,
    /// How often a registration was turned away because too many keys were pending.
    full: u64,
}

impl AgentKeys {
    /// Opens the key store that `config` names, for the gateway `name`.
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
            board: Scoreboard::inherited().ok().map(|(board, _)| board),
            seen: HashMap::new(),
            waiting: None,
            full: 0,
        }
    }

    /// Whether this master belongs to a cluster and has no connection to it.
    fn is_alone(&self) -> bool {
        let board = self.board.as_ref();
        self.config.cluster().is_some()
            && !board.is_some_and(|board| score::cluster(board, unix_now()).is_member)
    }

    /// Whether one more key may become pending. Writes nothing; counts and sometimes logs each refusal.
    fn has_room(&mut self, newcomer: &Newcomer) -> io::Result<bool> {
        let (id, from) = (newcomer.id, newcomer.from);
        let waiting = self.count_pending()?;
        if waiting < newcomer.max_pending {
            return Ok(true);
        }
        self.full += 1;
        // Log a flood a few times, not a million.
        if self.full.is_power_of_two() {
            log::warn!(
                "{id} from {from} may not register: {waiting} keys wait for the operator already; {} refused so far",
                self.full
            );
        }
        Ok(false)
    }

    /// Removes the record of an id whose key no longer exists.
    pub fn forget(&mut self, id: &MinionId) {
        if self.standing(id) != Standing::Unknown {
            return;
        }
        if let Err(e) = self.records.remove(id) {
            log::warn!("the record of {id} cannot be removed: {e}");
        }
        self.seen.remove(id);
    }

    /// Removes the records of ids whose keys were deleted while no gateway ran. Returns the ids that are left.
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

    /// The standing of `id`; `Foreign` if it cannot be read.
    pub fn standing(&mut self, id: &MinionId) -> Standing {
        self.try_standing(id).unwrap_or_else(|e| {
            log::error!("the key of {id} cannot be read ({e}); it is not let in");
            Standing::Foreign
        })
    }

    /// The standing of `id`.
    ///
    /// # Errors
    /// The key or the record cannot be read.
    pub fn try_standing(&mut self, id: &MinionId) -> io::Result<Standing> {
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
        if self.seen.len() >= MAX_CACHED {
            self.seen.clear();
        }
        self.seen.insert(id.clone(), (versions, standing));
        Ok(standing)
    }

    /// Decides about an agent whose id is not in use; `None` if its key would have to wait and there is no room. A
    /// flood of strangers takes no room from those that need not wait. Stores nothing.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn decide(&mut self, newcomer: &Newcomer) -> io::Result<Option<Decision>> {
        let presented = clean_key(&newcomer.key.to_pem());
        let candidate = newcomer.candidate(&presented, self.is_alone());
        let decision = candidate.decide(&self.config, &*self.keys)?;
        let room =
            matches!(decision.verdict, Verdict::Accepted { .. }) || self.has_room(newcomer)?;
        Ok(room.then_some(decision))
    }

    /// Registers an agent whose id is not in use.
    ///
    /// # Errors
    /// The key or the record cannot be read or written.
    pub fn register(&mut self, newcomer: &Newcomer) -> io::Result<RegisterOutcome> {
        match self.decide(newcomer)? {
            Some(decision) => self.store(newcomer, decision),
            None => Ok(RegisterOutcome::Full),
        }
    }

    /// Stores the key of an agent as [`AgentKeys::decide`] has decided.
    ///
    /// # Errors
    /// The key or the record cannot be written.
    pub fn store(
        &mut self,
        newcomer: &Newcomer,
        decision: Decision,
    ) -> io::Result<RegisterOutcome> {
        let (id, from) = (newcomer.id, newcomer.from);
        let presented = clean_key(&newcomer.key.to_pem());
        let candidate = newcomer.candidate(&presented, self.is_alone());
        let verdict = decision.verdict;
        // The record first: an accepted key without one would belong to nobody.
        let fingerprint = newcomer.key.agent_fingerprint();
        self.records.put(id, &fingerprint)?;
        candidate.keep(&*self.keys, verdict)?;
        drop(decision);
        self.seen.remove(id);
        self.writer.push(Task::Share(id.clone()));
        self.fire_auth_event(&candidate, verdict);
        Ok(match verdict {
            Verdict::Accepted { .. } => RegisterOutcome::Accepted,
            Verdict::Pending { .. } => {
                if let Some((_, count)) = &mut self.waiting {
                    *count += 1;
                }
                log::info!(
                    "new key {fingerprint} of the {} minion {id} from {from}, waiting for `halite-key -a {id}`",
                    self.name
                );
                RegisterOutcome::Waiting
            }
            Verdict::Rejected { .. } | Verdict::Denied => RegisterOutcome::Rejected,
        })
    }

    /// Checks a key presented for an id that exists. If it differs from the stored key it is stored as denied.
    ///
    /// # Errors
    /// The key or the record cannot be read or written.
    pub fn check_presented_key(&mut self, newcomer: &Newcomer) -> io::Result<()> {
        let (id, from) = (newcomer.id, newcomer.from);
        let presented = clean_key(&newcomer.key.to_pem());
        let _lock = self.keys.lock(id)?;
        let stored = self.keys.state(id)?;
        if stored.is_none_or(|(_, key)| key == presented) {
            return Ok(());
        }
        log::error!(
            "{from} presented another key for {id} than the stored one; if the minion was reinstalled, \
             `halite-key -d {id}` and let it register again"
        );
        let candidate = newcomer.candidate(&presented, self.is_alone());
        candidate.keep(&*self.keys, Verdict::Denied)?;
        self.fire_auth_event(&candidate, Verdict::Denied);
        Ok(())
    }

    /// The number of pending keys; the directory is listed once a second at most.
    fn count_pending(&mut self) -> io::Result<usize> {
        if let Some((at, count)) = self.waiting
            && at.elapsed() < PENDING_COUNT_TTL
        {
            return Ok(count);
        }
        let count = self.keys.list(KeyState::Pending)?.len();
        self.waiting = Some((Instant::now(), count));
        Ok(count)
    }

    fn fire_auth_event(&self, candidate: &Candidate, verdict: Verdict) {
        if self.config.auth_events {
            let (result, act) = verdict.event_fields();
            let event = Task::Fire(
                "salt/auth".to_owned(),
                candidate.event(&self.config, result, act),
            );
            self.writer.push(event);
        }
    }
}
