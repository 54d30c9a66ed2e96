//! Errors and limits of reading Ruby's encodings.

use std::fmt;

/// Most bytes in a message, and in all its text once links are followed.
pub const MAX_BYTES: usize = 8 << 20;
/// Most values in one message, once its links are followed.
pub const MAX_VALUES: usize = 200_000;
/// Deepest nesting of arrays and hashes.
pub const MAX_DEPTH: usize = 64;

/// Why a text or bytes are not read as a [`Datum`](super::Datum).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatumError {
    /// It violates its encoding: what is wrong, and where.
    Malformed(String),
    /// It exceeds a limit: which.
    TooLarge(&'static str),
    /// It contains something that names a class or carries code in Ruby, or that expands a small text: what.
    Dangerous(String),
}

impl fmt::Display for DatumError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DatumError::Malformed(what) => f.write_str(what),
            DatumError::TooLarge(limit) => write!(f, "it exceeds the limit of {limit}"),
            DatumError::Dangerous(what) => write!(f, "it contains {what}, which is never accepted"),
        }
    }
}

impl std::error::Error for DatumError {}

/// What remains of the limits during reading.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    values: usize,
    bytes: usize,
}

impl Budget {
    /// The budget for a message of that many bytes.
    ///
    /// # Errors
    /// The message alone is too long.
    pub fn new(length: usize) -> Result<Budget, DatumError> {
        if length <= MAX_BYTES {
            Ok(Budget {
                values: MAX_VALUES,
                bytes: MAX_BYTES,
            })
        } else {
            Err(DatumError::TooLarge("8 MiB in one message"))
        }
    }

    /// Deducts values and bytes of text.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn take(&mut self, values: usize, bytes: usize) -> Result<(), DatumError> {
        self.values = self
            .values
            .checked_sub(values)
            .ok_or(DatumError::TooLarge("200000 values in one message"))?;
        self.bytes = self
            .bytes
            .checked_sub(bytes)
            .ok_or(DatumError::TooLarge("8 MiB of text in one message"))?;
        Ok(())
    }
}

/// The nesting depth one level deeper.
///
/// # Errors
/// It is nested too deeply.
pub fn deeper(depth: usize) -> Result<usize, DatumError> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(DatumError::TooLarge(
            "64 arrays and hashes within one another",
        ))
    }
}
