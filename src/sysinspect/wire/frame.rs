//! Frames: four bytes of length, big end first, then so many bytes (reference 2).

use std::fmt;

/// Longest body in bytes that is accepted unless told otherwise; what E4 programs use.
pub const MAX_FRAME: usize = 1024 * 1024;
const HEADER: usize = 4;

/// A body is longer than the limit. The stream is of no use any more.
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

/// Puts the length before a body.
///
/// # Errors
/// If the body is longer than `limit`.
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

/// Cuts a stream into bodies. Keeps only what it was fed: a length alone allocates nothing.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    kept: Vec<u8>,
    /// What of `kept` has been given out.
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

    /// Another limit from the next body on, such as when the peer has shown who it is.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes what was read. Ask for all bodies before the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.kept.drain(..self.used);
        self.used = 0;
        self.kept.extend_from_slice(piece);
    }

    /// The next whole body, if there is one; it may be empty.
    ///
    /// # Errors
    /// If the next body is longer than the limit, again and again.
    pub fn next_body(&mut self) -> Result<Option<&[u8]>, FrameError> {
        if self.used == self.kept.len() {
            // An idle connection holds no memory, of which there may be thousands.
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

    /// Bytes that are kept for a body that is not whole yet.
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
