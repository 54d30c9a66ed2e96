//! What interrupts a wait for a master: the process must stop, or new keys make waiting pointless.

use halite_sys::signals::StopFlag;
use halite_transport::poll::Source;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The signal that the process must stop; it interrupts waits. The stream is never read, so that
/// clones in any number of threads see the signal.
#[derive(Clone, Debug)]
pub struct Stop {
    flag: StopFlag,
    stream: Arc<UnixStream>,
    /// Keeps the stream open, and thus unreadable, if no signal is watched.
    _other_end: Option<Arc<UnixStream>>,
}

impl Stop {
    /// Watches a flag. Clone the result instead of calling this again: the registration is permanent.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn of(flag: &StopFlag) -> io::Result<Stop> {
        Ok(Stop {
            flag: flag.clone(),
            stream: Arc::new(flag.descriptor()?),
            _other_end: None,
        })
    }

    /// A stop signal that is never set: signals keep their usual effect on the process.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn never() -> io::Result<Stop> {
        let (stream, other) = UnixStream::pair()?;
        Ok(Stop {
            flag: StopFlag::default(),
            stream: Arc::new(stream),
            _other_end: Some(Arc::new(other)),
        })
    }

    /// Whether the process must stop.
    pub fn is_set(&self) -> bool {
        self.flag.is_set()
    }

    /// For [`Poller`](halite_transport::poll::Poller): readable when the process must stop.
    pub fn source(&self) -> Source<'_> {
        Source::fd(self.stream.as_raw_fd())
    }

    /// Sleeps; `false` if the process must stop.
    pub fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_set() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
            let millis = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            // The loop handles interruption by a signal.
            let _ = poll(&mut fds, PollTimeout::from(millis));
        }
        false
    }
}

/// Wakes a thread that waits for a reply.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// Creates a waker.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> io::Result<Waker> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Waker(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        // Fails only if it is already awake.
        let _ = self.0.write(1);
    }

    /// A weak reference, which does not keep the descriptor open.
    pub fn downgrade(&self) -> WeakWaker {
        WeakWaker(Arc::downgrade(&self.0))
    }

    /// For [`Poller`](halite_transport::poll::Poller).
    pub fn source(&self) -> Source<'_> {
        Source::fd(self.0.as_fd().as_raw_fd())
    }

    /// Resets the waker; returns whether it had been woken.
    pub fn take(&self) -> bool {
        self.0.read().is_ok()
    }
}

/// Wakes a thread if its [`Waker`] still exists.
#[derive(Clone, Debug)]
pub struct WeakWaker(Weak<EventFd>);

impl WeakWaker {
    /// Wakes the thread; `false` if the waker is gone.
    pub fn wake(&self) -> bool {
        let there = self.0.upgrade().map(Waker);
        there.inspect(Waker::wake).is_some()
    }

    /// Whether the waker still exists.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_gone_is_not_woken() {
        let wake = Waker::new().unwrap();
        let downgrade = wake.downgrade();
        assert!(downgrade.wake() && wake.take());
        drop(wake);
        assert!(!downgrade.wake() && !downgrade.is_alive());
    }
}
