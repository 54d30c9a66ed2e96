//! Who is there, and what masters ask each other.

use super::{Cluster, Membership, tokens};
use crate::letter::Letter;
use crate::link::Channel;
use crate::members::{Heard, Members, Standing};
use crate::pieces::{Foreign, Voice};
use crate::progress::ProgressCheck;
use crate::record::token;
use crate::resync::{Resync, answer};
use halite_config::ClusterConfig;
use halite_crypto::ClusterSecret;
use halite_master::score;
use halite_sys::exit::ExitError;
use halite_sys::scoreboard::Scoreboard;
use halite_sys::time::unix_now;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use rand::random;
use std::time::{Duration, Instant};

/// What is told to all, and what to one.
const MEMBERS: &str = "member";
const LETTERS: &str = "letter";
/// Most bytes about members in the role's record of counters, which has a limit.
const MEMBER_BYTES: usize = 6000;
/// How old what a master says may be if this one is to compare itself with it, in seconds: somebody may have kept it.
const RECENT: u64 = 60;
/// How long others may take to be heard before this master compares its jobs with theirs.
const GATHER: Duration = Duration::from_secs(5);

/// What the role has about the others.
pub(super) struct Peers {
    pub(super) members: Members,
    pub(super) resync: Resync,
    pub(super) progress: ProgressCheck,
    voices: Option<Voices>,
    board: Option<Scoreboard>,
    joined: Instant,
    /// Whether minions are being sent away.
    pub(super) is_draining: bool,
    /// When this process started, in Unix seconds.
    started: u64,
}

struct Voices {
    members: Voice,
    letters: Voice,
    tokens: Voice,
}

impl Peers {
    pub(super) fn new(cluster: &ClusterConfig, own: &str, started: u64) -> Peers {
        let board = Scoreboard::inherited().ok().map(|(board, _)| board);
        Peers {
            // The publisher goes on with it when this role is started anew.
            is_draining: board.as_ref().is_some_and(score::was_draining),
            members: Members::new(cluster.others(own)),
            resync: Resync::new(random()),
            progress: ProgressCheck::default(),
            voices: None,
            board,
            joined: Instant::now(),
            started,
        }
    }

    /// The bucket with the mark of these is lost.
    pub(super) fn leave(&mut self) {
        self.voices = None;
    }

    /// This master is a member of the bucket with this mark.
    pub(super) fn join(&mut self, secret: &ClusterSecret, mark: &str, origin: &str) {
        let voice = |purpose| Voice::new(secret, mark, purpose, origin);
        self.joined = Instant::now();
        // After another connection the numbers of messages go on: others take no number twice.
        self.voices.get_or_insert_with(|| Voices {
            members: voice(MEMBERS),
            letters: voice(LETTERS),
            tokens: voice(tokens::PURPOSE),
        });
    }

    /// Tells and hears tokens.
    pub(super) fn tokens(&mut self) -> Option<&mut Voice> {
        self.voices.as_mut().map(|voices| &mut voices.tokens)
    }
}

impl Cluster<'_> {
    /// What this master tells of itself.
    fn standing(&self, is_stopping: bool) -> Standing {
        let records = self.peers.board.as_ref().map(score::all);
        let publisher = records.as_ref().and_then(|all| {
            let mut all = all.iter();
            all.find(|record| record.str("role") == Some("publish"))
        });
        let connections = publisher.and_then(|record| record.int("subscribers"));
        Standing {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: self.peers.started,
            is_leader: self.leases.is_leader(),
            is_draining: self.peers.is_draining,
            is_stopping,
            connections: u64::try_from(connections.unwrap_or(0)).unwrap_or(0),
            waiting: self.streams.outbox.backlog() as u64,
            connects: self.connections,
            progress: self.peers.progress.own(self.sync.content()),
        }
    }

    /// Sends minions away, and leads no more.
    pub(super) fn drain(&mut self) {
        if !std::mem::replace(&mut self.peers.is_draining, true) {
            log::warn!("cluster: this master sends its minions away, until it is started again");
            self.resign();
            self.tell_standing(false);
        }
    }

    /// The counters for the scoreboard.
    pub(super) fn counters(&self) -> Map {
        let [granted, refused_runs] = self.claims.answers();
        halite_wire::map! {
            "member" => u64::from(self.reaches_others()), "keys" => self.sync.count() as u64,
            "connections" => self.connections, "conflicts" => self.conflicts, "refused" => self.refused,
            "told" => self.streams.outbox.told, "waiting" => self.streams.outbox.backlog(),
            "returns" => self.streams.inbox.returns, "published" => self.streams.inbox.published,
            "data" => self.streams.data.stored, "events_dropped" => self.streams.events.dropped,
            "leader" => u64::from(self.leases.is_leader()), "gateways" => self.leases.gateways(),
            "apart" => u64::from(self.membership == Membership::Refused),
            "draining" => u64::from(self.peers.is_draining),
            "fetched" => self.peers.resync.fetched, "comparing" => u64::from(self.peers.resync.wanted.is_some()),
            "minions_elsewhere" => self.connected.lists.count_elsewhere() as u64,
            score::CLAIMS_GRANTED => granted, score::CLAIMS_REFUSED => refused_runs,
            "members" => self.member_records(),
        }
    }

    /// What is known of all masters, this one first.
    pub(super) fn member_records(&self) -> Value {
        let state = match self.membership {
            Membership::Member => None,
            Membership::Refused => Some("apart"),
            // For the others of `cluster_peers`, to fill the bucket.
            Membership::Unknown if self.refill.is_waiting() => Some("waiting"),
            Membership::Unknown | Membership::Founding => Some("connecting"),
        };
        let own = self.standing(false).record(&self.config.id, state, 0, 0);
        let others = self.peers.members.records(Instant::now());
        let mut size = 0;
        let all = std::iter::once(own).chain(others).filter(|member| {
            size += msgpack::encode_map(member, Profile::Local).len();
            size <= MEMBER_BYTES
        });
        Value::Array(all.map(Value::Map).collect())
    }

    /// Tells the others that this master is there, and asks for what it lacks.
    pub(super) fn tend_peers(&mut self) -> Result<(), ExitError> {
        let now = Instant::now();
        self.peers.members.tick(now);
        if self.membership != Membership::Member {
            return self.tend_refill();
        }
        if self.peers.members.is_due(now) {
            self.tell_standing(false);
        }
        if let Some(why) = self.peers.progress.objection(now) {
            log::warn!("cluster: {why}: connects anew");
            self.link.reconnect();
        }
        if !self.streams.is_open() || self.peers.joined.elapsed() < GATHER {
            return Ok(());
        }
        let present = self.peers.members.present();
        let asks = self.peers.resync.next(&present, &*self.stores.jobs, now)?;
        if let Some((to, ask)) = asks {
            self.write_letter(&to, &Letter::Ask(ask));
        }
        if self.streams.resync().is_some() && self.peers.resync.wanted.is_none() {
            self.streams.compared();
        }
        Ok(())
    }

    /// Tells the others what this master is.
    pub(super) fn tell_standing(&mut self, is_stopping: bool) {
        let bytes = self.standing(is_stopping).encode(unix_now());
        let Some(voices) = &mut self.peers.voices else {
            return;
        };
        let teller = &mut voices.members.teller;
        for piece in teller.seal(&bytes).unwrap_or_default() {
            self.link
                .tell(Channel::Members, teller.origin.clone(), piece);
        }
    }

    fn write_letter(&mut self, to: &str, letter: &Letter) {
        let Some(voices) = &mut self.peers.voices else {
            return;
        };
        let teller = &mut voices.letters.teller;
        match teller.seal(&letter.encode(to)) {
            Ok(pieces) => {
                for piece in pieces {
                    let tail = format!("{}.{}", token(to), teller.origin);
                    self.link.tell(Channel::Letters, tail, piece);
                }
            }
            Err(size) => log::error!(
                "cluster: {to} does not get what its job cache lacks: {size} bytes are too many for a letter"
            ),
        }
    }

    /// A master has told what it is.
    pub(super) fn heard_member(&mut self, origin: &str, bytes: &[u8]) {
        let Some(Voices { members, .. }) = &mut self.peers.voices else {
            return;
        };
        if members.is_own(origin) {
            return;
        }
        match members.open(origin, bytes) {
            Ok((peer, opened)) => {
                let Some((at, standing)) = opened.and_then(|bytes| Standing::decode(&bytes)) else {
                    return;
                };
                if peer == self.config.id {
                    self.twin(at);
                    return;
                }
                let (now, unix) = (Instant::now(), unix_now());
                let progress = standing.progress;
                let heard = self
                    .peers
                    .members
                    .heard(&peer, origin, at, standing, now, unix);
                if heard != Heard::Ignored && at.abs_diff(unix) <= RECENT {
                    let content = self.sync.content();
                    self.peers.progress.heard(progress, content, now);
                }
                if heard == Heard::Back {
                    self.tell_again();
                    self.tell_tokens();
                }
            }
            Err(Foreign) => self.stranger(&format!("a message of member.{origin:.100}")),
        }
    }

    /// A master has written to this one.
    pub(super) fn heard_letter(&mut self, origin: &str, bytes: &[u8]) -> Result<(), ExitError> {
        let Some(Voices { letters, .. }) = &mut self.peers.voices else {
            return Ok(());
        };
        let (peer, opened) = match letters.open(origin, bytes) {
            Ok((peer, opened)) if peer != self.config.id => (peer, opened),
            _ => {
                self.stranger(&format!("a letter of {origin:.100}"));
                return Ok(());
            }
        };
        let letter = opened.and_then(|bytes| Letter::decode(&bytes, &self.config.id));
        match letter {
            Some(Letter::Ask(ask)) => {
                let fill = answer(&*self.stores.jobs, ask)?;
                self.write_letter(&peer, &Letter::Fill(fill));
            }
            Some(Letter::Fill(fill)) => {
                for record in self.peers.resync.take(&peer, fill, Instant::now()) {
                    self.streams.fetched(&peer, record, &mut self.bus)?;
                }
            }
            // The rest of it is still to come, or it was there before, or it is for another master.
            None => {}
        }
        Ok(())
    }
}
