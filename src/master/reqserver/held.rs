//! Answers to returns that wait until the servers of the cluster have what they acknowledge.
//!
//! The worker is free meanwhile. The role `cluster` tells which groups are stored; after `patience`, answers go out all the
//! same (`acknowledge: local`) or not at all (`quorum`), so that their minions send again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Most answers that wait; beyond this, the oldest ones do not wait any longer.
const MOST: usize = 65_536;
/// Most groups that are remembered because they were stored before the worker has told of them.
const MOST_EARLY: usize = 1024;

struct Group<T> {
    until: Instant,
    answers: Vec<T>,
}

/// Groups of answers by the number of the group.
pub(super) struct HeldAnswers<T> {
    patience: Duration,
    groups: HashMap<u64, Group<T>>,
    order: VecDeque<u64>,
    early: (HashSet<u64>, VecDeque<u64>),
    count: usize,
}

impl<T> HeldAnswers<T> {
    pub fn new(patience: Duration) -> HeldAnswers<T> {
        HeldAnswers {
            patience,
            groups: HashMap::new(),
            order: VecDeque::new(),
            early: Default::default(),
            count: 0,
        }
    }

    /// Number of answers that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds a group; gives it back if it is stored already.
    pub fn hold(&mut self, number: u64, answers: Vec<T>, now: Instant) -> Option<Vec<T>> {
        if self.early.0.remove(&number) {
            return Some(answers);
        }
        self.count += answers.len();
        let until = now + self.patience;
        self.groups.insert(number, Group { until, answers });
        self.order.push_back(number);
        None
    }

    /// A group is stored: its answers.
    pub fn stored(&mut self, number: u64) -> Vec<T> {
        if let Some(answers) = self.take(number) {
            return answers;
        }
        // Its worker's message is still on its way, or it has waited too long.
        let (known, order) = &mut self.early;
        if known.insert(number) {
            order.push_back(number);
        }
        while order.len() > MOST_EARLY {
            order.pop_front().map(|oldest| known.remove(&oldest));
        }
        Vec::new()
    }

    /// The answers that have waited long enough.
    pub fn expired(&mut self, now: Instant) -> Vec<T> {
        let mut out = Vec::new();
        while let Some(number) = self.order.front() {
            let group = self.groups.get(number);
            if group.is_some_and(|group| group.until > now) && self.count <= MOST {
                break;
            }
            let number = *number;
            self.order.pop_front();
            out.extend(self.take(number).unwrap_or_default());
        }
        out
    }

    fn take(&mut self, number: u64) -> Option<Vec<T>> {
        let group = self.groups.remove(&number)?;
        self.count -= group.answers.len();
        Some(group.answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    #[test]
    fn answers_wait_until_they_are_stored_or_too_old() {
        let now = Instant::now();
        let mut held = HeldAnswers::new(PATIENCE);
        assert_eq!(held.hold(1, vec!["a", "b"], now), None);
        assert_eq!(held.hold(2, vec!["c"], now + PATIENCE / 2), None);
        assert_eq!(held.len(), 3);
        assert!(held.expired(now + PATIENCE / 2).is_empty());
        assert_eq!(held.stored(2), ["c"]);
        assert_eq!(held.expired(now + PATIENCE), ["a", "b"]);
        assert_eq!(held.len(), 0);
        assert!(held.expired(now + 2 * PATIENCE).is_empty());
    }

    #[test]
    fn what_is_stored_before_it_is_here_does_not_wait() {
        let now = Instant::now();
        let mut held = HeldAnswers::new(PATIENCE);
        assert!(held.stored(7).is_empty());
        assert_eq!(held.hold(7, vec!["a"], now), Some(vec!["a"]));
        assert_eq!(held.hold(8, vec!["b"], now), None);
    }

    #[test]
    fn what_waits_is_bounded() {
        let now = Instant::now();
        let mut held = HeldAnswers::new(PATIENCE);
        for number in 0..=MOST as u64 {
            assert_eq!(held.hold(number, vec![number], now), None);
        }
        assert_eq!(held.expired(now), [0]);
        (0..2 * MOST_EARLY as u64).for_each(|n| drop(held.stored(u64::MAX - n)));
        assert_eq!(held.early.0.len(), MOST_EARLY);
    }
}
