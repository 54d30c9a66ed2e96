//! JSON as stored by Salt's returners.

use halite_wire::pytext::{float_repr, str as python_str};
use halite_wire::{Map, Value};
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// Which JSON a database accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// A text column: any JSON.
    Text,
    /// PostgreSQL's `jsonb` rejects NUL characters; they become replacement characters.
    Jsonb,
}

/// A value as JSON text. Invalid UTF-8 in bytes becomes replacement characters, where stock Salt loses the whole row.
/// Numbers that JSON cannot represent become null.
pub fn dumps(value: &Value, strictness: Strictness) -> String {
    written(&convert(value, strictness))
}

/// A map as JSON text.
pub fn dumps_map(map: &Map, strictness: Strictness) -> String {
    written(&convert_map(map, strictness))
}

/// The separators and numbers of Python's `json`.
struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        separate(to, first)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        separate(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        to.write_all(float_repr(value).as_bytes())
    }
}

fn separate<W: ?Sized + Write>(to: &mut W, first: bool) -> io::Result<()> {
    if first {
        return Ok(());
    }
    to.write_all(b", ")
}

/// Writing to memory cannot fail, and the output is UTF-8.
fn written(json: &Json) -> String {
    let mut out = Vec::new();
    let done = json.serialize(&mut Serializer::with_formatter(&mut out, Python));
    debug_assert!(done.is_ok());
    String::from_utf8(out).unwrap_or_default()
}

fn convert(value: &Value, strictness: Strictness) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Bool(b) => (*b).into(),
        Value::Int(i) => (*i).into(),
        Value::UInt(u) => (*u).into(),
        Value::Float(f) => (*f).into(),
        Value::Str(s) => text(s, strictness).into(),
        Value::Bytes(b) => text(&String::from_utf8_lossy(b), strictness).into(),
        Value::Array(items) => items.iter().map(|v| convert(v, strictness)).collect(),
        Value::Map(map) => convert_map(map, strictness),
    }
}

fn convert_map(map: &Map, strictness: Strictness) -> Json {
    let entry = |(key, value): &(Value, Value)| {
        let key = match key {
            Value::Str(s) => s.clone(),
            Value::Nil => "null".into(),
            Value::Bool(b) => b.to_string(),
            other => python_str(other).into_owned(),
        };
        (text(&key, strictness), convert(value, strictness))
    };
    Json::Object(map.iter().map(entry).collect())
}

fn text(text: &str, strictness: Strictness) -> String {
    match strictness {
        Strictness::Jsonb if text.contains('\0') => text.replace('\0', "\u{fffd}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_python_writes_it() {
        let value = Value::Map(Map(vec![
            (1.into(), "é\"\n".into()),
            (
                Value::Nil,
                Value::Array(vec![Value::Float(1.0), Value::Float(1e16)]),
            ),
            (true.into(), Value::Bytes(vec![0xff, b'x'])),
            ("nan".into(), Value::Float(f64::NAN)),
        ]));
        assert_eq!(
            dumps(&value, Strictness::Text),
            "{\"1\": \"é\\\"\\n\", \"null\": [1.0, 1e+16], \"true\": \"\u{fffd}x\", \"nan\": null}"
        );
        assert_eq!(dumps(&"a\0".into(), Strictness::Text), "\"a\\u0000\"");
        assert_eq!(dumps(&"a\0".into(), Strictness::Jsonb), "\"a\u{fffd}\"");
    }
}
