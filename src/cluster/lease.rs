//! Who leads: one master at a time does what must happen once for all. No IO and no clock: it is told the time.
//!
//! The leader writes its entry again and again; who does not see it change for [`EXPIRY`] writes its own. Only one of several
//! can, since a write needs the revision that was seen last. A leader that could not write stops before another one
//! can begin.

use crate::record::Lead;
use crate::sync::Put;
use std::time::{Duration, Instant};

/// How often the leader writes.
pub const RENEWAL: Duration = Duration::from_secs(2);
/// How long a write counts, from when it was sent.
pub const VALIDITY: Duration = Duration::from_secs(6);
/// Silence after which another master takes over.
pub const EXPIRY: Duration = Duration::from_secs(12);

#[derive(Clone, Debug)]
struct Seen {
    /// `None` if no master has written it.
    lead: Option<Lead>,
    revision: u64,
    at: Instant,
}

/// What this process knows.
#[derive(Debug)]
pub struct Lease {
    own: String,
    seen: Option<Seen>,
    /// The highest number that was seen.
    number: u64,
    /// What waits for its answer, and when it was sent.
    pending: Option<(Lead, Instant)>,
    renewed: Option<Instant>,
    has_resigned: bool,
}

impl Lease {
    /// Of a process.
    pub fn new(own: String) -> Lease {
        Lease {
            own,
            seen: None,
            number: 0,
            pending: None,
            renewed: None,
            has_resigned: false,
        }
    }

    /// An entry of the bucket; `None` for one of no master. `false` if it was there before: someone has put it back.
    pub fn entry(&mut self, lead: Option<Lead>, revision: u64, now: Instant) -> bool {
        if self
            .seen
            .as_ref()
            .is_some_and(|seen| revision <= seen.revision)
        {
            return true;
        }
        // After a time without a connection, the last one is told again.
        let is_told_again = self.seen.is_none();
        let is_old = lead.as_ref().is_some_and(|lead| {
            lead.number < self.number || (lead.number == self.number && !is_told_again)
        });
        let lead = lead.filter(|_| !is_old);
        if let Some(lead) = &lead {
            self.number = lead.number;
        }
        self.seen = Some(Seen {
            lead,
            revision,
            at: now,
        });
        !is_old
    }

    /// What is to be written now, and the revision that it replaces. To be called as a member only.
    pub fn due(&mut self, now: Instant) -> Option<(Lead, u64)> {
        if self.pending.is_some() || self.has_resigned {
            return None;
        }
        let is_due = match &self.seen {
            None => true,
            Some(Seen {
                lead: Some(lead), ..
            }) if lead.holder.is_empty() => true,
            Some(Seen {
                lead: Some(lead), ..
            }) if lead.holder == self.own => {
                let since = |at: Instant| now.saturating_duration_since(at) >= RENEWAL;
                self.renewed.is_none_or(since)
            }
            Some(seen) => now.saturating_duration_since(seen.at) >= EXPIRY,
        };
        is_due.then(|| {
            let lead = Lead {
                holder: self.own.clone(),
                number: self.number + 1,
            };
            self.pending = Some((lead.clone(), now));
            (lead, self.seen.as_ref().map_or(0, |seen| seen.revision))
        })
    }

    /// Leads no more, and never again. What is to be written so that another one need not wait, and the revision that it
    /// replaces; `None` if this process does not lead.
    pub fn resign(&mut self, now: Instant) -> Option<(Lead, u64)> {
        let was_leader = self.is_leader(now);
        self.has_resigned = true;
        self.renewed = None;
        let revision = self.seen.as_ref().map(|seen| seen.revision)?;
        was_leader.then(|| {
            let lead = Lead {
                holder: String::new(),
                number: self.number + 1,
            };
            (lead, revision)
        })
    }

    /// How a write has ended.
    pub fn ended(&mut self, how: Put) {
        let Some((lead, sent)) = self.pending.take() else {
            return;
        };
        if let Put::Done(revision) = how
            && self
                .seen
                .as_ref()
                .is_none_or(|seen| revision >= seen.revision)
        {
            self.number = self.number.max(lead.number);
            self.renewed = Some(sent).filter(|_| !self.has_resigned);
            self.seen = Some(Seen {
                lead: Some(lead),
                revision,
                at: sent,
            });
        }
    }

    /// The connection is lost: nothing is known, and what was written counts until it has expired.
    pub fn down(&mut self) {
        (self.seen, self.pending) = (None, None);
    }

    /// Whether this process leads.
    pub fn is_leader(&self, now: Instant) -> bool {
        let counts = |at: Instant| now.saturating_duration_since(at) < VALIDITY;
        self.renewed.is_some_and(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    struct Master {
        lease: Lease,
        is_up: bool,
        watch: Vec<(Lead, u64)>,
        answer: Option<Put>,
    }

    /// Three masters whose connections end and whose messages are late; at no moment do two lead, and at the end one does.
    fn play(seed: u64) {
        let mut random = Random::new(seed);
        let start = Instant::now();
        let mut now = start;
        let mut bucket: Option<(Lead, u64)> = None;
        let mut masters: Vec<Master> = (0..3)
            .map(|n| Master {
                lease: Lease::new(n.to_string()),
                is_up: true,
                watch: Vec::new(),
                answer: None,
            })
            .collect();
        for step in 0..700 {
            let quiet = step > 500;
            now += Duration::from_millis(random.below(300));
            let n = random.below(3) as usize;
            let mut written = None;
            let master = &mut masters[n];
            match random.below(if quiet { 8 } else { 10 }) {
                0..3 if !master.watch.is_empty() => {
                    let (lead, revision) = master.watch.remove(0);
                    assert!(master.lease.entry(Some(lead), revision, now));
                }
                3..6 => {
                    if let Some(how) = master.answer.take() {
                        master.lease.ended(how);
                    }
                }
                9 if master.is_up && random.below(4) == 0 => {
                    // It stops, and another process starts.
                    let present = bucket.as_ref().map_or(0, |(_, revision)| *revision);
                    if let Some((lead, revision)) = master.lease.resign(now)
                        && revision == present
                        && random.below(3) > 0
                    {
                        written = Some((lead, present + 1));
                    }
                    assert!(master.lease.due(now).is_none());
                    *master = Master {
                        lease: Lease::new(format!("{n} {step}")),
                        is_up: false,
                        watch: Vec::new(),
                        answer: None,
                    };
                }
                8 => {
                    master.is_up = false;
                    master.watch.clear();
                    master.answer = None;
                    master.lease.down();
                }
                _ if !master.is_up => {
                    master.is_up = true;
                    if let Some((lead, revision)) = bucket.clone() {
                        assert!(master.lease.entry(Some(lead), revision, now));
                    }
                }
                _ => {
                    if let Some((lead, revision)) = master.lease.due(now) {
                        let present = bucket.as_ref().map_or(0, |(_, revision)| *revision);
                        master.answer = Some(if revision == present {
                            written = Some((lead, present + 1));
                            Put::Done(present + 1)
                        } else {
                            Put::Conflict
                        });
                        if random.below(6) == 0 {
                            master.answer = Some(Put::Unknown);
                        }
                    }
                }
            }
            if written.is_some() {
                bucket.clone_from(&written);
            }
            for master in masters.iter_mut().filter(|master| master.is_up) {
                master.watch.extend(written.clone());
            }
            let leaders = masters.iter().filter(|m| m.lease.is_leader(now)).count();
            assert!(leaders <= 1, "seed {seed}, step {step}");
        }
    }

    #[test]
    fn two_never_lead() {
        for seed in 0..20_000 {
            play(seed);
        }
    }

    #[test]
    fn a_leader_stays_and_is_replaced() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let [mut one, mut two] = ["one", "two"].map(|own| Lease::new(own.to_owned()));
        let (lead, revision) = one.due(at(0)).unwrap();
        assert_eq!((lead.number, revision), (1, 0));
        assert!(!one.is_leader(at(0)));
        one.ended(Put::Done(5));
        assert!(two.entry(Some(lead.clone()), 5, at(0)));
        assert!(one.is_leader(at(1)) && one.due(at(1)).is_none());
        assert!(two.due(at(11)).is_none());
        let (next, revision) = one.due(at(2)).unwrap();
        assert_eq!((next.number, revision), (2, 5));
        one.ended(Put::Conflict);
        // Nobody can put the old entry back, and garbage takes the lead from nobody at once.
        assert!(!two.entry(Some(lead), 6, at(3)));
        assert!(one.is_leader(at(5)) && !one.is_leader(at(7)));
        let (taken, revision) = two.due(at(15)).unwrap();
        assert_eq!((taken.holder.as_str(), revision), ("two", 6));
        two.ended(Put::Done(7));
        assert!(two.is_leader(at(16)));
        // Who goes makes room at once.
        let (free, revision) = two.resign(at(16)).unwrap();
        assert!(!two.is_leader(at(16)) && two.due(at(18)).is_none());
        assert_eq!(revision, 7);
        assert!(one.entry(Some(free), 8, at(16)) && one.due(at(16)).is_some());
    }
}
