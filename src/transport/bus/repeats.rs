//! Events that are delivered once, although several senders may fire them.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Tags that are remembered: the returns of some minutes on a busy master. Each takes about 25 bytes.
const MOST: usize = 1 << 16;

/// The last tags of such events, by a hash with a random key.
#[derive(Default)]
pub(super) struct Repeats {
    keys: RandomState,
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Repeats {
    /// Whether an event with this tag has come before. It is remembered now.
    pub fn has(&mut self, tag: &str) -> bool {
        let hash = self.keys.hash_one(tag);
        if !self.known.insert(hash) {
            return true;
        }
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(hash);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tags_are_known() {
        let mut repeats = Repeats::default();
        let tag = |n: usize| n.to_string();
        for n in 0..=MOST {
            assert!(!repeats.has(&tag(n)), "{n}");
            assert!(repeats.has(&tag(n)), "{n}");
        }
        assert!(!repeats.has(&tag(0)), "the oldest is forgotten");
        assert!(repeats.has(&tag(2)));
        assert_eq!((repeats.known.len(), repeats.order.len()), (MOST, MOST));
    }
}
