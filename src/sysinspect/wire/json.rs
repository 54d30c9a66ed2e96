//! JSON as both sides write it: compact, payloads by dialect.

use super::{DecodeError, Dialect};
use ::base64::Engine;
use ::base64::engine::general_purpose::STANDARD;
use halite_wire::{Map, Value, base64};
use serde::de::DeserializeOwned;
use std::collections::HashMap;

/// Reads a body.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(body).map_err(|e| DecodeError::Malformed(e.to_string()))
}

/// Writes a body. Every value of ours can be written.
pub(super) fn body(map: &Map) -> Vec<u8> {
    serde_json::to_vec(map).unwrap_or_default()
}

/// The payload of a message: what stands in base64 (as text if it is text), or the value itself.
pub(super) fn payload(mut value: Value, dialect: Dialect) -> Result<Value, DecodeError> {
    match (dialect, &value) {
        (Dialect::Seed, Value::Str(text)) => {
            let octets = STANDARD
                .decode(text)
                .map_err(|_| DecodeError::BadPayload("it is not base64 with its padding"))?;
            Ok(String::from_utf8(octets).map_or_else(|e| Value::Bytes(e.into_bytes()), Value::Str))
        }
        (Dialect::E1, Value::Str(_)) => Ok(value),
        (Dialect::Seed | Dialect::E1, _) => Err(DecodeError::BadPayload("it is not a text")),
        (Dialect::Modern, _) => {
            keep_last(&mut value);
            Ok(value)
        }
    }
}

/// The form of a payload in a dialect: the inverse of [`payload`] for texts and bytes; other
/// values are JSON text where the dialect has texts only.
pub(super) fn wrapped(value: &Value, dialect: Dialect) -> Value {
    let text = || match value {
        Value::Nil => Vec::new(),
        Value::Str(text) => text.clone().into_bytes(),
        Value::Bytes(octets) => octets.clone(),
        other => serde_json::to_vec(other).unwrap_or_default(),
    };
    match (dialect, value) {
        (Dialect::Seed, _) => base64::encode(&text()).into(),
        (_, Value::Bytes(octets)) => base64::encode(octets).into(),
        (Dialect::E1, _) => String::from_utf8_lossy(&text()).into_owned().into(),
        (Dialect::Modern, value) => value.clone(),
    }
}

/// A payload as a value: a text that is JSON is what the JSON says, as the traits of E2 minions
/// and of the seed dialect are; any other payload is itself.
pub fn payload_value(payload: &Value) -> Value {
    let Some(text) = payload.as_str() else {
        return payload.clone();
    };
    let mut value: Value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
    keep_last(&mut value);
    value
}

/// Makes keys unique in all maps: the last one counts, as with other readers of JSON.
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
