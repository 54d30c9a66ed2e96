//! Subscribers that are being sent away, a few at a time, so that they come to other masters one after the other.

use std::time::{Duration, Instant};

/// How it is going.
pub(super) struct Drain {
    began: Instant,
    within: Duration,
    /// How many there were.
    count: usize,
}

impl Drain {
    /// `count` subscribers are to go within this time.
    pub fn new(began: Instant, within: Duration, count: usize) -> Drain {
        Drain {
            began,
            within,
            count,
        }
    }

    /// How many of them may stay for now.
    pub fn stay(&self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.began).as_secs_f64();
        let within = self.within.as_secs_f64();
        match passed < within {
            true => (self.count as f64 * (1.0 - passed / within)) as usize,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_go_bit_by_bit() {
        let began = Instant::now();
        let drain = Drain::new(began, Duration::from_secs(10), 1000);
        let stay = |seconds| drain.stay(began + Duration::from_secs(seconds));
        assert_eq!(
            [stay(0), stay(1), stay(5), stay(10), stay(11)],
            [1000, 900, 500, 0, 0]
        );
        assert_eq!(Drain::new(began, Duration::ZERO, 3).stay(began), 0);
    }
}
