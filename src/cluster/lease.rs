//! Who leads: one master at a time does what must happen once for all. No IO and no clock: it is told the time.
//!
//! The leader writes its entry again and again; who does not see it change for [`EXPIRY`] claims to lead with its own. Only one
//! of several can, since a write needs the revision that was seen last. Servers with several replicas before NATS 2.10.23 may
//! take two such writes at once, though (nats-server #4320); so a claim counts only after [`CLAIM`], if it could be renewed
//! since: the renewal of the other one fails. A leader that could not write stops before another one begins.

use crate::record::Lead;
use crate::sync::Put;
use std::time::{Duration, Instant};

/// How often the leader writes.
pub const RENEWAL: Duration = Duration::from_secs(2);
/// How long a write counts, from when it was sent.
pub const VALIDITY: Duration = Duration::from_secs(6);
/// How old a claim must be: the last write of another one that was taken at the same time counts no more then.
pub const CLAIM: Duration = Duration::from_secs(8);
/// Silence after which another master claims to lead.
pub const EXPIRY: Duration = Duration::from_secs(6);

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
    /// After a write that was not taken: when it may be tried again if the watch tells nothing newer.
    again: Option<Instant>,
    renewed: Option<Instant>,
    /// When the first of the present row of writes was sent.
    claimed: Option<Instant>,
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
            again: None,
            renewed: None,
            claimed: None,
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
        let last = self.seen.as_ref().and_then(|seen| seen.lead.as_ref());
        let is_old = lead.as_ref().is_some_and(|lead| {
            // Of two that were taken at once, both have the same number.
            let is_rival = last.is_some_and(|last| last.holder != lead.holder);
            lead.number < self.number || (lead.number == self.number && !is_told_again && !is_rival)
        });
        let lead = lead.filter(|_| !is_old);
        if let Some(lead) = &lead {
            self.number = lead.number;
        }
        if lead.as_ref().is_none_or(|lead| lead.holder != self.own) {
            self.claimed = None;
        }
        self.again = None;
        self.seen = Some(Seen {
            lead,
            revision,
            at: now,
        });
        !is_old
    }

    /// What is to be written now, and the revision that it replaces. To be called as a member only.
    pub fn due(&mut self, now: Instant) -> Option<(Lead, u64)> {
        let is_early = self.again.is_some_and(|again| now < again);
        if self.pending.is_some() || self.has_resigned || is_early {
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
        (self.renewed, self.claimed) = (None, None);
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
        if how == Put::Conflict {
            (self.claimed, self.again) = (None, Some(sent + RENEWAL));
        }
        if let Put::Done(revision) = how
            && self
                .seen
                .as_ref()
                .is_none_or(|seen| revision >= seen.revision)
        {
            self.number = self.number.max(lead.number);
            self.renewed = Some(sent).filter(|_| !self.has_resigned);
            self.claimed = self.claimed.or(self.renewed);
            self.seen = Some(Seen {
                lead: Some(lead),
                revision,
                at: sent,
            });
        }
    }

    /// The connection is lost: nothing is known, and what was written counts until it has expired.
    pub fn down(&mut self) {
        (self.seen, self.pending, self.again) = (None, None, None);
    }

    /// Whether this process leads.
    pub fn is_leader(&self, now: Instant) -> bool {
        let counts = |at: Instant| now.saturating_duration_since(at) < VALIDITY;
        let is_old = |at: Instant| now.saturating_duration_since(at) >= CLAIM;
        let is_claimed = self.claimed.is_some_and(is_old);
        is_claimed && self.renewed.is_some_and(counts)
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

    /// How long an old server may take a second write for the same revision.
    const AT_ONCE: Duration = Duration::from_secs(1);

    /// Three masters whose connections end and whose messages are late; at no moment do two lead. Returns in how many steps one does.
    fn play(seed: u64) -> usize {
        let mut random = Random::new(seed);
        let start = Instant::now();
        let mut now = start;
        let mut bucket: Option<(Lead, u64)> = None;
        let is_old_server = seed.is_multiple_of(2);
        // What the last write has replaced, and when.
        let mut replaced = (0, start);
        let mut masters: Vec<Master> = (0..3)
            .map(|n| Master {
                lease: Lease::new(n.to_string()),
                is_up: true,
                watch: Vec::new(),
                answer: None,
            })
            .collect();
        let mut led = 0;
        for step in 0..700 {
            let quiet = step > 500;
            now += Duration::from_millis(random.below(300));
            let n = random.below(3) as usize;
            let mut written = None;
            let mut expected = 0;
            let master = &mut masters[n];
            match random.below(if quiet { 8 } else { 10 }) {
                0..3 if !master.watch.is_empty() => {
                    let (lead, revision) = master.watch.remove(0);
                    let is_ours = master.lease.entry(Some(lead), revision, now);
                    assert!(is_ours || is_old_server, "seed {seed}");
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
                        (written, expected) = (Some((lead, present + 1)), revision);
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
                        let is_ours = master.lease.entry(Some(lead), revision, now);
                        assert!(is_ours || is_old_server, "seed {seed}");
                    }
                }
                _ => {
                    if let Some((lead, revision)) = master.lease.due(now) {
                        let present = bucket.as_ref().map_or(0, |(_, revision)| *revision);
                        let (before, at) = replaced;
                        let is_taken_too =
                            is_old_server && revision == before && now - at < AT_ONCE;
                        master.answer = Some(if revision == present || is_taken_too {
                            (written, expected) = (Some((lead, present + 1)), revision);
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
                replaced = (expected, now);
                bucket.clone_from(&written);
            }
            for master in masters.iter_mut().filter(|master| master.is_up) {
                master.watch.extend(written.clone());
            }
            let leaders = masters.iter().filter(|m| m.lease.is_leader(now)).count();
            assert!(leaders <= 1, "seed {seed}, step {step}");
            led += leaders;
        }
        led
    }

    #[test]
    fn two_never_lead() {
        let led: usize = (0..20_000).map(play).sum();
        assert!(led > 20_000, "{led}");
    }

    #[test]
    fn a_leader_stays_and_is_replaced() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let [mut one, mut two] = ["one", "two"].map(|own| Lease::new(own.to_owned()));
        let (lead, revision) = one.due(at(0)).unwrap();
        assert_eq!((lead.number, revision), (1, 0));
        one.ended(Put::Done(5));
        assert!(two.entry(Some(lead.clone()), 5, at(0)));
        assert!(!one.is_leader(at(1)) && one.due(at(1)).is_none());
        // It renews its claim, and leads when that is old enough.
        for n in 1..=4 {
            let (next, revision) = one.due(at(2 * n)).unwrap();
            assert_eq!((next.number, revision), (1 + n, 4 + n));
            one.ended(Put::Done(5 + n));
            assert!(two.entry(Some(next), 5 + n, at(2 * n)));
            assert_eq!(one.is_leader(at(2 * n)), n == 4);
        }
        assert!(one.is_leader(at(13)) && !one.is_leader(at(14)));
        assert!(two.due(at(13)).is_none());
        // Nobody can put the old entry back, and garbage gives the lead to nobody.
        assert!(!two.entry(Some(lead), 10, at(13)));
        one.due(at(13)).unwrap();
        one.ended(Put::Conflict);
        assert!(!one.is_leader(at(13)));
        let (claim, revision) = two.due(at(19)).unwrap();
        assert_eq!((claim.holder.as_str(), revision), ("two", 10));
        two.ended(Put::Done(11));
        for n in 1..=4 {
            two.due(at(19 + 2 * n)).unwrap();
            two.ended(Put::Done(11 + n));
        }
        assert!(two.is_leader(at(27)));
        // Who goes makes room at once.
        let (free, revision) = two.resign(at(27)).unwrap();
        assert!(!two.is_leader(at(27)) && two.due(at(29)).is_none());
        assert_eq!(revision, 15);
        assert!(one.entry(Some(free), 16, at(27)) && one.due(at(27)).is_some());
    }

    #[test]
    fn of_two_that_are_taken_at_once_one_leads() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let [mut one, mut two] = ["one", "two"].map(|own| Lease::new(own.to_owned()));
        let claims = [one.due(at(0)).unwrap().0, two.due(at(0)).unwrap().0];
        one.ended(Put::Done(1));
        two.ended(Put::Done(2));
        // Each hears of the other, and that is not the work of a stranger.
        assert!(two.entry(Some(claims[0].clone()), 1, at(1)));
        assert!(one.entry(Some(claims[1].clone()), 2, at(1)));
        assert!(one.due(at(2)).is_none());
        for n in 1..=4 {
            two.due(at(2 * n)).unwrap();
            two.ended(Put::Done(2 + n));
        }
        assert!(two.is_leader(at(8)) && !one.is_leader(at(8)));
    }
}
