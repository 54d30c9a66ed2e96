//! JSON as the returners of Salt store it.

use crate::wire::pytext::str as python_str;
use crate::wire::{Map, Value};
use serde_json::Value as Json;

/// How far a database goes in what it takes for JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// As text: anything goes.
    Text,
    /// PostgreSQL's `jsonb` refuses NUL characters; they become the replacement character.
    Jsonb,
}

/// A value as text. Octets become text, with replacements where they are none; stock Salt loses
/// the whole row then. Numbers that JSON does not know become null.
pub fn dumps(value: &Value, strictness: Strictness) -> String {
    convert(value, strictness).to_string()
}

/// A map as text.
pub fn dumps_map(map: &Map, strictness: Strictness) -> String {
    convert_map(map, strictness).to_string()
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
    fn as_python_writes_it_but_for_spaces() {
        let value = Value::Map(Map(vec![
            (1.into(), "é\"\n".into()),
            (Value::Nil, Value::Float(1.0)),
            (true.into(), Value::Bytes(vec![0xff, b'x'])),
            ("nan".into(), Value::Float(f64::NAN)),
        ]));
        assert_eq!(
            dumps(&value, Strictness::Text),
            "{\"1\":\"é\\\"\\n\",\"null\":1.0,\"true\":\"\u{fffd}x\",\"nan\":null}"
        );
        assert_eq!(dumps(&"a\0".into(), Strictness::Text), "\"a\\u0000\"");
        assert_eq!(dumps(&"a\0".into(), Strictness::Jsonb), "\"a\u{fffd}\"");
    }
}
