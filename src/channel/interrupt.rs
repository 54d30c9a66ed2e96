//! What ends a wait for a master early: the end of the process, and news that make waiting pointless.

use halite_sys::signals::StopFlag;
use halite_transport::poll::Source;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What ends a wait early: the end of the process. Nobody reads from the stream, so that
/// clones in any number of threads see it.
#[derive(Clone, Debug)]
pub struct Stop {
    flag: StopFlag,
    stream: Arc<UnixStream>,
    /// Keeps the stream silent where no signal is watched.
    _other_end: Option<Arc<UnixStream>>,
}

impl Stop {
    /// Watches a flag. Clone the result rather than call this again: it stays registered for ever.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn of(flag: &StopFlag) -> io::Result<Stop> {
        Ok(Stop {
            flag: flag.clone(),
            stream: Arc::new(flag.descriptor()?),
            _other_end: None,
        })
    }

    /// Never stops a wait: signals keep their usual effect on the process.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn never() -> io::Result<Stop> {
        let (stream, other) = UnixStream::pair()?;
        Ok(Stop {
            flag: StopFlag::default(),
            stream: Arc::new(stream),
            _other_end: Some(Arc::new(other)),
        })
    }

    /// Whether it is time to end.
    pub fn is_set(&self) -> bool {
        self.flag.is_set()
    }

    /// What wakes a poll when it is time to end.
    pub fn source(&self) -> Source<'_> {
        Source::fd(self.stream.as_raw_fd())
    }

    /// Sleeps; `false` if it is time to end.
    pub fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.is_set() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
            let millis = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            // A signal interrupts it, which the loop sees.
            let _ = poll(&mut fds, PollTimeout::from(millis));
        }
        false
    }
}

/// Wakes somebody who waits for an answer.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// A new one.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new() -> io::Result<Waker> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Waker(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Wakes.
    pub fn wake(&self) {
        // Fails only when it is awake already.
        let _ = self.0.write(1);
    }

    /// A way to wake that does not keep its descriptor open when nobody waits there any more.
    pub fn distant(&self) -> WeakWaker {
        WeakWaker(Arc::downgrade(&self.0))
    }

    /// For [`Poller`](halite_transport::poll::Poller).
    pub fn source(&self) -> Source<'_> {
        Source::fd(self.0.as_fd().as_raw_fd())
    }

    /// Takes the mark away; whether there was one.
    pub fn take(&self) -> bool {
        self.0.read().is_ok()
    }
}

/// Wakes somebody who may be gone.
#[derive(Clone, Debug)]
pub struct WeakWaker(Weak<EventFd>);

impl WeakWaker {
    /// Wakes; `false` if there is nobody any more.
    pub fn wake(&self) -> bool {
        let there = self.0.upgrade().map(Waker);
        there.inspect(Waker::wake).is_some()
    }

    /// Whether somebody is there.
    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_gone_is_not_woken() {
        let wake = Waker::new().unwrap();
        let distant = wake.distant();
        assert!(distant.wake() && wake.take());
        drop(wake);
        assert!(!distant.wake() && !distant.is_there());
    }
}
