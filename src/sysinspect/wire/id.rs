//! Machine ids.

use super::DecodeError;
use halite_wire::Value;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const MAX_ID: usize = 64;

/// A machine id: 1 to 64 of `0-9 A-Z a-z _ -`, so that it is safe as a file name (reference 5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(Arc<str>);

impl MachineId {
    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MachineId {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<MachineId, DecodeError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if text.is_empty() || text.len() > MAX_ID || !text.bytes().all(plain) {
            return Err(DecodeError::BadId);
        }
        Ok(MachineId(text.into()))
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for MachineId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&MachineId> for Value {
    fn from(id: &MachineId) -> Value {
        id.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_never_leave_their_directory() {
        for good in ["30006546535e428aba0a0caa6712e225", "a", "A-b_9"] {
            assert_eq!(good.parse::<MachineId>().unwrap().as_str(), good);
        }
        let long = "a".repeat(MAX_ID + 1);
        for bad in ["", "a/b", "..", "a.b", "a b", "ü", "a\0", &long] {
            assert_eq!(bad.parse::<MachineId>(), Err(DecodeError::BadId), "{bad:?}");
        }
    }
}
