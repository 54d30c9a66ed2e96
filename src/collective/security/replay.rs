//! Checks of the age of messages and for replays. The time is passed in.

use super::MAX_TTL;
use crate::wire::{Identity, Refused, Request};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Checks that a message created at `time` (seconds since 1970) is neither expired nor from the future at `now`: no more
/// than `ttl` seconds apart, either way, as in Choria's servers in Go (reference, section 10; Ruby's accept
/// anything from the future). A `ttl` above [`MAX_TTL`] counts as that.
///
/// # Errors
/// [`Refused::Expired`] and [`Refused::Future`], with the excess in seconds.
pub fn check_age(time: i64, ttl: u32, now: i64) -> Result<(), Refused> {
    let ttl = i64::from(ttl.min(MAX_TTL));
    let age = now.saturating_sub(time);
    match age {
        _ if age > ttl => Err(Refused::Expired(age - ttl)),
        _ if age < -ttl => Err(Refused::Future(age.saturating_add(ttl).saturating_neg())),
        _ => Ok(()),
    }
}

type Key = [u8; 32];

/// Remembers requests for their time to live, so that each runs only once.
///
/// Batches send the same request id to one node after another, so caller, id and node are remembered.
/// A request goes either to all or to single nodes: one that was sent to all is not accepted for a
/// single node afterwards, nor the other way round. Memory is bounded; see [`Replay::evicted`].
#[derive(Debug)]
pub struct Replay {
    limit: usize,
    seen: HashMap<Key, Entry>,
    by_age: BTreeMap<u64, Key>,
    by_end: BTreeSet<(i64, u64)>,
    next: u64,
    evicted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    end: i64,
}

impl Replay {
    /// Remembers at most `limit` entries of about 200 bytes; a request takes one or two.
    pub fn new(limit: usize) -> Replay {
        Replay {
            limit: limit.max(2),
            seen: HashMap::new(),
            by_age: BTreeMap::new(),
            by_end: BTreeSet::new(),
            next: 0,
            evicted: 0,
        }
    }

    /// Checks and records a request to all (`None`) or to one node. Call it after [`check_age`], which refuses the request
    /// once it is forgotten here.
    ///
    /// # Errors
    /// [`Refused::Replayed`] if it was seen before.
    pub fn check(
        &mut self,
        request: &Request,
        node: Option<&Identity>,
        now: i64,
    ) -> Result<(), Refused> {
        self.forget(now);
        let all = key(request, b"all", "");
        let some = key(request, b"some", "");
        let (refused_by, noted) = match node {
            None => ([all, some], [all, all]),
            Some(node) => {
                let one = key(request, b"one", node.as_str());
                ([all, one], [one, some])
            }
        };
        if refused_by.iter().any(|key| self.seen.contains_key(key)) {
            return Err(Refused::Replayed);
        }
        let ttl = i64::from(request.ttl.min(MAX_TTL));
        let end = request.time.max(now).saturating_add(ttl);
        for key in noted {
            self.record(key, end);
        }
        Ok(())
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Number of entries dropped early because the limit was reached: such requests could run again.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Records a key, replacing an existing entry.
    fn record(&mut self, key: Key, end: i64) {
        let end = match self.seen.get(&key).copied() {
            Some(old) => {
                self.remove(old);
                end.max(old.end)
            }
            None => end,
        };
        if self.seen.len() >= self.limit
            && let Some((&number, &oldest)) = self.by_age.first_key_value()
        {
            let end = self.seen.get(&oldest).map_or(0, |entry| entry.end);
            self.remove(Entry { number, end });
            self.evicted += 1;
        }
        let number = self.next;
        self.next += 1;
        self.by_age.insert(number, key);
        self.by_end.insert((end, number));
        self.seen.insert(key, Entry { number, end });
    }

    fn remove(&mut self, entry: Entry) {
        self.by_end.remove(&(entry.end, entry.number));
        if let Some(key) = self.by_age.remove(&entry.number) {
            self.seen.remove(&key);
        }
    }

    /// Drops entries of requests that would be refused for their age.
    fn forget(&mut self, now: i64) {
        while let Some(&(end, number)) = self.by_end.first() {
            if end >= now {
                break;
            }
            self.remove(Entry { number, end });
        }
    }
}

/// A key of fixed size, however long the names are. Names contain no NUL.
fn key(request: &Request, kind: &[u8], node: &str) -> Key {
    let mut hash = Sha256::new();
    for part in [
        kind,
        request.caller.as_str().as_bytes(),
        request.id.as_str().as_bytes(),
        node.as_bytes(),
    ] {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ruby::Datum;
    use crate::wire::Filter;

    fn request(id: u32, time: i64) -> Request {
        Request {
            body: Datum::from("ping"),
            sender: "client".parse().unwrap(),
            id: format!("{id:032x}").parse().unwrap(),
            filter: Filter::default(),
            collective: "mcollective".parse().unwrap(),
            agent: "discovery".parse().unwrap(),
            caller: "choria=rip.mcollective".parse().unwrap(),
            ttl: 60,
            time,
        }
    }

    #[test]
    fn a_message_is_good_for_its_time_to_live_both_ways() {
        assert_eq!(check_age(1000, 60, 1060), Ok(()));
        assert_eq!(check_age(1000, 60, 940), Ok(()));
        assert_eq!(check_age(1000, 60, 1061), Err(Refused::Expired(1)));
        assert_eq!(check_age(1000, 60, 1100), Err(Refused::Expired(40)));
        assert_eq!(check_age(1000, 60, 939), Err(Refused::Future(1)));
        assert_eq!(check_age(4600, 60, 1000), Err(Refused::Future(3540)));
        // Neither a huge time to live nor a huge time circumvents it.
        let year = check_age(0, u32::MAX, 86_401);
        assert_eq!(year, Err(Refused::Expired(1)));
        for (time, now) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN)] {
            assert!(check_age(time, 60, now).is_err());
        }
        let text = check_age(1000, 60, 1100).unwrap_err().to_string();
        assert!(text.contains("40 s") && text.contains("clocks"), "{text}");
    }

    #[test]
    fn identical_requests_run_once() {
        let mut replay = Replay::new(100);
        assert_eq!(replay.check(&request(1, 1000), None, 1000), Ok(()));
        for now in [1000, 1030, 1060] {
            let again = replay.check(&request(1, 1000), None, now);
            assert_eq!(again, Err(Refused::Replayed));
        }
        assert_eq!(replay.check(&request(2, 1000), None, 1000), Ok(()));
        // Of another caller, it is another request.
        let mut other = request(1, 1000);
        other.caller = "choria=bob.mcollective".parse().unwrap();
        assert_eq!(replay.check(&other, None, 1000), Ok(()));
    }

    #[test]
    fn it_is_remembered_until_its_age_refuses_it() {
        let mut replay = Replay::new(100);
        // Made in the future, within the window: remembered for longer.
        assert_eq!(replay.check(&request(1, 1050), None, 1000), Ok(()));
        assert_eq!(check_age(1050, 60, 1110), Ok(()));
        assert!(replay.check(&request(1, 1050), None, 1110).is_err());
        assert!(check_age(1050, 60, 1111).is_err());
        replay.check(&request(2, 1111), None, 1111).unwrap();
        assert_eq!(replay.len(), 1);
        assert_eq!(replay.evicted(), 0);
    }

    #[test]
    fn batches_share_an_id_and_reach_each_node_once() {
        let mut replay = Replay::new(100);
        let [a, b] = ["a.example", "b.example"].map(|name| name.parse::<Identity>().unwrap());
        assert_eq!(replay.check(&request(1, 1000), Some(&a), 1000), Ok(()));
        assert_eq!(replay.check(&request(1, 1001), Some(&b), 1001), Ok(()));
        for node in [&a, &b] {
            let again = replay.check(&request(1, 1001), Some(node), 1002);
            assert_eq!(again, Err(Refused::Replayed));
        }
        // A captured request cannot be replayed to the other kind of place.
        let all = replay.check(&request(1, 1001), None, 1002);
        assert_eq!(all, Err(Refused::Replayed));
        replay.check(&request(2, 1000), None, 1000).unwrap();
        let one = replay.check(&request(2, 1000), Some(&a), 1000);
        assert_eq!(one, Err(Refused::Replayed));
    }

    #[test]
    fn a_full_memory_forgets_the_oldest_and_says_so() {
        let mut replay = Replay::new(10);
        for id in 0..30 {
            replay.check(&request(id, 1000), None, 1000).unwrap();
            assert!(replay.len() <= 10);
        }
        assert_eq!(replay.evicted(), 20);
        assert!(replay.check(&request(29, 1000), None, 1000).is_err());
        assert!(replay.check(&request(20, 1000), None, 1000).is_err());
        assert_eq!(replay.check(&request(19, 1000), None, 1000), Ok(()));
        // Entries with a long time to live do not stay forever.
        let mut long = request(100, 1000);
        long.ttl = u32::MAX;
        replay.check(&long, None, 1000).unwrap();
        for id in 200..210 {
            replay.check(&request(id, 1000), None, 1000).unwrap();
        }
        assert_eq!(replay.check(&long, None, 1000), Ok(()));
        // The three tables agree.
        assert_eq!(replay.by_age.len(), replay.len());
        assert_eq!(replay.by_end.len(), replay.len());
    }
}
