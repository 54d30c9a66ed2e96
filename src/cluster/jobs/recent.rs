//! Jobs that were just published, for masters that come back: until they can read the stream again, their minions would miss them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// For how long: beyond, a job is too late to be published.
const KEEP: Duration = Duration::from_secs(20);
/// Most messages, and most bytes of them.
const MOST: usize = 1000;
const MOST_BYTES: usize = 16 << 20;

/// Messages of the last seconds.
#[derive(Default)]
pub struct Recent {
    messages: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

impl Recent {
    /// A message was sent.
    pub fn add(&mut self, message: Vec<u8>, now: Instant) {
        self.forget(now);
        self.bytes += message.len();
        self.messages.push_back((now, message));
        while self.messages.len() > MOST || self.bytes > MOST_BYTES {
            self.pop();
        }
    }

    /// All that are to be sent again.
    pub fn all(&mut self, now: Instant) -> impl Iterator<Item = &[u8]> {
        self.forget(now);
        self.messages.iter().map(|(_, message)| message.as_slice())
    }

    fn forget(&mut self, now: Instant) {
        while let Some((at, _)) = self.messages.front()
            && now.saturating_duration_since(*at) >= KEEP
        {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some((_, message)) = self.messages.pop_front() {
            self.bytes -= message.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recent_is_bounded() {
        let start = Instant::now();
        let mut recent = Recent::default();
        recent.add(vec![1], start);
        recent.add(vec![2], start + KEEP / 2);
        assert!(recent.all(start + KEEP / 2).eq([[1], [2]]));
        assert!(recent.all(start + KEEP).eq([[2]]));
        for _ in 0..2 * MOST {
            recent.add(vec![3], start + KEEP);
        }
        assert_eq!(recent.all(start + KEEP).count(), MOST);
        recent.add(vec![4; MOST_BYTES], start + KEEP);
        assert_eq!(recent.all(start + KEEP).count(), 1);
        assert_eq!(recent.all(start + 2 * KEEP).count(), 0);
        assert_eq!(recent.bytes, 0);
    }
}
