//! The client of a publish port, for the transports other than ZeroMQ.

use crate::client::{Connection, Server};
use crate::poll::Source;
use crate::zmtp::{Event, SocketType};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A subscriber of tcp or ws: it says who it is, and gets publications.
pub struct Subscription {
    connection: Connection,
    waiting: VecDeque<Vec<u8>>,
    lost: Option<io::Error>,
}

impl Subscription {
    /// Starts connecting, and sends `claim`, an envelope, when connected.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn open(server: &Server, claim: &[u8]) -> io::Result<Subscription> {
        let mut connection = Connection::open(server, SocketType::Sub)?;
        connection.claim(claim)?;
        Ok(Subscription {
            connection,
            waiting: VecDeque::new(),
            lost: None,
        })
    }

    /// Ready when [`receive`](Subscription::receive) has something to do; see also
    /// [`has_waiting`](Subscription::has_waiting).
    pub fn source(&self) -> Source<'_> {
        let fd = self.connection.as_fd().as_raw_fd();
        if self.connection.wants_write() {
            Source::writable_fd(fd)
        } else {
            Source::fd(fd)
        }
    }

    /// Whether [`receive`](Subscription::receive) would return something at once.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether it is connected and has said who it is.
    pub fn is_ready(&self) -> bool {
        self.connection.is_ready() && !self.connection.wants_write()
    }

    /// Why the connection has ended, if it has.
    pub fn lost(&self) -> Option<&io::Error> {
        self.lost.as_ref()
    }

    /// The next publication, if there is one.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        if self.waiting.is_empty() {
            self.advance();
        }
        self.waiting.pop_front()
    }

    /// Writes and reads without blocking.
    pub fn advance(&mut self) {
        let waiting = &mut self.waiting;
        if self.lost.is_none() {
            let read = self.connection.step(&mut |event| {
                if let Event::Message(frames) = event {
                    waiting.extend(frames);
                }
            });
            self.lost = read.err();
        }
    }
}
