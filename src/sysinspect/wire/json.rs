//! JSON as both sides write it: compact.

use super::DecodeError;
use halite_wire::budget::Budget;
use halite_wire::json::parse_within;
use halite_wire::{Map, Value};
use serde::de::DeserializeOwned;
use std::collections::HashMap;

/// Parses a body.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    parse_within(body, &mut Budget::fixed()).map_err(|e| DecodeError::Malformed(e.to_string()))
}

/// Writes a body. All our values can be written.
pub(super) fn body(map: &Map) -> Vec<u8> {
    serde_json::to_vec(map).unwrap_or_default()
}

/// A payload as a value: a string that contains JSON is parsed, such as the traits of E2 minions and of the seed
/// dialect; any other payload is returned as it is.
pub fn payload_value(payload: &Value) -> Value {
    let Some(text) = payload.as_str() else {
        return payload.clone();
    };
    let parsed = parse_within(text.as_bytes(), &mut Budget::fixed());
    let mut value: Value = parsed.unwrap_or_else(|_| text.into());
    keep_last(&mut value);
    value
}

/// Makes keys unique in all maps: the last one counts, as in other JSON parsers.
pub(super) fn keep_last(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(keep_last),
        Value::Map(map) => {
            let mut last = HashMap::with_capacity(map.len());
            for (at, (key, value)) in map.0.iter_mut().enumerate() {
                keep_last(value);
                last.insert(key.as_str().unwrap_or_default().to_owned(), at);
            }
            if last.len() < map.len() {
                let entries = std::mem::take(&mut map.0).into_iter().enumerate();
                map.0 = entries
                    .filter(|(at, (key, _))| last.get(key.as_str().unwrap_or_default()) == Some(at))
                    .map(|(_, entry)| entry)
                    .collect();
            }
        }
        _ => {}
    }
}
