//! JSON as a [`Datum`], within the same limits as Ruby's own encodings.

use super::error::{Budget, DatumError, deeper};
use super::{Datum, pairs};
use halite_wire::base64;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Parses one JSON text. Of duplicate keys the last is used, as in Ruby; integers beyond 64 bits become floats.
///
/// # Errors
/// Bad syntax, trailing data, or an exceeded limit.
pub fn read(data: &[u8]) -> Result<Datum, DatumError> {
    let mut state = State {
        budget: Budget::new(data.len())?,
        limit: None,
    };
    let mut parser = serde_json::Deserializer::from_slice(data);
    let seed = Seed {
        state: &mut state,
        depth: 0,
    };
    let read = seed.deserialize(&mut parser);
    let read = read.and_then(|datum| parser.end().map(|()| datum));
    read.map_err(|e| {
        let limit = state.limit.take();
        limit.unwrap_or_else(|| DatumError::Malformed(format!("as JSON, {e}")))
    })
}

struct State {
    budget: Budget,
    /// The limit that was exceeded.
    limit: Option<DatumError>,
}

struct Seed<'a> {
    state: &'a mut State,
    depth: usize,
}

impl Seed<'_> {
    /// Records an exceeded limit and fails.
    fn within<T, E: Error>(&mut self, result: Result<T, DatumError>) -> Result<T, E> {
        result.map_err(|limit| {
            let text = limit.to_string();
            self.state.limit = Some(limit);
            E::custom(text)
        })
    }

    fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        let taken = self.state.budget.take(1, bytes);
        self.within(taken)
    }

    fn begin<E: Error>(&mut self) -> Result<(), E> {
        self.take(0)?;
        let depth = deeper(self.depth);
        self.depth = self.within(depth)?;
        Ok(())
    }

    fn inner(&mut self) -> Seed<'_> {
        Seed {
            state: self.state,
            depth: self.depth,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Datum;

    fn deserialize<D: serde::Deserializer<'de>>(self, parser: D) -> Result<Datum, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Datum;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E: Error>(mut self) -> Result<Datum, E> {
        self.take(0)?;
        Ok(Datum::Nil)
    }

    fn visit_bool<E: Error>(mut self, flag: bool) -> Result<Datum, E> {
        self.take(0)?;
        Ok(Datum::Bool(flag))
    }

    fn visit_i64<E: Error>(mut self, number: i64) -> Result<Datum, E> {
        self.take(0)?;
        Ok(Datum::Int(number.into()))
    }

    fn visit_u64<E: Error>(mut self, number: u64) -> Result<Datum, E> {
        self.take(0)?;
        Ok(Datum::Int(number.into()))
    }

    fn visit_f64<E: Error>(mut self, number: f64) -> Result<Datum, E> {
        self.take(0)?;
        Ok(Datum::Float(number))
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<Datum, E> {
        self.take(text.len())?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Datum, A::Error> {
        self.begin()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.inner())? {
            items.push(item);
        }
        Ok(Datum::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Datum, A::Error> {
        self.begin()?;
        let mut read = Vec::new();
        while let Some(key) = map.next_key_seed(self.inner())? {
            read.push((key, map.next_value_seed(self.inner())?));
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
                match name {
                    Datum::Nil => out.push_str("\"\""),
                    Datum::Bool(_)
                    | Datum::Int(_)
                    | Datum::Float(_)
                    | Datum::Array(_)
                    | Datum::Hash(_) => {
                        text(out, &write(name));
                    }
                    name => value(out, name),
                }
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
        assert!(read(&nested(64)).is_ok());
        for large in [
            nested(65),
            nested(100_000),
            format!("[{}0]", "0,".repeat(200_000)),
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

    proptest! {
        #[test]
        fn what_was_written_is_read(datum in samples::datum()) {
            let once = read(write(&datum).as_bytes()).unwrap();
            let again = read(write(&once).as_bytes()).unwrap();
            prop_assert!(alike(&once, &again), "{:?} {:?}", once, again);
        }
    }
}
