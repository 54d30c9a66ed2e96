//! When and how the key of publications changes. Pure: time is passed in, the caller acts.
//!
//! The key changes for two reasons. If it has expired, it is not compromised: the next one is offered for
//! `rotation_grace` first, and publications continue under the old one meanwhile; minions that understand the
//! offer (halite's) fetch it under their session keys, each at a random time. If a minion was deleted, it knows
//! the key, so the key is replaced at once, and a key on offer, which that minion may have fetched, is
//! withdrawn. Deletions within `rotation_grace` of a key change, for either reason, share the next one at the
//! end of that time: each change makes all stock minions sign in at the next publication, and one that is still
//! doing so when the key changes again loses the publication.
//!
//! A stock minion holds one key and gets it only by signing in, so there is no overlap for it: in either case
//! it signs in at the first publication under the new key.

use std::time::{Duration, Instant};

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RotationStep {
    Offer,
    /// Put the offered key in force.
    Take,
    /// Create a key and put it in force at once.
    Replace,
}

/// The rotation schedule of the publications' key.
#[derive(Debug)]
pub(crate) struct Rotation {
    /// `publish_session`.
    every: Duration,
    /// `rotation_grace`.
    grace: Duration,
    /// When the current key came into force.
    since: Instant,
    /// When the next one was offered.
    offered: Option<Instant>,
    /// The current key is the first one: no minion has seen another.
    first: bool,
    /// A deletion is waiting for its key change.
    asked: bool,
}

impl Rotation {
    /// For a key that came into force `now`; with `offered`, another one is already on offer, left by an
    /// earlier process of the role.
    pub fn new(every: Duration, grace: Duration, offered: bool, now: Instant) -> Rotation {
        Rotation {
            every,
            grace,
            since: now,
            offered: offered.then_some(now),
            first: true,
            asked: false,
        }
    }

    /// The step that is due. `deleted`: a key tool requests a new key, because a minion was deleted or
    /// rejected.
    pub fn due(&mut self, deleted: bool, now: Instant) -> Option<RotationStep> {
        self.asked |= deleted;
        let over = |since: Instant, time| now.duration_since(since) >= time;
        if self.asked && (self.first || over(self.since, self.grace)) {
            self.asked = false;
            return Some(self.changed(RotationStep::Replace, now));
        }
        match self.offered {
            Some(at) if over(at, self.grace) => Some(self.changed(RotationStep::Take, now)),
            Some(_) => None,
            None if !over(self.since, self.every) => None,
            None if self.grace.is_zero() => Some(self.changed(RotationStep::Replace, now)),
            None => {
                self.offered = Some(now);
                Some(RotationStep::Offer)
            }
        }
    }

    fn changed(&mut self, act: RotationStep, now: Instant) -> RotationStep {
        self.since = now;
        self.first = false;
        self.offered = None;
        act
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// All steps within so many seconds, with deletions at the given times.
    fn play(
        rotation: &mut Rotation,
        begin: Instant,
        end: u64,
        deleted: &[u64],
    ) -> Vec<(u64, RotationStep)> {
        (0..end)
            .filter_map(|n| {
                let act = rotation.due(deleted.contains(&n), begin + secs(n))?;
                Some((n, act))
            })
            .collect()
    }

    #[test]
    fn an_old_key_goes_on_while_the_next_is_offered() {
        let begin = Instant::now();
        let mut rotation = Rotation::new(secs(100), secs(10), false, begin);
        let acts = play(&mut rotation, begin, 230, &[]);
        use RotationStep::{Offer, Take};
        assert_eq!(acts, [(100, Offer), (110, Take), (210, Offer), (220, Take)]);
        // Without a grace period it is as in stock.
        let mut rotation = Rotation::new(secs(100), secs(0), false, begin);
        let acts = play(&mut rotation, begin, 230, &[]);
        assert_eq!(
            acts,
            [(100, RotationStep::Replace), (200, RotationStep::Replace)]
        );
    }

    #[test]
    fn a_deletion_replaces_at_once_and_voids_the_offer() {
        let begin = Instant::now();
        let mut rotation = Rotation::new(secs(100), secs(10), false, begin);
        let acts = play(&mut rotation, begin, 205, &[104]);
        use RotationStep::{Offer, Replace};
        assert_eq!(acts, [(100, Offer), (104, Replace), (204, Offer)]);
    }

    #[test]
    fn a_deletion_right_after_a_change_waits() {
        let begin = Instant::now();
        let mut rotation = Rotation::new(secs(100), secs(10), false, begin);
        use RotationStep::{Offer, Replace, Take};
        let acts = play(&mut rotation, begin, 200, &[111, 113]);
        assert_eq!(acts, [(100, Offer), (110, Take), (120, Replace)]);
        let mut rotation = Rotation::new(secs(100), secs(10), false, begin);
        assert_eq!(
            play(&mut rotation, begin, 50, &[1]),
            [(1, Replace)],
            "a key that was made at the start"
        );
    }

    #[test]
    fn many_deletions_are_few_rotations() {
        let begin = Instant::now();
        let each: Vec<u64> = (50..80).collect();
        let mut rotation = Rotation::new(DAY, secs(10), false, begin);
        let acts = play(&mut rotation, begin, 200, &each);
        let at: Vec<u64> = acts.iter().map(|(n, _)| *n).collect();
        assert_eq!(at, [50, 60, 70, 80], "the last of them is heeded as well");
        assert!(acts.iter().all(|(_, act)| *act == RotationStep::Replace));
        // Without a grace period each has its own.
        let mut rotation = Rotation::new(DAY, secs(0), false, begin);
        assert_eq!(play(&mut rotation, begin, 200, &each).len(), each.len());
    }

    #[test]
    fn an_offer_outlives_the_process_that_made_it() {
        let begin = Instant::now();
        let mut rotation = Rotation::new(DAY, secs(10), true, begin);
        assert_eq!(
            play(&mut rotation, begin, 60, &[]),
            [(10, RotationStep::Take)]
        );
    }
}
