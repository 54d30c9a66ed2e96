//! The encoding of OpenSSH: numbers, and strings with their length before them.

use openssl::bn::{BigNum, BigNumRef};

/// Takes an encoding apart; nothing is returned where something else is.
#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// A string.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.bytes(length)
    }

    /// What is inside of a string.
    pub fn inside(&mut self) -> Option<Reader<'a>> {
        self.string().map(Reader)
    }

    /// A positive number of any length.
    pub fn number(&mut self) -> Option<BigNum> {
        let bytes = self.string()?;
        if bytes.first().is_some_and(|first| first & 0x80 != 0) {
            return None;
        }
        BigNum::from_slice(bytes).ok()
    }

    /// Nothing, if that is all.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Puts an encoding together.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Adds a number of four bytes.
    pub fn u32(&mut self, number: u32) -> &mut Writer {
        self.0.extend(number.to_be_bytes());
        self
    }

    /// Adds a number of eight bytes.
    pub fn u64(&mut self, number: u64) -> &mut Writer {
        self.0.extend(number.to_be_bytes());
        self
    }

    /// Adds a string. (Keys and certificates are far below the four gigabytes that fit.)
    pub fn string(&mut self, bytes: impl AsRef<[u8]>) -> &mut Writer {
        let bytes = bytes.as_ref();
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend(bytes);
        self
    }

    /// Adds a positive number of any length.
    pub fn number(&mut self, number: &BigNumRef) -> &mut Writer {
        let mut bytes = number.to_vec();
        // The first bit is the sign.
        if bytes.first().is_some_and(|first| first & 0x80 != 0) {
            bytes.insert(0, 0);
        }
        self.string(bytes)
    }
}

/// One string.
pub fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.string(bytes);
    writer.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        let big = BigNum::from_slice(&[0x80, 1]).unwrap();
        writer.u32(7).u64(8).string("abc").number(&big);
        let mut reader = Reader(&writer.0);
        assert_eq!((reader.u32(), reader.u64()), (Some(7), Some(8)));
        assert_eq!(reader.string(), Some(&b"abc"[..]));
        assert_eq!(reader.number(), Some(big));
        assert_eq!(reader.end(), Some(()));
    }

    #[test]
    fn short_and_negative_ones_are_refused() {
        assert_eq!(Reader(&[0, 0, 0]).u32(), None);
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 1]).string(), None);
        assert!(Reader(&[0, 0, 0, 1, 0x80]).number().is_none());
    }
}
