//! One simulated minion: what it holds and what it waits for. The shard drives it.

use super::SwarmOptions;
use super::session::{Load, MinionKeys, Session, SignIn};
use super::stats::Op;
use super::work::events::Events;
use super::work::files::Fetch;
use super::work::pillar::Pillars;
use halite_channel::signin::MasterKey;
use halite_transport::zmtp::Connection;
use halite_wire::Map;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Jids remembered against repeated publications (`minion_jid_queue_hwm`).
const JIDS: usize = 100;

/// A sealed request on its way to the master.
pub(super) struct Request {
    pub load: Arc<Load>,
    /// First time it was sent.
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

/// What the reply to a request must be.
pub(super) enum ReplyCheck {
    /// Empty: the answer to this job is kept.
    Answer(Arc<Map>),
    /// Empty: the return of the swarm's own making, with this jid, is kept.
    Return(Arc<str>),
    /// A sealed pillar.
    Pillar(Arc<Pillars>),
    /// The next step of a file's way.
    File(Box<Fetch>, Instant),
    /// Empty: the event with that number was fired.
    Event(Arc<Events>, u64),
    /// Empty: the master knows the minion, which is back.
    Back,
}

impl ReplyCheck {
    /// What is counted when the reply is right.
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

/// What a minion has been through whose master went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// Its connection has stood since it was ready.
    Never,
    /// It was lost at that moment.
    Lost(Instant),
    /// Another one stands.
    Connected,
    /// It is subscribed and asks the master whether it is known.
    Asking,
    /// It is, and was told so.
    Over,
}

/// A minion.
pub(super) struct Minion {
    pub id: String,
    pub keys: Arc<MinionKeys>,
    pub pinned: Option<Arc<MasterKey>>,
    pub session: Option<Session>,
    pub req: Option<Connection>,
    pub sub: Option<Connection>,
    pub subscribed: bool,
    pub pongs: u8,
    pub counted_ready: bool,
    pub task: Option<InFlight>,
    pub sent: Instant,
    /// First attempt of the sign-in under way or wanted.
    pub sign_in_since: Option<Instant>,
    /// Whether a sign-in is wanted and not yet begun.
    pub wants_sign_in: bool,
    pub queue: VecDeque<Request>,
    /// Publications that could not be opened before the next sign-in.
    pub held: Vec<Vec<u8>>,
    /// Not before this moment does it try anything again.
    pub pause: Option<Instant>,
    pub rounds: usize,
    /// Connections refused or lost since the last that stood.
    pub refused: u32,
    /// Where it stands if its master went away.
    pub absence: Outage,
    /// Digest of the pillar that it got first.
    pub pillar: Option<String>,
    jids: VecDeque<Arc<str>>,
}

impl Minion {
    pub fn new(options: &SwarmOptions, number: usize) -> Minion {
        Minion {
            id: options.id(number),
            keys: options.keys[number % options.keys.len()].clone(),
            pinned: None,
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

    /// The job with that jid, if it is under way here.
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
