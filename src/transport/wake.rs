//! Wakes a thread that waits for sockets.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest wait between checks of the clock.
pub const TICK: Duration = Duration::from_secs(1);

/// The end that wakes the other.
pub struct Waker(UnixStream);

/// The end that is woken; for the waiting thread.
pub struct Woken(UnixStream);

/// Creates both ends.
pub fn pair() -> io::Result<(Waker, Woken)> {
    let (wake, woken) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    Ok((Waker(wake), Woken(woken)))
}

impl AsFd for Woken {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Waker {
    /// Another one for the same thread.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn try_clone(&self) -> io::Result<Waker> {
        Ok(Waker(self.0.try_clone()?))
    }

    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        // A full socket wakes as well.
        let _ = (&self.0).write(&[1]);
    }
}

impl Woken {
    /// Waits until the socket is ready for the requested events, until woken, or until the time limit.
    pub fn wait(
        &self,
        socket: Option<(&dyn AsFd, PollFlags)>,
        limit: Duration,
    ) -> Result<(), String> {
        let mut ready = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if let Some((socket, wants)) = socket {
            ready.push(PollFd::new(socket.as_fd(), wants));
        }
        // Round up, so as not to return too early.
        let limit = match limit.is_zero() {
            true => PollTimeout::ZERO,
            false => {
                PollTimeout::try_from(limit + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            }
        };
        match poll(&mut ready, limit) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(format!("poll: {e}")),
        }
        self.drain();
        Ok(())
    }

    /// Takes what has woken it; returns whether the other end is still there.
    pub fn drain(&self) -> bool {
        let mut bytes = [0; 256];
        loop {
            match (&self.0).read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
    }

    /// Pauses between two connections, until `over` returns true at the latest; calls `beat` at least every [`TICK`].
    pub fn pause(&self, pause: Duration, over: &dyn Fn() -> bool, beat: &dyn Fn()) {
        let end = Instant::now() + pause;
        while !over() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            beat();
            if self.wait(None, left.min(TICK)).is_err() {
                return;
            }
        }
    }
}
