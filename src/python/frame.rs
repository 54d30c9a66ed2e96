//! Frames: a length of four bytes, little-endian, then that many bytes.

use std::io::{self, Read, Write};

/// Bytes of one frame at most.
pub const MAX_LEN: usize = 256 << 20;
/// Bytes asked for at once: a length alone reserves no memory.
const PIECE: u64 = 1 << 20;

/// Writes one frame.
///
/// # Errors
/// The bytes are more than [`MAX_LEN`], or the other side is gone.
pub fn write(mut to: impl Write, body: &[u8]) -> io::Result<()> {
    let too_long = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} bytes are too many for one call of a Python function",
                body.len()
            ),
        )
    };
    if body.len() > MAX_LEN {
        return Err(too_long());
    }
    let len = u32::try_from(body.len()).map_err(|_| too_long())?;
    let mut whole = Vec::with_capacity(body.len() + 4);
    whole.extend(len.to_le_bytes());
    whole.extend(body);
    to.write_all(&whole)
}

/// Reads one frame.
///
/// # Errors
/// The other side is gone, or announces more than [`MAX_LEN`].
pub fn read(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut head = [0; 4];
    from.read_exact(&mut head)?;
    let len = u32::from_le_bytes(head) as usize;
    if len > MAX_LEN {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("an answer of {len} bytes; the limit is {MAX_LEN}"),
        ));
    }
    let mut body = Vec::new();
    while body.len() < len {
        let wanted = PIECE.min((len - body.len()) as u64);
        if from.by_ref().take(wanted).read_to_end(&mut body)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_a_limit() {
        let mut bytes = Vec::new();
        write(&mut bytes, b"abc").unwrap();
        write(&mut bytes, b"").unwrap();
        let mut from = bytes.as_slice();
        assert_eq!(read(&mut from).unwrap(), b"abc");
        assert_eq!(read(&mut from).unwrap(), b"");
        assert!(read(&mut from).is_err());
        assert!(read([255; 4].as_slice()).is_err());
        assert!(read([3, 0, 0, 0, b'a'].as_slice()).is_err());
    }
}
