//! Numbers that are the same for the same content.

use halite_wire::Value;

/// FNV-1a.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Such a number as it was told: it may be larger than what other numbers are.
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::UInt(number) => Some(*number),
        other => u64::try_from(other.as_int()?).ok(),
    }
}
