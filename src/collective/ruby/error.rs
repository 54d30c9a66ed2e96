//! Why something of Ruby's is not read, and how much of it is.

use std::fmt;

/// Bytes of the longest message, and of all text in it once its links are followed.
pub const MAX_OCTETS: usize = 8 << 20;
/// Values in one message, once its links are followed.
pub const MAX_VALUES: usize = 200_000;
/// Arrays and hashes within one another.
pub const MAX_DEPTH: usize = 64;

/// Why a text or bytes are not read as a [`Datum`](super::Datum).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatumError {
    /// It breaks the rules of its encoding: what is wrong, and where.
    Malformed(String),
    /// It is larger, deeper or longer than anything that is read: which limit.
    TooLarge(&'static str),
    /// It holds what names a class or carries code in Ruby, or what blows a small text up: what it was.
    Dangerous(String),
}

impl fmt::Display for DatumError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DatumError::Malformed(what) => f.write_str(what),
            DatumError::TooLarge(limit) => write!(f, "it is beyond the limit of {limit}"),
            DatumError::Dangerous(what) => write!(f, "it holds {what}, which is never taken"),
        }
    }
}

impl std::error::Error for DatumError {}

/// What is left of the limits while something is read.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    values: usize,
    octets: usize,
}

impl Budget {
    /// For a message of so many bytes.
    ///
    /// # Errors
    /// The message alone is too long.
    pub fn new(length: usize) -> Result<Budget, DatumError> {
        if length <= MAX_OCTETS {
            Ok(Budget {
                values: MAX_VALUES,
                octets: MAX_OCTETS,
            })
        } else {
            Err(DatumError::TooLarge("8 MiB in one message"))
        }
    }

    /// Takes values, and bytes of text, off.
    ///
    /// # Errors
    /// There are not so many left.
    pub fn take(&mut self, values: usize, octets: usize) -> Result<(), DatumError> {
        self.values = self
            .values
            .checked_sub(values)
            .ok_or(DatumError::TooLarge("200000 values in one message"))?;
        self.octets = self
            .octets
            .checked_sub(octets)
            .ok_or(DatumError::TooLarge("8 MiB of text in one message"))?;
        Ok(())
    }
}

/// One more container around what is read next.
///
/// # Errors
/// There are too many.
pub fn deeper(depth: usize) -> Result<usize, DatumError> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(DatumError::TooLarge(
            "64 arrays and hashes within one another",
        ))
    }
}
