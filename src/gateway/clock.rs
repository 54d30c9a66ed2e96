//! What time it is, for what decides without looking at a clock.

use halite_sys::time::unix_now_i64;
use std::time::{Duration, Instant};

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// For waiting.
    pub at: Instant,
    /// Seconds since 1970, as messages tell it.
    pub unix: i64,
}

impl Clock {
    /// Now.
    pub fn now() -> Clock {
        Clock {
            at: Instant::now(),
            unix: unix_now_i64(),
        }
    }

    /// So much later.
    pub fn after(self, time: Duration) -> Clock {
        Clock {
            at: self.at + time,
            unix: self.unix + i64::try_from(time.as_secs()).unwrap_or(0),
        }
    }

    /// Whether so much time has passed since then.
    pub fn is_past(self, since: Instant, time: Duration) -> bool {
        self.at.duration_since(since) >= time
    }
}
