//! The way in: listening sockets, and how often to say that somebody was kept out.

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Time without accepting after the system ran out of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(250);
/// Time between log lines of one kind.
pub(super) const REPORT: Duration = Duration::from_secs(60);

/// A listening socket.
pub(super) struct Door {
    pub token: u64,
    pub listener: UnixListener,
    /// Accepting is suspended until then.
    pub closed_until: Option<Instant>,
}

impl Door {
    pub fn new(token: u64, listener: UnixListener) -> Door {
        Door {
            token,
            listener,
            closed_until: None,
        }
    }

    /// Opens or shuts the door; a shut one is to be opened again at `closed_until`.
    pub fn set(&mut self, open: bool, epoll: &Epoll) {
        let flags = if open {
            EpollFlags::EPOLLIN
        } else {
            EpollFlags::empty()
        };
        let mut event = EpollEvent::new(flags, self.token);
        // Should even this fail, it is tried again after the pause.
        let done = epoll.modify(&self.listener, &mut event).is_ok();
        self.closed_until = (!open || !done).then(|| Instant::now() + PAUSE);
    }
}

/// Lets one message through per minute and counts those it holds back.
#[derive(Default)]
pub(super) struct Throttle {
    last: Option<Instant>,
    held: u64,
}

impl Throttle {
    /// How many there were since the last message, when one is due now.
    pub fn tick(&mut self) -> Option<u64> {
        self.held += 1;
        if self.last.is_some_and(|t| t.elapsed() < REPORT) {
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_minute_counts_the_rest() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.tick(), Some(1));
        assert_eq!((throttle.tick(), throttle.tick()), (None, None));
        throttle.last = Instant::now().checked_sub(REPORT);
        assert_eq!(throttle.tick(), Some(3));
    }
}
