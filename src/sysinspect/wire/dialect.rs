//! The dialects of the generations of programs (reference 1 and 7).

use super::{DecodeError, json};
use ::base64::Engine;
use ::base64::engine::general_purpose::STANDARD;
use halite_wire::map;
use halite_wire::{Map, Value, base64};

/// The form of messages on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The protocol description: `t` is a list, `d` base64, no session id.
    Seed,
    /// The first programs (November 2024): `t` is a list, `d` plain text, no session id.
    E1,
    /// Programs up to March 2026 (E2 and E3): `t` is one object, `d` any JSON, session id `sid`. They are not told
    /// apart: we write the superset that both accept.
    Modern,
}

/// What the first frame of a connection reveals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// A message of that dialect.
    Message(Dialect),
    /// A frame of the secure transport (E4): answer [`unsupported_version`] and close.
    Secure,
}

impl First {
    /// Determines the dialect from the first body of a connection.
    ///
    /// Only the secure transport has the key `kind`. The key `sid` is required in E2 and E3 and unknown before.
    /// Without it, the payload of E1 is a UUID or a PEM in plain text, neither of which is base64 (a hyphen is not a
    /// base64 digit), while the description has base64 or nothing.
    ///
    /// Two cases are ambiguous. A text that is both plain and base64 (`abcd`) is read as the description's, because no
    /// E1 program sends such a first payload. The registration of an E4 minion is plain and looks like E3's: it is
    /// answered as such, and the connection that follows is recognised by its `kind`.
    ///
    /// # Errors
    /// The body is not a JSON object, or fits no dialect.
    pub fn of(body: &[u8]) -> Result<First, DecodeError> {
        let map: Map = match json::parse(body)? {
            Value::Map(map) => map,
            _ => return Err(DecodeError::Malformed("it is not an object".to_owned())),
        };
        if map.contains("kind") {
            return Ok(First::Secure);
        }
        if map.contains("sid") {
            return Ok(First::Message(Dialect::Modern));
        }
        match map.get("d") {
            Some(Value::Str(text)) if STANDARD.decode(text).is_ok() => {
                Ok(First::Message(Dialect::Seed))
            }
            Some(Value::Str(_)) => Ok(First::Message(Dialect::E1)),
            _ => Err(DecodeError::NoDialect),
        }
    }
}

/// The answer to a frame of the secure transport, sent before the connection is closed: a body without its length
/// prefix (reference 10, `bootstrap_diagnostic`).
pub fn unsupported_version(message: &str) -> Vec<u8> {
    json::body(&map! {
        "kind" => "bootstrap_diagnostic",
        "code" => "unsupported_version",
        "message" => message,
        "failure" => map! {"retryable" => false, "disconnect" => true, "rate_limit" => false},
    })
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
            json::keep_last(&mut value);
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
