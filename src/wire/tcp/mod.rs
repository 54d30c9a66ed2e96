//! Frames of Salt's TCP transport: msgpack maps `{head, body}` that follow each other without a length
//! (`salt/transport/tcp.py`, `salt/transport/frame.py`; reference `salt-transports.md` 1). No IO.
//!
//! Readers take octets of any msgpack string type, so a body that is packed for ZeroMQ is sent as it is.

use crate::budget;
use crate::incomplete::Incomplete;
use crate::msgpack::{self, DecodeError, Fields, Profile, Reader};
use crate::{Spoken, Transport};
use std::fmt;
use std::ops::Range;

/// Most values in a frame. Requests and replies have few, as what is encrypted is one; a clear load may have as many as any
/// document.
const MAX_VALUES: usize = budget::MAX_VALUES + 64;

/// `{"head": …`
const START: &[u8] = b"\x82\xa4head";
/// `, "body": …`
const BODY: &[u8] = b"\xa4body";

/// Why a peer does not speak the TCP transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpError {
    /// It does not start with a map; holds what it looks like.
    NotAFrame(Spoken),
    /// A frame is larger than allowed.
    TooLarge,
    /// A frame is malformed or nested too deeply.
    Malformed(DecodeError),
    /// A frame without head or body.
    Incomplete,
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            TcpError::NotAFrame(spoken) => spoken.refusal(Transport::Tcp),
            TcpError::TooLarge => "a frame is too large",
            TcpError::Malformed(e) => return e.fmt(f),
            TcpError::Incomplete => "a frame has no head or no body",
        })
    }
}

impl std::error::Error for TcpError {}

impl From<DecodeError> for TcpError {
    fn from(e: DecodeError) -> TcpError {
        TcpError::Malformed(e)
    }
}

/// A frame; both parts are msgpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What a reply repeats.
    pub head: &'a [u8],
    /// The message.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads one whole frame.
    ///
    /// # Errors
    /// [`TcpError::Malformed`] or [`TcpError::Incomplete`].
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, TcpError> {
        let mut fields: Fields = msgpack::fields(bytes)?;
        let (mut head, mut body) = (None, None);
        for field in fields.by_ref() {
            match field? {
                ("head", value) => head = Some(value),
                ("body", value) => body = Some(value),
                _ => {}
            }
        }
        match (head, body) {
            (Some(head), Some(body)) => Ok(Frame { head, body }),
            _ => Err(TcpError::Incomplete),
        }
    }
}

/// Finds the end of a msgpack value that arrives in pieces, without reading any byte twice.
#[derive(Debug)]
struct Scanner {
    /// Bytes that belong to it for certain.
    at: usize,
    /// Values that still have to begin.
    left: usize,
    /// Values that have begun.
    begun: usize,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner {
            at: 0,
            left: 1,
            begun: 0,
        }
    }
}

impl Scanner {
    /// The length of the value at the start of `bytes`, once that is complete. Call it again with more bytes.
    fn end(&mut self, bytes: &[u8], max: usize) -> Result<Option<usize>, TcpError> {
        while self.left > 0 {
            let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) else {
                return Ok(None);
            };
            let Some((length, children)) = msgpack::extent(rest)? else {
                return Ok(None);
            };
            self.at = self.at.saturating_add(length);
            self.left = (self.left - 1).saturating_add(children);
            self.begun += 1;
            // Each value has at least one byte.
            if self.at.saturating_add(self.left) > max
                || self.begun.saturating_add(self.left) > MAX_VALUES
            {
                return Err(TcpError::TooLarge);
            }
        }
        Ok((self.at <= bytes.len()).then_some(self.at))
    }
}

/// Decodes a stream of frames. Buffers at most one incomplete frame.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    rest: Incomplete,
    scanner: Scanner,
}

impl FrameDecoder {
    /// Bytes of the incomplete frame that are held.
    pub fn held(&self) -> usize {
        self.rest.len()
    }

    /// Decodes bytes and passes each frame that they complete to `take`. A frame has at most `max` bytes.
    ///
    /// # Errors
    /// The peer does not speak this protocol; no more may be decoded.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        max: usize,
        mut take: impl FnMut(Frame),
    ) -> Result<(), TcpError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.feed(bytes, |bytes| self.frames(bytes, max, &mut take))?;
        self.rest = rest;
        Ok(())
    }

    /// Returns the number of bytes consumed.
    fn frames(
        &mut self,
        bytes: &[u8],
        max: usize,
        take: &mut impl FnMut(Frame),
    ) -> Result<usize, TcpError> {
        let mut used = 0;
        loop {
            let left = bytes.get(used..).unwrap_or_default();
            match left.first() {
                None => return Ok(used),
                Some(first) => match Spoken::of(*first) {
                    Spoken::Tcp => {}
                    other => return Err(TcpError::NotAFrame(other)),
                },
            }
            let Some(length) = self.scanner.end(left, max)? else {
                return Ok(used);
            };
            self.scanner = Scanner::default();
            take(Frame::parse(left.get(..length).unwrap_or_default())?);
            used += length;
        }
    }
}

/// What precedes `body` in a frame with that head, which is msgpack. The frame ends with the body.
pub fn frame_start(head: &[u8]) -> Vec<u8> {
    [START, head, BODY].concat()
}

/// A request: the head has `mid`, 36 characters, which the reply repeats.
pub fn request(mid: &str, body: &[u8]) -> Vec<u8> {
    let mut head = vec![0x81];
    msgpack::put_str(&mut head, b"mid", Profile::Local);
    msgpack::put_str(&mut head, mid.as_bytes(), Profile::Local);
    let mut frame = frame_start(&head);
    frame.extend_from_slice(body);
    frame
}

/// The `mid` of a head.
pub fn mid(head: &[u8]) -> Option<&str> {
    let mut fields = msgpack::fields(head).ok()?;
    fields.find_map(|field| match field {
        Ok(("mid", value)) => Reader::new(value).item().ok()?.text(),
        _ => None,
    })
}

/// A publication or an id frame: `body` is msgpack.
pub fn message(body: &[u8]) -> Vec<u8> {
    let mut frame = frame_start(b"\x80");
    frame.extend_from_slice(body);
    frame
}

/// A publication as 3007 and 3008 send it: its body is binary data that holds msgpack. Minions of all series read it.
pub fn publication(message: &[u8]) -> Vec<u8> {
    let mut frame = frame_start(b"\x80");
    msgpack::put_bin_header(&mut frame, message.len());
    frame.extend_from_slice(message);
    frame
}

/// The msgpack of a publication, from the body of its frame: 3006 does not wrap it.
pub fn unwrapped(body: &[u8]) -> Range<usize> {
    let mut reader = Reader::new(body);
    match reader.item() {
        Ok(msgpack::Item::Bin(inner) | msgpack::Item::Str(inner)) => {
            let end = body.len() - reader.rest().len();
            end - inner.len()..end
        }
        _ => 0..body.len(),
    }
}

#[cfg(test)]
mod tests;
