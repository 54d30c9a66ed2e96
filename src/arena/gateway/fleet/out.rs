//! Output of the fleet: acts in their order, ids of our requests, and a limit on errors reported.

use super::{Act, FleetEvent};
use crate::mqtt::{Publication, Qos};
use crate::registry::Change;
use crate::wire::Message;
use halite_gateway::clock::Clock;
use std::time::{Duration, Instant};

/// Acts, in the order in which they were decided.
#[derive(Debug, Default)]
pub(super) struct Out {
    acts: Vec<Act>,
}

impl Out {
    /// Publishes a message, at QoS 2 and never retained (reference, section 1).
    pub fn publish(&mut self, topic: &str, message: &Message) {
        self.acts.push(Act::Publish(Publication {
            topic: topic.to_owned(),
            payload: message.to_json(),
            qos: Qos::Two,
            properties: Vec::new(),
        }));
    }

    /// Saves a change.
    pub fn save(&mut self, change: Change) {
        self.acts.push(Act::Save(change));
    }

    /// Reports an event.
    pub fn report(&mut self, what: FleetEvent) {
        self.acts.push(Act::Report(what));
    }

    /// All acts.
    pub fn done(self) -> Vec<Act> {
        self.acts
    }
}

/// Ids of our requests: a prefix that no other process has, and a number. So we recognise our own requests when they
/// come back, without remembering any.
#[derive(Debug)]
pub(super) struct OwnIds {
    beginning: String,
    next: u64,
}

impl OwnIds {
    /// Derives the prefix from this UUID; its last part makes room for the number.
    pub fn new(uuid: &str) -> OwnIds {
        let head = uuid.rsplit_once('-').map_or(uuid, |(head, _)| head);
        OwnIds {
            beginning: format!("{head}-"),
            next: 0,
        }
    }

    /// The id of the next request.
    pub fn next(&mut self) -> String {
        self.next += 1;
        format!("{}{:012x}", self.beginning, self.next)
    }

    /// Whether an id is one of ours.
    pub fn is_own(&self, id: &str) -> bool {
        id.starts_with(&self.beginning)
    }
}

/// Errors that may be reported at once.
const BURST: u32 = 50;
/// Time after which one more may be reported.
const EACH: Duration = Duration::from_millis(100);

/// How many errors may still be reported, so that a flood of garbage does not become two.
#[derive(Debug)]
pub(super) struct Bucket {
    left: u32,
    filled: Instant,
}

impl Bucket {
    /// A full bucket.
    pub fn new(now: Clock) -> Bucket {
        Bucket {
            left: BURST,
            filled: now.at,
        }
    }

    /// Whether one more error may be reported now.
    pub fn take(&mut self, now: Clock) -> bool {
        let passed = now.at.duration_since(self.filled);
        let more = passed.as_millis() / EACH.as_millis();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more >= BURST {
            self.left = BURST;
            self.filled = now.at;
        } else {
            self.left = (self.left + more).min(BURST);
            self.filled += EACH * more;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ids_are_known_again() {
        let mut ids = OwnIds::new("01234567-89ab-4cde-8f01-23456789abcd");
        assert_eq!(ids.next(), "01234567-89ab-4cde-8f01-000000000001");
        assert!(ids.is_own("01234567-89ab-4cde-8f01-000000000001"));
        assert!(!ids.is_own("01234567-89ab-4cde-8f02-000000000001"));
        assert!(!ids.is_own(""));
    }

    #[test]
    fn a_flood_is_told_slowly() {
        let start = Clock::now();
        let mut bucket = Bucket::new(start);
        let told = (0..1000).filter(|_| bucket.take(start)).count();
        assert_eq!(told, BURST as usize);
        let later = start.after(EACH * 3 + EACH / 2);
        assert_eq!((0..10).filter(|_| bucket.take(later)).count(), 3);
        // The unused half of an interval counts.
        let later = later.after(EACH / 2);
        assert_eq!((0..10).filter(|_| bucket.take(later)).count(), 1);
        let much = later.after(Duration::from_secs(86_400));
        assert_eq!(
            (0..1000).filter(|_| bucket.take(much)).count(),
            BURST as usize
        );
    }
}
