//! Limits how often the same message is logged.

use std::time::{Duration, Instant};

/// Shortest time between two lines of the same message.
pub const MINUTE: Duration = Duration::from_secs(60);

/// Counts events and says when to log the count: at once for the first event, then at most once a minute for
/// all events since the last line.
#[derive(Debug, Default)]
pub struct LogLimiter {
    last: Option<Instant>,
    held: u64,
}

impl LogLimiter {
    /// Counts one event. Returns the number since the last line if a line is due.
    pub fn tick(&mut self, now: Instant) -> Option<u64> {
        self.add(1);
        self.due(now)
    }

    /// Counts events to be reported by a later line.
    pub fn add(&mut self, count: u64) {
        self.held += count;
    }

    /// The number of events since the last line, if it is not 0 and a line is due.
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
