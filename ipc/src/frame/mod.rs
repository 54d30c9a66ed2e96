//! The frame around an event on a stream.
//!
//! `{"head": {}, "body": <bin>}` in msgpack, bare or behind a big-endian `u32` length
//! (`salt/transport/frame.py frame_msg` and `frame_msg_ipc`).

use crate::msgpack::{self, BadCode};
use std::fmt;
use std::ops::Range;

/// Largest frame accepted by default, in bytes.
pub const MAX_FRAME: usize = 16 << 20;

/// First byte of every frame without a length: a msgpack map of two pairs.
const BARE: u8 = 0x82;
const PREFIX: usize = 4;
/// The map header, `"head": {}` and the key `"body"`.
const OPENING: &[u8] = b"\x82\xa4head\x80\xa4body";

/// Whether a frame has a length prefix.
///
/// | release | what it expects on its pull socket | what its listeners expect |
/// | --- | --- | --- |
/// | up to 3006.25, 3007.14, 3008.1 | bare | bare |
/// | 3006.26 and later 3006 | prefixed | prefixed |
/// | 3007.15, 3008.2 and later | prefixed | bare |
/// | halite | either | as configured |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// The msgpack map alone.
    Bare,
    /// Four bytes of big-endian length, then the map.
    #[default]
    Prefixed,
}

/// Why reading a stream cannot continue: where the next frame starts is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Neither a bare frame nor a length starts with this byte.
    NotAFrame(u8),
    /// The frame is, or claims to be, longer than the limit.
    TooLarge {
        /// The claimed length, in bytes.
        len: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The frame is not msgpack.
    NotMsgpack,
    /// The frame is not a map with a byte string under `body`.
    NoBody,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            FrameError::NotAFrame(b) => write!(
                f,
                "no event frame starts with 0x{b:02x}; this is not a Salt event socket"
            ),
            FrameError::TooLarge { len, limit } => {
                write!(f, "a frame of {len} bytes is over the limit of {limit}")
            }
            FrameError::NotMsgpack => f.write_str("the frame is not msgpack"),
            FrameError::NoBody => f.write_str("the frame is not a map with a binary body"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<BadCode> for FrameError {
    fn from(_: BadCode) -> FrameError {
        FrameError::NotMsgpack
    }
}

/// The frame around an event body.
pub fn encode(body: &[u8], framing: Framing) -> Vec<u8> {
    encode_parts(&[body], framing)
}

/// The frame around a body given as several slices.
pub(crate) fn encode_parts(parts: &[&[u8]], framing: Framing) -> Vec<u8> {
    let len: usize = parts.iter().map(|p| p.len()).sum();
    let mut out = Vec::with_capacity(PREFIX + OPENING.len() + 5 + len);
    if framing == Framing::Prefixed {
        out.extend_from_slice(&[0; PREFIX]);
    }
    out.extend_from_slice(OPENING);
    msgpack::put_bin(&mut out, len);
    parts.iter().for_each(|p| out.extend_from_slice(p));
    if framing == Framing::Prefixed {
        let len = (out.len() - PREFIX) as u32;
        out[..PREFIX].copy_from_slice(&len.to_be_bytes());
    }
    out
}

/// Splits a stream of bytes into event bodies; each frame may have either framing.
///
/// Bytes go in with [`push`](Decoder::push) as they arrive, bodies come out of
/// [`next_body`](Decoder::next_body). Memory use depends on what has arrived, never on what
/// a length claims; every byte is scanned once.
#[derive(Debug)]
pub struct Decoder {
    buf: Vec<u8>,
    /// Start of the first frame not yet returned.
    start: usize,
    scan: Scan,
    max_frame: usize,
}

/// How far the bare frame at `start` has been measured.
#[derive(Clone, Copy, Debug)]
struct Scan {
    /// Offset from the frame's start; may be past what has arrived.
    at: usize,
    /// Number of values still to come.
    left: u64,
}

impl Scan {
    const NEW: Scan = Scan { at: 0, left: 1 };
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new(MAX_FRAME)
    }
}

impl Decoder {
    /// Starts at a frame boundary. `max_frame` is in bytes, without the length in front.
    pub fn new(max_frame: usize) -> Decoder {
        Decoder {
            buf: Vec::new(),
            start: 0,
            scan: Scan::NEW,
            max_frame,
        }
    }

    /// Adds bytes from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.buf.extend_from_slice(bytes);
    }

    /// Whether part of a frame has arrived: a stream that ends here is truncated.
    pub fn in_frame(&self) -> bool {
        self.start < self.buf.len()
    }

    /// The body of the next whole frame; `None` until more bytes are pushed.
    ///
    /// After an error the stream is lost: where the next frame starts is unknown.
    pub fn next_body(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let Some(frame) = self.next_frame()? else {
            return Ok(None);
        };
        let body = body_of(&self.buf[frame])?;
        Ok(Some(body))
    }

    fn next_frame(&mut self) -> Result<Option<Range<usize>>, FrameError> {
        let rest = &self.buf[self.start..];
        let Some(&first) = rest.first() else {
            return Ok(None);
        };
        if first == BARE {
            return self.next_bare();
        }
        if usize::from(first) > self.max_frame >> 24 {
            return Err(FrameError::NotAFrame(first));
        }
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > self.max_frame {
            return Err(self.too_large(len));
        }
        if rest.len() < len {
            return Ok(None);
        }
        let begin = self.start + PREFIX;
        self.start = begin + len;
        Ok(Some(begin..self.start))
    }

    fn next_bare(&mut self) -> Result<Option<Range<usize>>, FrameError> {
        let rest = &self.buf[self.start..];
        while self.scan.left > 0 {
            let Some(tail) = rest.get(self.scan.at..) else {
                return Ok(None);
            };
            let Some(item) = msgpack::item(tail)? else {
                return Ok(None);
            };
            let scan = &mut self.scan;
            scan.left = (scan.left - 1).saturating_add(item.children);
            scan.at = scan.at.saturating_add(item.header).saturating_add(item.len);
            // Each value still to come takes at least one byte.
            let least = scan
                .at
                .saturating_add(usize::try_from(scan.left).unwrap_or(usize::MAX));
            if least > self.max_frame {
                return Err(self.too_large(least));
            }
        }
        if rest.len() < self.scan.at {
            return Ok(None);
        }
        let begin = self.start;
        self.start += self.scan.at;
        self.scan = Scan::NEW;
        Ok(Some(begin..self.start))
    }

    fn too_large(&self, len: usize) -> FrameError {
        FrameError::TooLarge {
            len,
            limit: self.max_frame,
        }
    }

    /// Frees the space of frames already returned, moving each byte at most once per doubling.
    fn compact(&mut self) {
        const KEEP: usize = 256 << 10;
        let rest = self.buf.len() - self.start;
        if rest == 0 {
            self.buf.clear();
            if self.buf.capacity() > KEEP {
                self.buf = Vec::new();
            }
        } else if self.start >= rest {
            self.buf.drain(..self.start);
        } else {
            return;
        }
        self.start = 0;
    }
}

/// The bytes under `body` of one whole frame.
fn body_of(frame: &[u8]) -> Result<&[u8], FrameError> {
    find_body(frame).ok_or(FrameError::NoBody)
}

fn find_body(frame: &[u8]) -> Option<&[u8]> {
    let (pairs, mut rest) = msgpack::map(frame)?;
    let mut body = None;
    for _ in 0..pairs {
        let (key, value) = match msgpack::bytes_value(rest) {
            Some(found) => found,
            None => (&[][..], rest.get(msgpack::value_len(rest)?..)?),
        };
        rest = value.get(msgpack::value_len(value)?..)?;
        if key == b"body" {
            body = Some(msgpack::bytes_value(value)?.0);
        }
    }
    body.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests;
