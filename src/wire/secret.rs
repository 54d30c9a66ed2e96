//! What is shown of secrets (`salt/utils/secret.py`).

use crate::{Map, Value};

const MASK: &str = "**********";

/// A value whose form can be seen, and which parts of it are empty, but no more.
pub fn masked(value: Value) -> Value {
    match value {
        Value::Map(map) => Map(map.0.into_iter().map(|(k, v)| (k, masked(v))).collect()).into(),
        Value::Array(list) => Value::Array(list.into_iter().map(masked).collect()),
        scalar if scalar.truthy() => MASK.into(),
        empty => empty,
    }
}
