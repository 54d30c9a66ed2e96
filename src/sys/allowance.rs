//! How often somebody may do something, by the generic cell rate algorithm: so many times per second, and some at once.
//!
//! Pure: time is passed in.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Most keys that are tracked at a time. Further ones share one allowance, so that a flood of them neither grows the table nor
/// evades it.
const KEYS: usize = 65_536;
/// How often idle ones are removed.
const SWEEP: Duration = Duration::from_secs(10);

/// The time at which somebody who sticks to their rate would have asked as often (the "theoretical arrival time").
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance(Option<Instant>);

impl Allowance {
    /// Whether it is fully replenished.
    pub fn is_idle(self, now: Instant) -> bool {
        self.0.is_none_or(|at| at <= now)
    }

    /// Uses up `cost`, unless that is more than `tolerance` ahead of the rate; whether it may be used.
    pub fn take(&mut self, now: Instant, cost: Duration, tolerance: Duration) -> bool {
        let at = self.0.filter(|at| *at > now).unwrap_or(now);
        if at.duration_since(now) > tolerance {
            return false;
        }
        self.0 = Some(at + cost);
        true
    }
}

/// The allowances of all.
#[derive(Debug)]
pub struct Allowances<K> {
    /// What one time costs; `None` without a limit.
    cost: Option<Duration>,
    tolerance: Duration,
    by_key: HashMap<K, Allowance>,
    /// Of those that have none of their own.
    others: Allowance,
    swept: Option<Instant>,
}

impl<K: Eq + Hash> Allowances<K> {
    /// `rate` times per second and `burst` at once; rate 0 means no limit.
    pub fn new(rate: u32, burst: u32) -> Allowances<K> {
        let cost = (rate > 0).then(|| Duration::from_secs(1) / rate.max(1));
        Allowances {
            cost,
            tolerance: cost.unwrap_or_default() * burst.saturating_sub(1),
            by_key: HashMap::new(),
            others: Allowance::default(),
            swept: None,
        }
    }

    /// Whether this one may do it now.
    pub fn take(&mut self, key: K, now: Instant) -> bool {
        let Some(cost) = self.cost else { return true };
        let is_due = |at: Instant| now.saturating_duration_since(at) >= SWEEP;
        if self.swept.is_none_or(is_due) {
            self.swept = Some(now);
            self.by_key.retain(|_, one| !one.is_idle(now));
        }
        let is_full = self.by_key.len() >= KEYS && !self.by_key.contains_key(&key);
        let allowance = match is_full {
            true => &mut self.others,
            false => self.by_key.entry(key).or_default(),
        };
        allowance.take(now, cost, self.tolerance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_allowance() {
        let start = Instant::now();
        let mut all = Allowances::new(10, 5);
        let mut taken =
            |key: &'static str, at: Instant| (0..20).filter(|_| all.take(key, at)).count();
        assert_eq!(taken("a", start), 5);
        assert_eq!(taken("b", start), 5);
        assert_eq!(taken("a", start + Duration::from_millis(200)), 2);
        assert_eq!(taken("a", start + Duration::from_secs(60)), 5);
        let mut free = Allowances::new(0, 0);
        assert!((0..1000).all(|_| free.take("a", start)));
    }

    #[test]
    fn a_flood_of_keys_shares_one() {
        let now = Instant::now();
        let mut all = Allowances::new(1, 1);
        assert!((0..KEYS).all(|n| all.take(n, now)));
        let more = (KEYS..KEYS + 100).filter(|n| all.take(*n, now)).count();
        assert_eq!((more, all.by_key.len()), (1, KEYS));
    }
}
