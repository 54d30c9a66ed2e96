//! Which master fills an empty bucket. No IO and no clock: it is told the time.
//!
//! Masters that find none tell each other which one they knew, and how far. The one that knew most fills it when all that are
//! expected wait; if nobody knew any, a new cluster begins.

use crate::digest;
use halite_wire::budget::Budget;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often each tells.
const EVERY: Duration = Duration::from_secs(2);
/// How long that counts.
const VALID: Duration = Duration::from_secs(10);
/// How old it may be by the clocks, in seconds: somebody may have kept it.
const RECENT: u64 = 30;
/// How long a master that knew no bucket listens whether others did.
const LISTEN: Duration = Duration::from_secs(6);
/// Most masters that are heard.
const MOST: usize = 32;
/// Most buckets that a master remembers.
pub const MOST_MARKS: usize = 16;

/// What a master that waits knew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knew {
    /// The marks of the buckets that it was a member of, the last one first.
    pub marks: Vec<String>,
    /// The newest revision of the last one that it has.
    pub newest: u64,
}

impl Knew {
    /// As it is told at this time, in Unix seconds.
    pub fn encode(&self, at: u64) -> Vec<u8> {
        let map: Map = halite_wire::map! {
            "at" => at, "marks" => self.marks.clone(), "newest" => self.newest,
        };
        msgpack::encode_map(&map, Profile::Local)
    }

    /// When it was told, and what; `None` if it is not that.
    pub fn decode(bytes: &[u8]) -> Option<(u64, Knew)> {
        let map = msgpack::decode_load(bytes, Budget::of(bytes.len())).ok()?;
        let number = |name: &str| digest::number(map.get(name)?);
        let marks = map.get("marks").and_then(Value::as_array)?;
        let marks = marks.iter().take(MOST_MARKS);
        let marks = marks.map(|mark| mark.as_str().map(str::to_owned));
        let knew = Knew {
            marks: marks.collect::<Option<_>>()?,
            newest: number("newest")?,
        };
        Some((number("at")?, knew))
    }

    /// Whether this one, of the master `own`, is to fill the bucket rather than `other`.
    fn outranks(&self, own: &str, other: &Knew, other_id: &str) -> bool {
        match (self.marks.first(), other.marks.first()) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(mark), Some(theirs)) if mark == theirs => {
                (self.newest, own) > (other.newest, other_id)
            }
            (Some(_), Some(theirs)) => self.marks.contains(theirs),
        }
    }
}

/// What a master that waits is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It waits, for these masters or for the one that fills the bucket.
    Wait(Vec<String>),
    /// It fills the bucket; those with these marks are lost. Without any, it begins a cluster.
    Fill(Vec<String>),
}

/// Who waits.
pub struct Waiting {
    own: String,
    expected: Vec<String>,
    heard: BTreeMap<String, (Knew, Instant)>,
    since: Option<Instant>,
    told: Option<Instant>,
}

impl Waiting {
    /// Of the master `own`; `expected` are the others (`cluster_peers`).
    pub fn new(own: &str, expected: Vec<String>) -> Waiting {
        Waiting {
            own: own.to_owned(),
            expected,
            heard: BTreeMap::new(),
            since: None,
            told: None,
        }
    }

    /// Whether no others are expected.
    pub fn is_alone(&self) -> bool {
        self.expected.is_empty()
    }

    /// Whether this master waits.
    pub fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// This master waits; `false` if it does already.
    pub fn begin(&mut self, now: Instant) -> bool {
        self.since.replace(self.since.unwrap_or(now)).is_none()
    }

    /// It waits no more.
    pub fn end(&mut self) {
        (self.since, self.told) = (None, None);
        self.heard.clear();
    }

    /// Whether this master is to tell that it waits.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = |at: Instant| now.saturating_duration_since(at) >= EVERY;
        let is_due = self.is_waiting() && self.told.is_none_or(is_due);
        if is_due {
            self.told = Some(now);
        }
        is_due
    }

    /// A master waits, as it said at `at` by its clock; `unix` is ours. `false` if these differ too much.
    pub fn heard(&mut self, peer: &str, at: u64, knew: Knew, now: Instant, unix: u64) -> bool {
        if !self.is_waiting() {
            return true;
        }
        let is_recent = at.abs_diff(unix) <= RECENT;
        let is_known = self.heard.contains_key(peer);
        if is_recent && (is_known || self.heard.len() < MOST) {
            self.heard.insert(peer.to_owned(), (knew, now));
        }
        is_recent
    }

    /// What to do, if this is what this master knew.
    pub fn next(&self, knew: &Knew, now: Instant) -> Next {
        let Some(since) = self.since else {
            return Next::Wait(Vec::new());
        };
        let is_valid = |at: Instant| now.saturating_duration_since(at) < VALID;
        let there = self.heard.iter().filter(|(_, (_, at))| is_valid(*at));
        let there: BTreeMap<&String, &Knew> = there.map(|(id, (knew, _))| (id, knew)).collect();
        let is_new = knew.marks.is_empty() && there.values().all(|one| one.marks.is_empty());
        if is_new && now.saturating_duration_since(since) >= LISTEN {
            return Next::Fill(Vec::new());
        }
        let missing = self.expected.iter().filter(|id| !there.contains_key(id));
        let missing: Vec<String> = missing.cloned().collect();
        let mut others = there.iter();
        if !missing.is_empty() || !others.all(|(id, one)| knew.outranks(&self.own, one, id)) {
            return Next::Wait(missing);
        }
        let marks = there.values().flat_map(|one| &one.marks);
        let marks: BTreeSet<&String> = knew.marks.iter().chain(marks).collect();
        Next::Fill(marks.into_iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knew(marks: &[&str], newest: u64) -> Knew {
        Knew {
            marks: marks.iter().map(|mark| (*mark).to_owned()).collect(),
            newest,
        }
    }

    fn wait(all: &[&str]) -> Next {
        Next::Wait(all.iter().map(|id| (*id).to_owned()).collect())
    }

    fn waiting(own: &str, now: Instant) -> Waiting {
        let others = ["m1", "m2", "m3"].into_iter().filter(|id| *id != own);
        let mut waiting = Waiting::new(own, others.map(str::to_owned).collect());
        assert!(waiting.begin(now) && !waiting.begin(now));
        waiting
    }

    #[test]
    fn the_newest_fills_when_all_are_there() {
        let now = Instant::now();
        let known = [
            ("m1", knew(&["b", "a"], 5)),
            ("m2", knew(&["b", "a"], 5)),
            // It was away when the first bucket was replaced.
            ("m3", knew(&["a"], 900)),
        ];
        for (own, own_knew) in &known {
            let mut waiting = waiting(own, now);
            assert!(waiting.is_due(now) && !waiting.is_due(now) && waiting.is_due(now + EVERY));
            assert!(
                matches!(waiting.next(own_knew, now), Next::Wait(missing) if missing.len() == 2)
            );
            for (id, knew) in known.iter().filter(|(id, _)| id != own) {
                let (at, knew) = Knew::decode(&knew.encode(100)).unwrap();
                // Somebody has kept it.
                waiting.heard(id, at, knew.clone(), now, 100 + RECENT + 1);
                assert!(
                    matches!(waiting.next(own_knew, now), Next::Wait(missing) if missing.contains(&(*id).to_owned()))
                );
                waiting.heard(id, at, knew, now, 100);
            }
            let fills = *own == "m2";
            let marks = || Next::Fill(vec!["a".into(), "b".into()]);
            let wanted = if fills { marks() } else { wait(&[]) };
            assert_eq!(waiting.next(own_knew, now), wanted, "{own}");
            let late = waiting.next(own_knew, now + VALID);
            assert!(matches!(late, Next::Wait(missing) if missing.len() == 2));
            waiting.end();
            assert!(!waiting.is_waiting() && !waiting.is_due(now + EVERY));
            assert_eq!(waiting.next(own_knew, now), wait(&[]));
        }
        assert_eq!(Knew::decode(b"garbage"), None);
    }

    #[test]
    fn a_new_master_does_not_begin_beside_those_that_wait() {
        let now = Instant::now();
        let mut new = waiting("m1", now);
        let nothing = Knew::default();
        assert_eq!(new.next(&nothing, now), wait(&["m2", "m3"]));
        // Nobody knew anything: the first one of several may begin.
        new.heard("m2", 100, Knew::default(), now, 100);
        assert_eq!(new.next(&nothing, now + LISTEN), Next::Fill(Vec::new()));
        new.heard("m3", 100, knew(&["a"], 5), now, 100);
        new.heard("m2", 100, knew(&["a"], 4), now, 100);
        assert_eq!(new.next(&nothing, now + LISTEN), wait(&[]));
        let mut old = waiting("m3", now);
        old.heard("m2", 100, knew(&["a"], 4), now, 100);
        assert_eq!(old.next(&knew(&["a"], 5), now), wait(&["m1"]));
        old.heard("m1", 100, nothing, now, 100);
        let marks = vec!["a".to_owned()];
        assert_eq!(old.next(&knew(&["a"], 5), now), Next::Fill(marks));
        // Of another cluster: nobody decides.
        old.heard("m2", 100, knew(&["x"], 4), now, 100);
        assert_eq!(old.next(&knew(&["a"], 5), now), wait(&[]));
    }
}
