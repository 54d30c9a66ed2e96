//! Own broadcasts, which come back where this master's minions are nodes themselves.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// Broadcasts that are remembered; they come back within moments.
const REMEMBERED: usize = 256;

/// What was broadcast lately, by a hash that nobody outside can aim at.
#[derive(Default)]
pub(super) struct Echoes {
    hash: RandomState,
    sent: VecDeque<u64>,
}

impl Echoes {
    /// A message goes out.
    pub fn sent(&mut self, message: &[u8]) {
        if self.sent.len() >= REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back(self.hash.hash_one(message));
    }

    /// Whether a message that came in is one of those. Said before its signature is looked at, since with plain
    /// keys the own one need not be among those of callers.
    pub fn hear(&self, message: &[u8]) -> bool {
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
            assert!(!echoes.hear(text(n).as_bytes()));
            echoes.sent(text(n).as_bytes());
            assert!(echoes.hear(text(n).as_bytes()));
        }
        assert!(!echoes.hear(text(1).as_bytes()));
        assert!(echoes.hear(text(2).as_bytes()));
    }
}
