//! Listening sockets that pause while the system is out of resources.

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long accepting is suspended after the system ran out of descriptors or memory.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// A listening socket.
pub(super) struct Acceptor<L> {
    /// Its token in the epoll set.
    pub token: u64,
    /// The socket.
    pub listener: L,
    /// Accepting is suspended until this time.
    pub closed_until: Option<Instant>,
}

impl<L: AsFd> Acceptor<L> {
    /// An acceptor that is open; `listener` is already in the epoll set.
    pub fn new(token: u64, listener: L) -> Acceptor<L> {
        Acceptor {
            token,
            listener,
            closed_until: None,
        }
    }

    /// The next pending connection ([`next`]).
    ///
    /// # Errors
    /// As [`next`].
    pub fn next<C>(
        &self,
        tries: &mut usize,
        accept: impl Fn(&L) -> io::Result<C>,
    ) -> io::Result<Option<C>> {
        next(&self.listener, tries, accept)
    }

    /// Resumes or suspends accepting; the caller must resume it at `closed_until`.
    pub fn set_open(&mut self, open: bool, epoll: &Epoll) {
        let flags = if open {
            EpollFlags::EPOLLIN
        } else {
            EpollFlags::empty()
        };
        let mut event = EpollEvent::new(flags, self.token);
        // If even this fails, it is tried again after the pause.
        let done = epoll.modify(&self.listener, &mut event).is_ok();
        self.closed_until = (!open || !done).then(|| Instant::now() + PAUSE);
    }
}

/// The next pending connection, by `accept`; `None` if there is none or `tries` is 0. Each call of `accept` uses a try.
///
/// # Errors
/// The system is out of descriptors or memory. Suspend accepting for a while ([`PAUSE`]): the listener would be reported as
/// ready again and again.
pub(super) fn next<L, C>(
    listener: &L,
    tries: &mut usize,
    accept: impl Fn(&L) -> io::Result<C>,
) -> io::Result<Option<C>> {
    while *tries > 0 {
        *tries -= 1;
        match accept(listener) {
            Ok(connection) => return Ok(Some(connection)),
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                _ => return Err(e),
            },
        }
    }
    Ok(None)
}
