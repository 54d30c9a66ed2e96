//! Frames: a length of four bytes, big-endian, then that many bytes (reference 2).

use std::fmt;

/// Default limit of a body in bytes; the one of E4 programs.
pub const MAX_FRAME: usize = 1024 * 1024;
const HEADER: usize = 4;

/// A body is longer than the limit. The stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// Bytes announced.
    pub len: usize,
    /// Bytes allowed.
    pub limit: usize,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "a frame of {} bytes exceeds the limit of {}; the peer speaks another protocol, or \
             the limit has to be raised",
            self.len, self.limit
        )
    }
}

impl std::error::Error for FrameError {}

/// Puts the length in front of a body.
///
/// # Errors
/// The body is longer than `limit`.
pub fn wrap(body: &[u8], limit: usize) -> Result<Vec<u8>, FrameError> {
    let len = body.len();
    let number = u32::try_from(len).map_err(|_| FrameError { len, limit })?;
    if len > limit {
        return Err(FrameError { len, limit });
    }
    let mut out = Vec::with_capacity(HEADER + len);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(body);
    Ok(out)
}

/// Splits a stream into bodies. Stores only what was pushed: a length alone allocates nothing.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    kept: Vec<u8>,
    /// How many bytes of `kept` were returned already.
    used: usize,
}

impl Decoder {
    /// A decoder for bodies of at most `limit` bytes.
    pub fn new(limit: usize) -> Decoder {
        Decoder {
            limit,
            kept: Vec::new(),
            used: 0,
        }
    }

    /// Changes the limit from the next body on, for example once the peer has proved its identity.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Adds bytes that were read. Take all bodies before the next call.
    pub fn push(&mut self, piece: &[u8]) {
        self.kept.drain(..self.used);
        self.used = 0;
        self.kept.extend_from_slice(piece);
    }

    /// The next complete body, if there is one; it may be empty.
    ///
    /// # Errors
    /// The next body is longer than the limit; every further call fails too.
    pub fn next_body(&mut self) -> Result<Option<&[u8]>, FrameError> {
        if self.used == self.kept.len() {
            // An idle connection keeps no buffer; there may be thousands.
            self.kept = Vec::new();
            self.used = 0;
            return Ok(None);
        }
        let Some((header, rest)) = self.kept[self.used..].split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*header) as usize;
        if len > self.limit {
            let limit = self.limit;
            return Err(FrameError { len, limit });
        }
        if rest.len() < len {
            return Ok(None);
        }
        let from = self.used + HEADER;
        self.used = from + len;
        Ok(Some(&self.kept[from..self.used]))
    }

    /// Bytes stored for an incomplete body.
    pub fn pending(&self) -> usize {
        self.kept.len() - self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size() {
        let mut stream = Vec::new();
        let bodies: [&[u8]; 4] = [b"{}", b"", b"abc", b"0123456789"];
        for body in bodies {
            stream.extend(wrap(body, 10).unwrap());
        }
        for size in 1..stream.len() {
            let mut decoder = Decoder::new(10);
            let mut seen = Vec::new();
            for piece in stream.chunks(size) {
                decoder.push(piece);
                while let Some(body) = decoder.next_body().unwrap() {
                    seen.push(body.to_vec());
                }
            }
            assert_eq!(seen, bodies, "{size}");
            assert_eq!((decoder.pending(), decoder.kept.capacity()), (0, 0));
        }
    }

    #[test]
    fn the_limit_comes_first() {
        let refused = FrameError { len: 11, limit: 10 };
        assert_eq!(wrap(&[0; 11], 10), Err(refused));
        let mut decoder = Decoder::new(10);
        decoder.push(&[0, 0, 0]);
        assert_eq!(decoder.next_body(), Ok(None));
        decoder.push(&[11]);
        assert_eq!(decoder.next_body(), Err(refused));
        assert_eq!(decoder.next_body(), Err(refused));
        let mut decoder = Decoder::new(MAX_FRAME);
        decoder.push(&[0xff; 4]);
        assert!(decoder.next_body().is_err());
        assert!(decoder.kept.capacity() < 64);
        decoder.set_limit(usize::MAX);
        assert_eq!(decoder.next_body(), Ok(None));
    }
}
