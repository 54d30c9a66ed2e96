//! One sender of events.

use halite_ipc::{Decoder, FrameError, split_body};
use halite_wire::msgpack::Reader;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

/// A connection to the pull socket.
#[derive(Debug)]
pub(super) struct Source {
    pub stream: UnixStream,
    pub pid: i32,
    decoder: Decoder,
}

/// The result of reading once.
#[derive(Debug)]
pub(super) enum Turn {
    /// There may be more later.
    Open,
    /// The sender has hung up.
    Closed,
    /// The stream has an invalid frame.
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

    /// Whether the stream ended in the middle of a frame.
    pub fn torn(&self) -> bool {
        self.decoder.in_frame()
    }

    /// Reads at most one buffer, so that every sender gets its turn.
    pub fn fill(&mut self, chunk: &mut [u8]) -> Turn {
        match (&self.stream).read(chunk) {
            Ok(0) => Turn::Closed,
            Ok(n) => {
                self.decoder.push(&chunk[..n]);
                Turn::Open
            }
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Turn::Open,
                io::ErrorKind::ConnectionReset => Turn::Closed,
                _ => Turn::Failed(e),
            },
        }
    }

    /// Passes each complete event body to `take`.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) -> Turn {
        loop {
            match self.decoder.next_body() {
                Ok(Some(body)) => take(body),
                Ok(None) => return Turn::Open,
                Err(e) => return Turn::Bad(e),
            }
        }
    }
}

/// Why an event is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    TooLarge,
    Malformed,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Defect::TooLarge => "an event over max_event_size",
            Defect::Malformed => "something that is not an event (a tag, an empty line and a map)",
        })
    }
}

/// Checks that listeners can read this body: a stock listener stops at anything else. Returns the tag.
pub(super) fn check(body: &[u8], max_event_size: usize) -> Result<&str, Defect> {
    let (tag, data) = split_body(body).map_err(|_| Defect::Malformed)?;
    if data.len() > max_event_size {
        return Err(Defect::TooLarge);
    }
    let mut reader = Reader::new(data);
    if reader.skip().is_err() || !reader.rest().is_empty() {
        return Err(Defect::Malformed);
    }
    Ok(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_pass() {
        let deep = [&b"a\n\n\x81\xa1a"[..], &[0x91; 200], b"\xc0"].concat();
        let large = [&b"a\n\n\x81\xa1a\xda\x01\x2c"[..], &[b'x'; 300]].concat();
        let cases: [(&[u8], Result<(), Defect>); 8] = [
            (b"a\n\n\x81\xa1a\x01", Ok(())),
            (b"a\n\n\x80", Ok(())),
            (b"a\n\n\x81\xa1a", Err(Defect::Malformed)),
            (b"a\n\n\x80\x80", Err(Defect::Malformed)),
            (b"a\n\n\x90", Err(Defect::Malformed)),
            (b"\n\n\x80", Err(Defect::Malformed)),
            (&deep, Err(Defect::Malformed)),
            (&large, Err(Defect::TooLarge)),
        ];
        for (body, want) in cases {
            assert_eq!(check(body, 300).map(drop), want, "{body:x?}");
        }
    }
}
