//! Waking a thread that waits for sockets.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest time without a look at the clock.
pub const TICK: Duration = Duration::from_secs(1);

/// The end that wakes.
pub struct Waker(UnixStream);

/// The end of the thread that waits.
pub struct Woken(UnixStream);

/// Both ends.
pub fn pair() -> io::Result<(Waker, Woken)> {
    let (wake, woken) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    Ok((Waker(wake), Woken(woken)))
}

impl Waker {
    /// Ends the wait of now, or the next one.
    pub fn wake(&self) {
        // A full socket wakes as well.
        let _ = (&self.0).write(&[1]);
    }
}

impl Woken {
    /// Waits until the socket is ready for what is wanted of it, until somebody wakes, or for so long.
    pub fn wait(
        &self,
        socket: Option<(&dyn AsFd, PollFlags)>,
        limit: Duration,
    ) -> Result<(), String> {
        let mut ready = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if let Some((socket, wants)) = socket {
            ready.push(PollFd::new(socket.as_fd(), wants));
        }
        // Not a moment before the time has come.
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
        let mut octets = [0; 256];
        while matches!((&self.0).read(&mut octets), Ok(read) if read > 0) {}
        Ok(())
    }

    /// Rests for so long between two connections, but not when it is over; `beat` is called every [`TICK`] at least.
    pub fn rest(&self, pause: Duration, over: &dyn Fn() -> bool, beat: &dyn Fn()) {
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
