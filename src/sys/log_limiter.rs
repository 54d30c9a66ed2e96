//! How often to say the same thing in the log.

use std::time::{Duration, Instant};

/// Time between log lines of one kind.
pub const MINUTE: Duration = Duration::from_secs(60);

/// Counts what happens, and says once a minute how often it did: at once for the first time, then
/// for all that came since the last line.
#[derive(Debug, Default)]
pub struct LogLimiter {
    last: Option<Instant>,
    held: u64,
}

impl LogLimiter {
    /// Counts one more; how many there were since the last line, if a line is due.
    pub fn tick(&mut self, now: Instant) -> Option<u64> {
        self.add(1);
        self.due(now)
    }

    /// Counts some more, of which a line may tell later.
    pub fn add(&mut self, count: u64) {
        self.held += count;
    }

    /// How many there were since the last line, if there were any and a line is due.
    pub fn due(&mut self, now: Instant) -> Option<u64> {
        let early = self.last.is_some_and(|last| now < last + MINUTE);
        if early || self.held == 0 {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_counts_the_rest() {
        let mut minutely = LogLimiter::default();
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(minutely.due(now), None);
        assert_eq!(minutely.tick(now), Some(1));
        assert_eq!((minutely.tick(at(1)), minutely.tick(at(59))), (None, None));
        minutely.add(5);
        assert_eq!(minutely.due(at(60)), Some(7));
        assert_eq!(minutely.due(at(600)), None);
        assert_eq!(minutely.tick(at(601)), Some(1));
    }
}
