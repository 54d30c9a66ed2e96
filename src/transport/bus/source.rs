//! One sender.

use super::counters::{Counters, add};
use crate::wire::msgpack::Reader;
use halite_ipc::{Decoder, FrameError, MAX_TAG};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

/// A connection to the pull socket.
#[derive(Debug)]
pub(super) struct Source {
    pub stream: UnixStream,
    pub pid: i32,
    decoder: Decoder,
}

/// How a turn of reading ended.
#[derive(Debug)]
pub(super) enum Turn {
    /// There may be more later.
    Open,
    /// The sender has hung up.
    Done,
    /// The stream is no stream of frames.
    Bad(FrameError),
    /// The connection failed.
    Failed(io::Error),
}

impl Source {
    pub fn new(stream: UnixStream, pid: i32, max_frame: usize) -> Source {
        Source {
            stream,
            pid,
            decoder: Decoder::new(max_frame),
        }
    }

    /// Whether the sender hung up in the middle of a frame.
    pub fn torn(&self) -> bool {
        self.decoder.in_frame()
    }

    /// Reads one buffer full at the most, so that every sender has its turn, and
    /// hands each event body to `take`.
    pub fn turn(
        &mut self,
        chunk: &mut [u8],
        max_event_size: usize,
        counters: &Counters,
        mut take: impl FnMut(&[u8]),
    ) -> Turn {
        let n = match (&self.stream).read(chunk) {
            Ok(0) => return Turn::Done,
            Ok(n) => n,
            Err(e) => {
                return match e.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Turn::Open,
                    io::ErrorKind::ConnectionReset => Turn::Done,
                    _ => Turn::Failed(e),
                };
            }
        };
        self.decoder.push(&chunk[..n]);
        loop {
            let body = match self.decoder.next_body() {
                Ok(Some(body)) => body,
                Ok(None) => return Turn::Open,
                Err(e) => return Turn::Bad(e),
            };
            match check(body, max_event_size) {
                Ok(()) => {
                    add(&counters.events_in, 1);
                    take(body);
                }
                Err(Defect::TooLarge) => add(&counters.oversized, 1),
                Err(Defect::Malformed) => add(&counters.bad_events, 1),
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    TooLarge,
    Malformed,
}

/// Whether listeners can be expected to read this body: a stock one ends on anything else.
pub(super) fn check(body: &[u8], max_event_size: usize) -> Result<(), Defect> {
    let window = &body[..body.len().min(MAX_TAG + 2)];
    let end = window
        .windows(2)
        .position(|w| w == b"\n\n")
        .ok_or(Defect::Malformed)?;
    let (tag, data) = (&body[..end], &body[end + 2..]);
    if tag.is_empty() || std::str::from_utf8(tag).is_err() {
        return Err(Defect::Malformed);
    }
    if data.len() > max_event_size {
        return Err(Defect::TooLarge);
    }
    let is_map = matches!(data.first(), Some(0x80..=0x8f | 0xde | 0xdf));
    let mut reader = Reader::new(data);
    if !is_map || reader.skip().is_err() || !reader.rest().is_empty() {
        return Err(Defect::Malformed);
    }
    Ok(())
}
