//! Errors and limits of reading Ruby's encodings.

use halite_wire::budget::{Budget, Exceeded};
use std::fmt;

/// Most bytes in a message.
pub const MAX_BYTES: usize = 8 << 20;

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

impl From<Exceeded> for DatumError {
    fn from(limit: Exceeded) -> DatumError {
        DatumError::TooLarge(limit.limit())
    }
}

/// The budget for a message of that many bytes.
///
/// # Errors
/// The message alone is too long.
pub fn budget(length: usize) -> Result<Budget, DatumError> {
    if length <= MAX_BYTES {
        Ok(Budget::fixed())
    } else {
        Err(DatumError::TooLarge("8 MiB in one message"))
    }
}
