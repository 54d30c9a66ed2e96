//! Which generation of programs speaks (reference 1 and 7).

use super::{DecodeError, json};
use ::base64::Engine;
use ::base64::engine::general_purpose::STANDARD;
use halite_wire::map;
use halite_wire::{Map, Value};

/// How messages of one connection look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The protocol description: `t` a list, `d` base64, no session id.
    Seed,
    /// The first programs (November 2024): `t` a list, `d` a plain text, no session id.
    E1,
    /// Programs up to March 2026 (E2 and E3): `t` one object, `d` any JSON, session id `sid`.
    /// They are not told apart: what is written is the superset that both accept.
    Modern,
}

/// What the first frame of a connection tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// A message of that dialect.
    Message(Dialect),
    /// A frame of the secure transport (E4): answer [`unsupported_version`] and close.
    Secure,
}

impl First {
    /// Tells the dialect from the first body that a minion sent.
    ///
    /// A key `kind` is the secure transport's alone. The key `sid` is required in E2 and E3 and
    /// unknown before. Without it, the payload of E1 is a UUID or a PEM in plain text, neither of
    /// which is base64 (a hyphen is no digit of it), while the description has base64, or nothing.
    ///
    /// Two things stay open. A text that is both plain and base64 (`abcd`) reads as the
    /// description's, because no E1 program sends such a first payload. The registration of an E4
    /// minion is plain and looks like E3's: it is answered as one, and the connection that
    /// follows it is told by its `kind`.
    ///
    /// # Errors
    /// If the body is no JSON object, or of no dialect.
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

/// The answer to a frame of the secure transport, before the connection is closed: a body
/// without its length (reference 10, `bootstrap_diagnostic`).
pub fn unsupported_version(message: &str) -> Vec<u8> {
    json::body(&map! {
        "kind" => "bootstrap_diagnostic",
        "code" => "unsupported_version",
        "message" => message,
        "failure" => map! {"retryable" => false, "disconnect" => true, "rate_limit" => false},
    })
}
