//! Slows down password guessing. Pure: time is passed in.
//!
//! Failures are counted per system, user and address, so that nobody can lock out a user elsewhere, or other
//! users of the same host.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Number of failures without a penalty.
const FREE: u32 = 5;
/// Longest time for which further attempts are refused without a check.
const LONGEST: Duration = Duration::from_secs(60);
/// Failures are forgotten after this time.
const MEMORY: Duration = Duration::from_secs(600);
/// Most entries; the oldest is removed.
const HELD: usize = 10_000;

/// The source of attempts: system, user, address.
pub type LoginSource = (String, String, String);

struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn wait(&self) -> Duration {
        match self.count.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(over) => Duration::from_secs(1 << over.min(10)).min(LONGEST),
        }
    }
}

/// Recent failed attempts.
#[derive(Default)]
pub struct Throttle {
    failures: HashMap<LoginSource, Failures>,
}

impl Throttle {
    /// Whether an attempt is allowed now; if not, in how many seconds.
    pub fn admit(&self, who: &LoginSource, now: Instant) -> Result<(), u64> {
        let Some(failures) = self.failures.get(who) else {
            return Ok(());
        };
        let passed = now.saturating_duration_since(failures.last);
        match failures.wait().checked_sub(passed) {
            None | Some(Duration::ZERO) => Ok(()),
            Some(left) => Err(left.as_secs().max(1)),
        }
    }

    /// Records a failed attempt.
    pub fn failed(&mut self, who: LoginSource, now: Instant) {
        let known = self.failures.contains_key(&who);
        if !known && self.failures.len() >= HELD {
            self.make_room(now);
        }
        let failures = self.failures.entry(who).or_insert(Failures {
            count: 0,
            last: now,
        });
        if now.saturating_duration_since(failures.last) > MEMORY {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
    }

    /// Records a successful attempt.
    pub fn succeeded(&mut self, who: &LoginSource) {
        self.failures.remove(who);
    }

    fn make_room(&mut self, now: Instant) {
        let fresh = |f: &Failures| now.saturating_duration_since(f.last) <= MEMORY;
        self.failures.retain(|_, f| fresh(f));
        if self.failures.len() < HELD {
            return;
        }
        let oldest = self.failures.iter().min_by_key(|(_, f)| f.last);
        if let Some(who) = oldest.map(|(who, _)| who.clone()) {
            self.failures.remove(&who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: &str, from: &str) -> LoginSource {
        ("pam".into(), user.into(), from.into())
    }

    #[test]
    fn guessing_gets_slow_for_the_guesser_alone() {
        let (mut t, now) = (Throttle::default(), Instant::now());
        let guesser = who("fred", "10.0.0.9");
        for _ in 0..FREE - 1 {
            t.failed(guesser.clone(), now);
            assert_eq!(t.admit(&guesser, now), Ok(()));
        }
        t.failed(guesser.clone(), now);
        assert_eq!(t.admit(&guesser, now), Err(1));
        assert_eq!(t.admit(&guesser, now + Duration::from_secs(1)), Ok(()));
        for _ in 0..100 {
            t.failed(guesser.clone(), now);
        }
        assert_eq!(t.admit(&guesser, now), Err(60));
        assert_eq!(t.admit(&who("fred", "10.0.0.1"), now), Ok(()));
        assert_eq!(t.admit(&who("mary", "10.0.0.9"), now), Ok(()));
        t.succeeded(&guesser);
        assert_eq!(t.admit(&guesser, now), Ok(()));
    }

    #[test]
    fn failures_are_forgotten_and_the_table_is_bounded() {
        let (mut t, now) = (Throttle::default(), Instant::now());
        for _ in 0..20 {
            t.failed(who("fred", "a"), now);
        }
        t.failed(who("fred", "a"), now + MEMORY + Duration::from_secs(1));
        assert_eq!(t.admit(&who("fred", "a"), now + MEMORY * 2), Ok(()));
        for n in 0..HELD + 50 {
            t.failed(who(&n.to_string(), "a"), now);
        }
        assert!(t.failures.len() <= HELD);
    }
}
