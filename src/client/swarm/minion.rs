//! One simulated minion: its state and what it waits for. The shard drives it.

use super::SwarmOptions;
use super::session::{Load, MinionKeys, Session, SignIn};
use super::stats::Op;
use super::work::events::Events;
use super::work::files::Fetch;
use super::work::pillar::Pillars;
use halite_channel::signin::MasterKey;
use halite_crypto::noise::StaticPublic;
use halite_transport::client::Connection;
use halite_wire::Map;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Jids remembered to detect repeated publications (`minion_jid_queue_hwm`).
const JIDS: usize = 100;

/// An encrypted request to the master in progress.
pub(super) struct Request {
    pub load: Arc<Load>,
    /// When it was first sent.
    pub since: Option<Instant>,
    pub tries: u32,
    pub check: ReplyCheck,
}

impl Request {
    pub fn new(load: Arc<Load>, check: ReplyCheck) -> Request {
        Request {
            load,
            since: None,
            tries: 0,
            check,
        }
    }
}

/// The expected reply to a request.
pub(super) enum ReplyCheck {
    /// Empty: the answer to this job is stored.
    Answer(Arc<Map>),
    /// Empty: the swarm's own return, with this jid, is stored.
    Return(Arc<str>),
    /// An encrypted pillar.
    Pillar(Arc<Pillars>),
    /// The next step of a file transfer.
    File(Box<Fetch>, Instant),
    /// Empty: the event with this number was fired.
    Event(Arc<Events>, u64),
    /// Empty: the master knows the minion, which is back.
    Back,
}

impl ReplyCheck {
    /// What to count when the reply is correct.
    pub fn op(&self) -> Op {
        match self {
            ReplyCheck::Answer(_) => Op::Answer,
            ReplyCheck::Return(_) => Op::Return,
            ReplyCheck::Pillar(_) => Op::Pillar,
            ReplyCheck::File(..) => Op::FileRequest,
            ReplyCheck::Event(..) => Op::Event,
            ReplyCheck::Back => Op::Back,
        }
    }
}

/// What a minion waits for on its request connection.
pub(super) enum InFlight {
    SignIn(Box<SignIn>),
    Request(Box<Request>, String),
}

/// State of a minion with respect to an outage of its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// Connected since it was ready.
    Never,
    /// The connection was lost at this time.
    Lost(Instant),
    /// Connected again.
    Connected,
    /// Subscribed, and asking the master whether it is known.
    Asking,
    /// The master has confirmed that.
    Over,
}

/// A minion.
pub(super) struct Minion {
    pub id: String,
    pub keys: Arc<MinionKeys>,
    /// Number of its master.
    pub master: usize,
    pub pinned: Option<Arc<MasterKey>>,
    /// The master's static key, for sign-ins as halite's minions do.
    pub noise: Option<StaticPublic>,
    pub session: Option<Session>,
    pub req: Option<Connection>,
    pub sub: Option<Connection>,
    pub subscribed: bool,
    pub pongs: u8,
    pub counted_ready: bool,
    pub task: Option<InFlight>,
    pub sent: Instant,
    /// First attempt of the sign-in that is running or wanted.
    pub sign_in_since: Option<Instant>,
    /// Whether a sign-in is wanted and has not started yet.
    pub wants_sign_in: bool,
    pub queue: VecDeque<Request>,
    /// Publications that could not be decrypted before the next sign-in.
    pub held: Vec<Vec<u8>>,
    /// It does nothing before this time.
    pub pause: Option<Instant>,
    pub rounds: usize,
    /// Connections refused or lost since the last successful one.
    pub refused: u32,
    /// Its state with respect to an outage.
    pub absence: Outage,
    /// Digest of the first pillar it got.
    pub pillar: Option<String>,
    jids: VecDeque<Arc<str>>,
}

impl Minion {
    /// Who it says it is on the publish port; empty before a sign-in.
    pub fn claim(&self) -> Vec<u8> {
        let session = self.session.as_ref();
        session.map_or_else(Vec::new, |session| session.claim(&self.id, &self.keys))
    }

    pub fn new(options: &SwarmOptions, number: usize) -> Minion {
        Minion {
            id: options.id(number),
            keys: options.keys[number % options.keys.len()].clone(),
            master: number % options.masters.len(),
            pinned: None,
            noise: None,
            session: None,
            req: None,
            sub: None,
            subscribed: false,
            pongs: 0,
            counted_ready: false,
            task: None,
            sent: Instant::now(),
            sign_in_since: None,
            wants_sign_in: false,
            queue: VecDeque::new(),
            held: Vec::new(),
            pause: None,
            rounds: 0,
            refused: 0,
            absence: Outage::Never,
            pillar: None,
            jids: VecDeque::new(),
        }
    }

    /// Whether a job is new to this minion; it counts as seen from now on.
    pub fn new_jid(&mut self, jid: &Arc<str>) -> bool {
        if self.jids.contains(jid) {
            return false;
        }
        if self.jids.len() == JIDS {
            self.jids.pop_front();
        }
        self.jids.push_back(jid.clone());
        true
    }

    /// The job with this jid, if it is running here.
    pub fn running(&self, jid: &str) -> Option<Map> {
        let current = match &self.task {
            Some(InFlight::Request(current, _)) => Some(&**current),
            _ => None,
        };
        self.queue
            .iter()
            .chain(current)
            .find_map(|r| match &r.check {
                ReplyCheck::Answer(job) if job.str("jid") == Some(jid) => Some(Map::clone(job)),
                _ => None,
            })
    }
}
