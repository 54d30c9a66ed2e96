//! One simulated minion: what it holds and what it waits for. The shard drives it.

use super::Options;
use super::session::{Master, MinionKeys, Session, SignIn};
use super::stats::Op;
use super::zmtp::Connection;
use crate::wire::Map;
use std::collections::VecDeque;
use std::time::Instant;

/// Jids remembered against repeated publications (`minion_jid_queue_hwm`).
const JIDS: usize = 100;

/// A return on its way to the master.
pub(super) struct Return {
    pub load: Map,
    pub op: Op,
    /// First time it was sent.
    pub since: Option<Instant>,
    pub tries: u32,
    /// The job for `find_job`.
    pub job: Map,
}

/// What a minion waits for on its request connection.
pub(super) enum Task {
    SignIn(SignIn),
    Return(Box<Return>, String),
}

/// A minion.
pub(super) struct Minion {
    pub id: String,
    pub keys: MinionKeys,
    pub pinned: Option<Master>,
    pub session: Option<Session>,
    pub req: Option<Connection>,
    pub sub: Option<Connection>,
    pub subscribed: bool,
    pub pongs: u8,
    pub counted_ready: bool,
    pub task: Option<Task>,
    pub sent: Instant,
    /// First attempt of the sign-in under way or wanted.
    pub sign_in_since: Option<Instant>,
    /// Whether a sign-in is wanted and not yet begun.
    pub wants_sign_in: bool,
    pub queue: VecDeque<Return>,
    /// Publications that could not be opened before the next sign-in.
    pub held: Vec<Vec<u8>>,
    /// Not before this moment does it try anything again.
    pub pause: Option<Instant>,
    pub rounds: usize,
    jids: VecDeque<String>,
}

impl Minion {
    pub fn new(options: &Options, number: usize) -> Minion {
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
            jids: VecDeque::new(),
        }
    }

    /// Whether a job is new to this minion; it counts as seen from now on.
    pub fn new_jid(&mut self, jid: &str) -> bool {
        if self.jids.iter().any(|known| known == jid) {
            return false;
        }
        if self.jids.len() == JIDS {
            self.jids.pop_front();
        }
        self.jids.push_back(jid.to_owned());
        true
    }

    /// The job with that jid, if it is under way here.
    pub fn running(&self, jid: &str) -> Option<Map> {
        let current = match &self.task {
            Some(Task::Return(current, _)) => Some(&**current),
            _ => None,
        };
        self.queue
            .iter()
            .chain(current)
            .find(|r| r.job.str("jid") == Some(jid))
            .map(|r| r.job.clone())
    }
}
