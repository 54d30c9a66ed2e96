//! Numbers that are the same for the same content.

use halite_wire::Value;

/// Such a number as it was told: it may be larger than what other numbers are.
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::UInt(number) => Some(*number),
        other => u64::try_from(other.as_int()?).ok(),
    }
}
