//! Detects our own broadcasts, which come back if this master's minions are nodes of the collective.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// Number of broadcasts remembered; they come back almost at once.
const REMEMBERED: usize = 256;

/// Recent broadcasts, by a keyed hash, so that nobody outside can construct collisions.
#[derive(Default)]
pub(super) struct Echoes {
    hash: RandomState,
    sent: VecDeque<u64>,
}

impl Echoes {
    /// Records an outgoing message.
    pub fn record(&mut self, message: &[u8]) {
        if self.sent.len() >= REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back(self.hash.hash_one(message));
    }

    /// Whether a received message is one of ours. Checked before its signature, since with plain keys our own
    /// key need not be among those of callers.
    pub fn contains(&self, message: &[u8]) -> bool {
        let hash = self.hash.hash_one(message);
        self.sent.contains(&hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known() {
        let mut echoes = Echoes::default();
        let text = |n: usize| format!("request {n}");
        for n in 0..REMEMBERED + 2 {
            assert!(!echoes.contains(text(n).as_bytes()));
            echoes.record(text(n).as_bytes());
            assert!(echoes.contains(text(n).as_bytes()));
        }
        assert!(!echoes.contains(text(1).as_bytes()));
        assert!(echoes.contains(text(2).as_bytes()));
    }
}
