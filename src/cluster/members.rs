//! Which masters are there. Each tells it to those who hear, again and again; who is silent for some time is away.

use crate::digest;
use crate::progress::Progress;
use halite_wire::budget::Budget;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often each tells.
const EVERY: Duration = Duration::from_secs(2);
/// Silence after which a master is away.
const AWAY: Duration = Duration::from_secs(10);
/// Silence after which it is forgotten, unless it is expected.
const FORGOTTEN: Duration = Duration::from_secs(86_400);
/// Most masters that are known.
const MOST: usize = 32;
/// Difference between clocks that is worth a warning, in seconds.
const SKEW: u64 = 5;
/// How long it must last.
const LASTING: Duration = Duration::from_secs(60);

/// What a master tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its version.
    pub version: String,
    /// When its role started, in Unix seconds.
    pub since: u64,
    /// Whether it leads.
    pub is_leader: bool,
    /// Whether its minions are being sent away.
    pub is_draining: bool,
    /// Whether it is about to stop.
    pub is_stopping: bool,
    /// Connections to its publish ports.
    pub connections: u64,
    /// Jobs with news that it has not told yet.
    pub waiting: u64,
    /// How often it has connected to NATS.
    pub connects: u64,
    /// What it has read.
    pub progress: Progress,
}

impl Standing {
    /// As it is told at this time, in Unix seconds.
    pub fn encode(&self, at: u64) -> Vec<u8> {
        let map = halite_wire::map! {
            "at" => at, "version" => self.version.as_str(), "since" => self.since,
            "leader" => self.is_leader, "draining" => self.is_draining, "stopping" => self.is_stopping,
            "connections" => self.connections, "waiting" => self.waiting,
            "read" => Value::Array(self.progress.read.map(Value::from).to_vec()),
            "content" => self.progress.content, "connects" => self.connects,
        };
        msgpack::encode_map(&map, Profile::Local)
    }

    /// When it was told, and what; `None` if it is not that.
    pub fn decode(bytes: &[u8]) -> Option<(u64, Standing)> {
        let map = msgpack::decode_load(bytes, Budget::of(bytes.len())).ok()?;
        let number = |name: &str| digest::number(map.get(name)?);
        let read = map.get("read").and_then(Value::as_array);
        let read = read.into_iter().flatten().filter_map(digest::number);
        let flag = |name: &str| map.get(name)?.as_bool();
        let standing = Standing {
            version: map.str("version")?.chars().take(40).collect(),
            since: number("since")?,
            is_leader: flag("leader")?,
            is_draining: flag("draining")?,
            is_stopping: flag("stopping")?,
            connections: number("connections")?,
            waiting: number("waiting")?,
            // Masters of earlier versions do not tell these; then there is nothing to compare.
            connects: number("connects").unwrap_or_default(),
            progress: Progress {
                read: read.collect::<Vec<u64>>().try_into().unwrap_or_default(),
                content: number("content").unwrap_or_default(),
            },
        };
        Some((number("at")?, standing))
    }

    fn state(&self) -> &'static str {
        match self {
            Standing {
                is_stopping: true, ..
            } => "stopped",
            Standing {
                is_draining: true, ..
            } => "draining",
            _ => "up",
        }
    }

    /// What is known of the master `id`, for metrics: its state, if it is not the one that it tells, the seconds since it was heard,
    /// and its clock less ours.
    pub fn record(&self, id: &str, state: Option<&str>, silent: u64, skew: i64) -> Map {
        halite_wire::map! {
            "id" => id, "state" => state.unwrap_or(self.state()), "version" => self.version.as_str(),
            "since" => self.since, "leader" => u64::from(self.is_leader), "connections" => self.connections,
            "waiting" => self.waiting, "silent" => silent, "skew" => skew,
        }
    }
}

struct Member {
    /// Which start of it has told this: two can fall into one second.
    origin: String,
    standing: Standing,
    heard: Instant,
    /// Its clock less ours, in seconds.
    skew: i64,
    /// Since when it differs from ours; messages that were delayed make it seem so for a moment.
    askew: Option<Instant>,
    is_skew_said: bool,
    /// Whether the log has said that it is silent.
    is_said: bool,
}

/// What was heard of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing that counts.
    Ignored,
    /// It is there.
    There,
    /// It is there, and was away, if only for a moment: what was told meanwhile it may have missed.
    Back,
}

/// The masters of the cluster other than this one.
pub struct Members {
    /// Those that should be there (`cluster_peers`).
    expected: Vec<String>,
    known: BTreeMap<String, Member>,
    told: Option<Instant>,
}

impl Members {
    /// Nobody is known yet.
    pub fn new(expected: Vec<String>) -> Members {
        Members {
            expected,
            known: BTreeMap::new(),
            told: None,
        }
    }

    /// Whether this master is to tell that it is there.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self
            .told
            .is_none_or(|at| now.saturating_duration_since(at) >= EVERY);
        if is_due {
            self.told = Some(now);
        }
        is_due
    }

    /// The start `origin` of a master has told what it is at `at` by its clock; `unix` is ours.
    pub fn heard(
        &mut self,
        peer: &str,
        origin: &str,
        at: u64,
        standing: Standing,
        now: Instant,
        unix: u64,
    ) -> Heard {
        let skew = i64::try_from(at).unwrap_or(0) - i64::try_from(unix).unwrap_or(0);
        if self.known.len() >= MOST && !self.known.contains_key(peer) {
            return Heard::Ignored;
        }
        let before = self.known.get(peer);
        // Of an earlier start: somebody has sent it again.
        if before.is_some_and(|m| !m.is_said && standing.since < m.standing.since) {
            return Heard::Ignored;
        }
        let was_there = before.is_some_and(|m| !m.is_said && !m.standing.is_stopping);
        if standing.is_stopping {
            if was_there {
                log::info!("cluster: {peer} stops");
            }
        } else if !was_there {
            log::info!("cluster: {peer} is there (halite {})", standing.version);
        }
        let is_same = |m: &Member| m.origin == origin && m.standing.connects == standing.connects;
        let is_known = was_there && before.is_some_and(is_same);
        let is_back = !standing.is_stopping && !is_known;
        let is_askew = skew.unsigned_abs() > SKEW;
        let askew = is_askew.then(|| before.and_then(|m| m.askew).unwrap_or(now));
        let was_said = before.is_some_and(|m| m.is_skew_said);
        let is_lasting = askew.is_some_and(|at| now.saturating_duration_since(at) >= LASTING);
        if is_lasting && !was_said {
            log::warn!(
                "cluster: the clock of {peer} differs from ours by {skew} s: minions that move miss jobs for as long. Is NTP set up \
                 on both?"
            );
        }
        let member = Member {
            origin: origin.to_owned(),
            standing,
            heard: now,
            skew,
            askew,
            is_skew_said: is_askew && (is_lasting || was_said),
            is_said: false,
        };
        self.known.insert(peer.to_owned(), member);
        match is_back {
            true => Heard::Back,
            false => Heard::There,
        }
    }

    /// Says who has become silent, and forgets who has been for long.
    pub fn tick(&mut self, now: Instant) {
        let expected = &self.expected;
        self.known.retain(|id, member| {
            let silent = now.saturating_duration_since(member.heard);
            if silent >= AWAY && !std::mem::replace(&mut member.is_said, true) {
                match member.standing.is_stopping {
                    true => log::info!("cluster: {id} has stopped"),
                    false => log::warn!("cluster: {id} is silent"),
                }
            }
            silent < FORGOTTEN || expected.contains(id)
        });
    }

    /// Ids of the masters that are there.
    pub fn present(&self) -> Vec<String> {
        let there = self
            .known
            .iter()
            .filter(|(_, m)| !m.is_said && !m.standing.is_stopping);
        there.map(|(id, _)| id.clone()).collect()
    }

    /// What is known of each, for metrics; those that are expected and unknown too.
    pub fn records(&self, now: Instant) -> Vec<Map> {
        let known = self.known.iter().map(|(id, member)| {
            let is_silent = member.is_said && !member.standing.is_stopping;
            let silent = now.saturating_duration_since(member.heard).as_secs();
            let state = is_silent.then_some("silent");
            let mut record = member.standing.record(id, state, silent, member.skew);
            if is_silent {
                // Whether it is not, nobody knows; another one is soon.
                record.set("leader", 0u64);
            }
            record
        });
        let missing = self
            .expected
            .iter()
            .filter(|id| !self.known.contains_key(*id));
        let missing =
            missing.map(|id| halite_wire::map! {"id" => id.as_str(), "state" => "missing"});
        known.chain(missing).take(MOST).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(members: &Members, now: Instant) -> Vec<(String, String)> {
        let text = |map: &Map, key| map.str(key).unwrap().to_owned();
        let all = members.records(now).into_iter();
        all.map(|one| (text(&one, "id"), text(&one, "state")))
            .collect()
    }

    #[test]
    fn who_is_silent_is_away() {
        let start = Instant::now();
        let mut members = Members::new(vec!["m2".into(), "m3".into()]);
        assert!(members.is_due(start) && !members.is_due(start) && members.is_due(start + EVERY));
        let standing = Standing {
            version: "1".into(),
            ..Standing::default()
        };
        let (at, read) = Standing::decode(&standing.encode(100)).unwrap();
        assert_eq!((at, &read), (100, &standing));
        let heard = [0, 0].map(|_| members.heard("m2", "m2.a", 100, standing.clone(), start, 100));
        assert_eq!(heard, [Heard::Back, Heard::There]);
        members.tick(start);
        assert_eq!(members.present(), ["m2"]);
        let pair = |id: &str, state: &str| (id.to_owned(), state.to_owned());
        assert_eq!(
            states(&members, start),
            [pair("m2", "up"), pair("m3", "missing")]
        );
        let later = start + AWAY;
        members.tick(later);
        assert_eq!(members.present(), [""; 0]);
        assert_eq!(states(&members, later)[0], pair("m2", "silent"));
        let stopping = Standing {
            is_stopping: true,
            ..standing.clone()
        };
        let heard = members.heard("m2", "m2.a", 100, standing, later, 100);
        assert_eq!(heard, Heard::Back, "it was silent");
        assert_eq!(members.present(), ["m2"]);
        members.heard("m2", "m2.a", 100, stopping, later, 100);
        assert_eq!(members.present(), [""; 0]);
        members.tick(later + AWAY);
        assert_eq!(states(&members, later)[0], pair("m2", "stopped"));
        let again = Standing {
            since: 5,
            ..Standing::default()
        };
        let heard = members.heard("m2", "m2.b", 110, again.clone(), later, 110);
        assert_eq!(heard, Heard::Back);
        // A start in the same second, of one that could not say that it stops.
        let heard =
            ["m2.c", "m2.c"].map(|of| members.heard("m2", of, 110, again.clone(), later, 110));
        assert_eq!(heard, [Heard::Back, Heard::There]);
        assert_eq!(members.present(), ["m2"]);
        // What was recorded of an earlier start.
        let recorded = Standing {
            is_draining: true,
            since: 4,
            ..again
        };
        let heard = members.heard("m2", "m2.a", 110, recorded, later, 110);
        assert_eq!(heard, Heard::Ignored);
        assert_eq!(states(&members, later)[0], pair("m2", "up"));
        for n in 0..2 * MOST {
            members.heard(
                &format!("x{n}"),
                "x.a",
                100,
                Standing::default(),
                later,
                100,
            );
        }
        assert_eq!(members.known.len(), MOST);
        assert_eq!(Standing::decode(b"garbage"), None);
        // Of the first version: nothing that came later.
        let first = halite_wire::map! {
            "at" => 7, "version" => "1", "since" => 5, "leader" => false, "draining" => false,
            "stopping" => false, "connections" => 2, "waiting" => 0,
        };
        let first = Standing::decode(&msgpack::encode_map(&first, Profile::Local));
        let wanted = Standing {
            version: "1".into(),
            since: 5,
            connections: 2,
            ..Standing::default()
        };
        assert_eq!(first, Some((7, wanted)));
    }
}
