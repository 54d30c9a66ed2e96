//! The current time, passed to code that does not read the clock itself.

use halite_sys::time::unix_now_i64;
use std::time::{Duration, Instant};

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// For measuring how long something takes.
    pub at: Instant,
    /// Seconds since 1970, for messages.
    pub unix: i64,
}

impl Clock {
    /// The current time.
    pub fn now() -> Clock {
        Clock {
            at: Instant::now(),
            unix: unix_now_i64(),
        }
    }

    /// This time plus `time`.
    pub fn after(self, time: Duration) -> Clock {
        Clock {
            at: self.at + time,
            unix: self.unix + i64::try_from(time.as_secs()).unwrap_or(0),
        }
    }

    /// Whether `time` has passed since `since`.
    pub fn is_past(self, since: Instant, time: Duration) -> bool {
        self.at.duration_since(since) >= time
    }
}
