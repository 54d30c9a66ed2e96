//! JSON as a [`Datum`], within the same limits as Ruby's own encodings.

use super::error::{DatumError, budget};
use super::{Datum, pairs};
use halite_wire::base64;
use halite_wire::json::{JsonError, parse_within};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Parses one JSON text. Of duplicate keys the last is used, as in Ruby; integers beyond 64 bits become floats.
///
/// # Errors
/// Bad syntax, trailing data, or an exceeded limit.
pub fn read(data: &[u8]) -> Result<Datum, DatumError> {
    parse_within(data, &mut budget(data.len())?).map_err(|e| match e {
        JsonError::TooLarge(limit) => limit.into(),
        JsonError::Malformed(why) => DatumError::Malformed(format!("as JSON, {why}")),
    })
}

impl<'de> Deserialize<'de> for Datum {
    fn deserialize<D: Deserializer<'de>>(parser: D) -> Result<Datum, D::Error> {
        parser.deserialize_any(AnyDatum)
    }
}

struct AnyDatum;

impl<'de> Visitor<'de> for AnyDatum {
    type Value = Datum;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Datum, E> {
        Ok(Datum::Nil)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Datum, E> {
        Ok(Datum::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Datum, E> {
        Ok(Datum::Int(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Datum, E> {
        Ok(Datum::Int(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Datum, E> {
        Ok(Datum::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Datum, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Datum, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Datum::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Datum, A::Error> {
        let mut read = Vec::new();
        while let Some(pair) = map.next_entry()? {
            read.push(pair);
        }
        Ok(Datum::Hash(pairs::unique(read.into_iter())))
    }
}

/// Writes a value without blanks, as Ruby and Go do. What JSON does not have becomes text: symbols their name, regular
/// expressions Ruby's `Regexp#to_s`, bytes that are not UTF-8 base64, keys their text; infinities and NaN become `null`.
pub fn write(datum: &Datum) -> String {
    let mut out = String::new();
    value(&mut out, datum);
    out
}

fn text(out: &mut String, text: &str) {
    // Writing a text cannot fail.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

fn key(out: &mut String, name: &Datum) {
    match name {
        Datum::Nil => out.push_str("\"\""),
        // Quotes within quotes double with each level, so a key has no keys of its own.
        Datum::Hash(_) | Datum::Array(_) if has_hash_keys(name) => text(out, "{...}"),
        Datum::Bool(_) | Datum::Int(_) | Datum::Float(_) | Datum::Array(_) | Datum::Hash(_) => {
            text(out, &write(name));
        }
        name => value(out, name),
    }
}

/// Whether a hash in it has an array or a hash for a key.
fn has_hash_keys(datum: &Datum) -> bool {
    match datum {
        Datum::Array(items) => items.iter().any(has_hash_keys),
        Datum::Hash(pairs) => pairs.iter().any(|(name, item)| {
            matches!(name, Datum::Array(_) | Datum::Hash(_)) || has_hash_keys(item)
        }),
        _ => false,
    }
}

fn value(out: &mut String, datum: &Datum) {
    match datum {
        Datum::Nil => out.push_str("null"),
        Datum::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Datum::Int(number) => out.push_str(&number.to_string()),
        Datum::Float(number) => {
            out.push_str(&serde_json::to_string(number).unwrap_or_else(|_| "null".to_owned()));
        }
        Datum::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                value(out, item);
            }
            out.push(']');
        }
        Datum::Hash(pairs) => {
            out.push('{');
            for (at, (name, item)) in pairs.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                key(out, name);
                out.push(':');
                value(out, item);
            }
            out.push('}');
        }
        Datum::Symbol(name) => text(out, name),
        Datum::Str(string) => text(out, string),
        Datum::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(string) => text(out, string),
            Err(_) => text(out, &base64::encode(bytes)),
        },
        regexp @ Datum::Regexp { .. } => text(out, &regexp.regexp_text().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ruby::samples;
    use halite_wire::budget::{MAX_DEPTH, MAX_VALUES};
    use proptest::prelude::*;

    #[test]
    fn json_is_read_within_limits() {
        let read = |text: &str| read(text.as_bytes());
        let pair = |key: &str, value| (Datum::from(key), value);
        assert_eq!(
            read(r#"{"a":1,"b":[null,true,-2,1.5,18446744073709551615],"a":"é"}"#),
            Ok(Datum::Hash(vec![
                pair("a", "é".into()),
                pair(
                    "b",
                    Datum::Array(vec![
                        Datum::Nil,
                        Datum::Bool(true),
                        Datum::Int(-2),
                        Datum::Float(1.5),
                        Datum::Int(u64::MAX.into()),
                    ])
                ),
            ]))
        );
        for bad in [
            "",
            "{",
            "[1,]",
            "ping",
            "1 2",
            "{1:2}",
            "\"\\ud800\"",
            "nul",
        ] {
            assert!(matches!(read(bad), Err(DatumError::Malformed(_))), "{bad}");
        }
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&nested(MAX_DEPTH)).is_ok());
        for large in [
            nested(MAX_DEPTH + 1),
            nested(100_000),
            format!("[{}0]", "0,".repeat(MAX_VALUES)),
            " ".repeat(crate::ruby::MAX_BYTES + 1),
        ] {
            assert!(matches!(read(&large), Err(DatumError::TooLarge(_))));
        }
    }

    #[test]
    fn what_json_lacks_becomes_text() {
        assert_eq!(
            write(&samples::every_kind()),
            r#"{"nil":null,"text":"ünï\nline","bytes":"AP9h","7":1795253614,"nil2":-0.25,"#
                .to_owned()
                + r#""list":["text",true,false,"(?i-mx:^a/b$)",[],{}]}"#
        );
        assert_eq!(write(&Datum::Float(f64::NAN)), "null");
    }

    /// Equal, except that floats may differ in the last digit, since JSON is not parsed exactly here.
    fn alike(a: &Datum, b: &Datum) -> bool {
        match (a, b) {
            (Datum::Float(a), Datum::Float(b)) => (a / b - 1.0).abs() < 1e-14 || a == b,
            (Datum::Array(a), Datum::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
            }
            (Datum::Hash(a), Datum::Hash(b)) => {
                let same = |((k, v), (l, w)): (&(_, _), &(_, _))| k == l && alike(v, w);
                a.len() == b.len() && a.iter().zip(b).all(same)
            }
            _ => a == b,
        }
    }

    #[test]
    fn keys_within_keys_do_not_grow() {
        let pair = |name, item| Datum::Hash(vec![(name, item)]);
        let one = pair(pair("a".into(), Datum::Nil), Datum::Int(1));
        assert_eq!(write(&one), r#"{"{\"a\":null}":1}"#);
        assert_eq!(write(&pair(one, Datum::Int(2))), r#"{"{...}":2}"#);
        let deep = (0..MAX_DEPTH).fold(Datum::Nil, |inner, _| pair(inner, "x".into()));
        assert!(write(&deep).len() < 100);
        let listed = (0..MAX_DEPTH).fold(Datum::Nil, |inner, _| {
            pair(Datum::Array(vec![inner]), "x".into())
        });
        assert!(write(&listed).len() < 100);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(datum in samples::datum()) {
            let once = read(write(&datum).as_bytes()).unwrap();
            let again = read(write(&once).as_bytes()).unwrap();
            prop_assert!(alike(&once, &again), "{:?} {:?}", once, again);
        }
    }
}
