//! One connection: non-blocking reads and writes.

use crate::wire::{Decoder, FrameError};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Bytes read from one connection before the others get their turn.
const TURN: usize = 256 << 10;
/// How long a peer may take to read what is still queued and to close its own side.
const FAREWELL: Duration = Duration::from_secs(2);

/// A connection.
pub(super) struct Peer {
    /// The socket, for the poll.
    pub stream: TcpStream,
    /// The peer's address.
    pub address: IpAddr,
    /// Whether the poll waits for room to write.
    pub blocked: bool,
    decoder: Decoder,
    /// When the incomplete frame being read began.
    begun: Option<Instant>,
    out: Vec<u8>,
    sent: usize,
    closing: Option<Closing>,
}

struct Closing {
    due: Instant,
    shut: bool,
}

/// Result of reading.
#[derive(Debug, PartialEq)]
pub(super) enum Input {
    /// The connection is still open.
    Open,
    /// The connection is closed or broken.
    Ended,
    /// A frame is over the limit.
    TooLong(FrameError),
}

impl Peer {
    /// A connection just accepted.
    pub fn new(stream: TcpStream, address: IpAddr, max_frame: usize) -> Peer {
        Peer {
            stream,
            address,
            blocked: false,
            decoder: Decoder::new(max_frame),
            begun: None,
            out: Vec::new(),
            sent: 0,
            closing: None,
        }
    }

    /// Accepts frames of up to `max_frame` bytes from now on.
    pub fn allow(&mut self, max_frame: usize) {
        self.decoder.set_limit(max_frame);
    }

    /// Reads what is there, about [`TURN`] bytes at most; complete bodies go to `each`.
    pub fn read(&mut self, buffer: &mut [u8], now: Instant, each: &mut Vec<Vec<u8>>) -> Input {
        let mut taken = 0;
        while taken < TURN {
            let count = match self.stream.read(buffer) {
                Ok(0) => return Input::Ended,
                Ok(count) => count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Input::Ended,
            };
            taken += count;
            if self.closing.is_some() {
                continue;
            }
            self.decoder.push(&buffer[..count]);
            loop {
                match self.decoder.next_body() {
                    Ok(Some(body)) => {
                        each.push(body.to_vec());
                        self.begun = None;
                    }
                    Ok(None) => break,
                    Err(e) => return Input::TooLong(e),
                }
            }
            match self.decoder.pending() {
                0 => self.begun = None,
                _ => self.begun = self.begun.or(Some(now)),
            }
        }
        Input::Open
    }

    /// Queues a frame; `false` if more than `limit` bytes would be queued: the frame is dropped.
    pub fn queue(&mut self, frame: &[u8], limit: usize) -> bool {
        if self.closing.is_some() {
            return true;
        }
        let waiting = self.out.len() - self.sent;
        if waiting > 0 && waiting + frame.len() > limit {
            return false;
        }
        self.out.extend_from_slice(frame);
        true
    }

    /// Writes as much as possible; `false` if the connection is broken.
    pub fn flush(&mut self) -> bool {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return false,
                Ok(count) => self.sent += count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        if self.sent == self.out.len() {
            // An idle connection keeps no buffer.
            self.out = Vec::new();
            self.sent = 0;
        } else if self.sent > (1 << 20) {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        if let Some(closing) = &mut self.closing
            && self.sent == self.out.len()
            && !closing.shut
        {
            // If unread input is left, closing at once would reset the connection and discard what the peer has not
            // read yet.
            closing.shut = true;
            return self.stream.shutdown(Shutdown::Write).is_ok();
        }
        true
    }

    /// Whether data is waiting to be written.
    pub fn waits(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Closes the connection once everything is written.
    pub fn close(&mut self, now: Instant) {
        self.closing.get_or_insert(Closing {
            due: now + FAREWELL,
            shut: false,
        });
    }

    /// Whether to drop the connection now: its time to close is up, or the rest of a frame has not arrived within
    /// `patience`.
    pub fn overdue(&self, now: Instant, patience: Duration) -> bool {
        let late = |begun: Instant| now.duration_since(begun) >= patience;
        self.closing.as_ref().is_some_and(|c| c.due <= now) || self.begun.is_some_and(late)
    }
}
