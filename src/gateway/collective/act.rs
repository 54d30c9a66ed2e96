//! What the outward half asks the loop to do, and what time it is for both.

use crate::gateway::clerk::Task;
use crate::master::score::unix_now;
use crate::transport::collective::To;
use crate::wire::collective::Request;
use std::time::{Duration, Instant};

/// Something to be done, in the order in which it was decided.
#[derive(Debug)]
pub(super) enum Act {
    /// Send a request of our own.
    Ask(To, Box<Request>),
    /// Give the clerk something to write.
    Write(Task),
}

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
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
            unix: i64::try_from(unix_now()).unwrap_or(i64::MAX),
        }
    }

    /// So much later.
    #[cfg(test)]
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
