//! The way in: listening sockets that rest when the system has no room.

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Time without accepting after the system ran out of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(250);

/// A listening socket.
pub(super) struct Acceptor<L> {
    /// What stands for it in the set of `epoll`.
    pub token: u64,
    /// The socket.
    pub listener: L,
    /// Accepting is suspended until then.
    pub closed_until: Option<Instant>,
}

impl<L: AsFd> Acceptor<L> {
    /// A door that is open; `listener` is in the set already.
    pub fn new(token: u64, listener: L) -> Acceptor<L> {
        Acceptor {
            token,
            listener,
            closed_until: None,
        }
    }

    /// The next connection that waits, by `accept`; `None` if there is none, or `tries` are used up: each look takes one.
    ///
    /// # Errors
    /// The system is out of descriptors or memory: the door is to be shut for a while, for it would be reported as ready
    /// over and over again.
    pub fn next<C>(
        &self,
        tries: &mut usize,
        accept: impl Fn(&L) -> io::Result<C>,
    ) -> io::Result<Option<C>> {
        while *tries > 0 {
            *tries -= 1;
            match accept(&self.listener) {
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
