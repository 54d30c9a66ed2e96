//! JSON as both sides write it: compact, with payloads by dialect.

use super::{DecodeError, Dialect};
use ::base64::Engine;
use ::base64::engine::general_purpose::STANDARD;
use halite_wire::{Map, Value, base64};
use serde::de::DeserializeOwned;
use std::collections::HashMap;

/// Parses a body.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(body).map_err(|e| DecodeError::Malformed(e.to_string()))
}

/// Writes a body. All our values can be written.
pub(super) fn body(map: &Map) -> Vec<u8> {
    serde_json::to_vec(map).unwrap_or_default()
}

/// The payload of a message: decoded base64 (a string if it is UTF-8), or the value itself.
pub(super) fn payload(mut value: Value, dialect: Dialect) -> Result<Value, DecodeError> {
    match (dialect, &value) {
        (Dialect::Seed, Value::Str(text)) => {
            let bytes = STANDARD
                .decode(text)
                .map_err(|_| DecodeError::BadPayload("it is not padded base64"))?;
            Ok(String::from_utf8(bytes).map_or_else(|e| Value::Bytes(e.into_bytes()), Value::Str))
        }
        (Dialect::E1, Value::Str(_)) => Ok(value),
        (Dialect::Seed | Dialect::E1, _) => Err(DecodeError::BadPayload("it is not a string")),
        (Dialect::Modern, _) => {
            keep_last(&mut value);
            Ok(value)
        }
    }
}

/// A payload in the form of a dialect: the inverse of [`payload`] for strings and bytes; other values become JSON text
/// in dialects that only have text.
pub(super) fn wrapped(value: &Value, dialect: Dialect) -> Value {
    let text = || match value {
        Value::Nil => Vec::new(),
        Value::Str(text) => text.clone().into_bytes(),
        Value::Bytes(bytes) => bytes.clone(),
        other => serde_json::to_vec(other).unwrap_or_default(),
    };
    match (dialect, value) {
        (Dialect::Seed, _) => base64::encode(&text()).into(),
        (_, Value::Bytes(bytes)) => base64::encode(bytes).into(),
        (Dialect::E1, _) => String::from_utf8_lossy(&text()).into_owned().into(),
        (Dialect::Modern, value) => value.clone(),
    }
}

/// A payload as a value: a string that contains JSON is parsed, such as the traits of E2 minions and of the seed
/// dialect; any other payload is returned as it is.
pub fn payload_value(payload: &Value) -> Value {
    let Some(text) = payload.as_str() else {
        return payload.clone();
    };
    let mut value: Value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
    keep_last(&mut value);
    value
}

/// Makes keys unique in all maps: the last one counts, as in other JSON parsers.
fn keep_last(value: &mut Value) {
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
