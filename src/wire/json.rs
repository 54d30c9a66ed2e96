//! JSON from outside: the one place that parses it, within the limits of [`Budget`].
//!
//! `serde_json` limits only the depth, and types choose what they keep, so the text is measured before it is parsed.

use crate::budget::{Budget, Exceeded, deeper};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt;

/// Why a text cannot be used.
#[derive(Debug)]
pub enum JsonError {
    /// It exceeds a limit.
    TooLarge(Exceeded),
    /// It is not JSON, or not of the wanted form.
    Malformed(serde_json::Error),
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            JsonError::TooLarge(limit) => limit.fmt(f),
            JsonError::Malformed(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for JsonError {}

/// Parses a text from a peer that is known.
///
/// # Errors
/// See [`JsonError`].
pub fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, JsonError> {
    parse_within(text, &mut Budget::of(text.len()))
}

/// Parses a text and deducts its values from the budget.
///
/// # Errors
/// See [`JsonError`].
pub fn parse_within<'a, T: Deserialize<'a>>(
    text: &'a [u8],
    budget: &mut Budget,
) -> Result<T, JsonError> {
    check(text, budget).map_err(JsonError::TooLarge)?;
    serde_json::from_slice(text).map_err(JsonError::Malformed)
}

/// Parses the value at the start of a text; what comes after it is not looked at.
///
/// # Errors
/// See [`JsonError`].
pub fn parse_first<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, JsonError> {
    let mut start = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    if let Some(Err(why)) = start.next() {
        return Err(JsonError::Malformed(why));
    }
    parse(&text[..start.byte_offset()])
}

/// Deducts the values of a text, and checks how deep they are nested. It need not be JSON.
///
/// # Errors
/// A limit is exceeded.
pub fn check(text: &[u8], budget: &mut Budget) -> Result<(), Exceeded> {
    let (mut depth, mut values) = (0usize, 1usize);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_text(&mut bytes),
            b'[' | b'{' => {
                depth = deeper(depth)?;
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' | b':' => values += 1,
            _ => {}
        }
    }
    budget.take(values)
}

/// Skips to the end of a text in quotes.
fn skip_text(bytes: &mut std::slice::Iter<u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::budget::{MAX_DEPTH, MAX_VALUES};

    #[test]
    fn texts_are_measured_before_they_are_parsed() {
        let limit = |text: &str| match parse::<Value>(text.as_bytes()) {
            Err(JsonError::TooLarge(limit)) => Some(limit),
            _ => None,
        };
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(limit(&nested(MAX_DEPTH)), None);
        assert_eq!(limit(&nested(MAX_DEPTH + 1)), Some(Exceeded::Depth));
        assert_eq!(limit(&nested(1_000_000)), Some(Exceeded::Depth));
        // Brackets in text do not count, whatever precedes its quotes.
        assert_eq!(limit(&format!(r#"["\\\"{}"]"#, "[".repeat(500))), None);
        let many = format!("[{}0]", "0,".repeat(2 * MAX_VALUES));
        assert_eq!(limit(&many), Some(Exceeded::Values));
        let mut little = Budget::fixed();
        assert!(parse_within::<Value>(b"[1, {\"a\": 2}]", &mut little).is_ok());
        assert!(matches!(parse::<Value>(b"{"), Err(JsonError::Malformed(_))));
        assert_eq!(parse::<Value>(b"\"a,b\"").ok(), Some("a,b".into()));
    }
}
