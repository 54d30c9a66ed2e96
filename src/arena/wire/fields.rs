//! Fields of JSON, parsed with limits: errors name the field by its path, such as `data/args/env/3`.

use super::{Fault, Json, Object, Trouble};
use halite_wire::budget::Budget;
use halite_wire::json::parse_within;
use std::str::FromStr;

/// The result of parsing.
pub(super) type Read<T> = Result<T, Box<Fault>>;

/// Longest name or other short text, in characters (reference, section 4).
pub(super) const SHORT: usize = 255;
/// Longest other text, such as a file or one of `apis`, in characters.
pub(super) const LONG: usize = 1024;

/// A fault about the field with this path.
pub(super) fn fault(trouble: Trouble, path: impl Into<String>) -> Box<Fault> {
    Box::new(Fault::new(trouble, path.into()))
}

/// Parses JSON with limits on size and nesting.
///
/// # Errors
/// It is not JSON, or over a limit.
pub(super) fn json(text: &[u8]) -> Read<Json> {
    parse_within(text, &mut Budget::fixed()).map_err(|e| fault(Trouble::NotJson, e.to_string()))
}

/// A string of at most `longest` characters.
pub(super) fn text(value: Json, longest: usize, path: &str) -> Read<String> {
    match value {
        Json::String(text) if text.len() <= longest || text.chars().count() <= longest => Ok(text),
        _ => Err(fault(Trouble::BadField, path)),
    }
}

/// A string, or the text of a number or boolean: peers write arguments either way.
pub(super) fn scalar(value: Json, path: &str) -> Read<String> {
    match value {
        Json::Number(number) => Ok(number.to_string()),
        Json::Bool(truth) => Ok(truth.to_string()),
        other => text(other, usize::MAX, path),
    }
}

/// A whole number that is not negative; `7.0` is accepted too.
pub(super) fn whole(value: &Json) -> Option<u64> {
    // Above 2^53 a float no longer represents exactly one whole number.
    let exact = |f: &f64| f.fract() == 0.0 && (0.0..9.0e15).contains(f);
    value
        .as_u64()
        .or_else(|| value.as_f64().filter(exact).map(|f| f as u64))
}

/// The fields of an object. Absent, null and an empty string are treated alike.
pub(super) struct Fields {
    map: Object,
    path: String,
    known: Vec<&'static str>,
}

impl Fields {
    /// The fields of the object at this path.
    pub(super) fn new(value: Json, path: impl Into<String>) -> Read<Fields> {
        let path = path.into();
        match value {
            Json::Object(map) => Ok(Fields {
                map,
                path,
                known: Vec::new(),
            }),
            _ => Err(fault(Trouble::BadField, path)),
        }
    }

    /// The path of a field.
    pub(super) fn at(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.into(),
            path => format!("{path}/{key}"),
        }
    }

    /// A fault about a field.
    pub(super) fn bad(&self, key: &str) -> Box<Fault> {
        fault(Trouble::BadField, self.at(key))
    }

    /// A fault about a missing field.
    pub(super) fn missing(&self, key: &str) -> Box<Fault> {
        fault(Trouble::MissingField, self.at(key))
    }

    /// Takes a field.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Json> {
        self.known.push(key);
        match self.map.get_mut(key)?.take() {
            Json::Null => None,
            Json::String(text) if text.is_empty() => None,
            value => Some(value),
        }
    }

    /// Takes a string.
    pub(super) fn text(&mut self, key: &'static str, longest: usize) -> Read<Option<String>> {
        let value = self.take(key);
        value.map(|v| text(v, longest, &self.at(key))).transpose()
    }

    /// Takes a string of a type that has its own parser.
    pub(super) fn parsed<T: FromStr>(&mut self, key: &'static str) -> Read<Option<T>> {
        let text = self.text(key, LONG)?;
        let parsed = text.map(|text| text.parse().map_err(|_| self.bad(key)));
        parsed.transpose()
    }

    /// Takes a required field.
    pub(super) fn required<T: FromStr>(&mut self, key: &'static str) -> Read<T> {
        self.parsed(key)?.ok_or_else(|| self.missing(key))
    }

    /// Takes a whole number.
    pub(super) fn whole(&mut self, key: &'static str) -> Read<Option<u64>> {
        let value = self.take(key);
        let number = value.map(|v| whole(&v).ok_or_else(|| self.bad(key)));
        number.transpose()
    }

    /// Takes a list.
    pub(super) fn list(&mut self, key: &'static str, most: usize) -> Read<Option<Vec<Json>>> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Array(list)) if list.len() <= most => Ok(Some(list)),
            Some(Json::Array(_)) => {
                let what = format!("{}: {most} at most", self.at(key));
                Err(fault(Trouble::TooMany, what))
            }
            Some(_) => Err(self.bad(key)),
        }
    }

    /// Takes a list; `read` parses each entry, given its path.
    pub(super) fn each<T>(
        &mut self,
        key: &'static str,
        most: usize,
        read: impl Fn(Json, &str) -> Read<T>,
    ) -> Read<Option<Vec<T>>> {
        let Some(list) = self.list(key, most)? else {
            return Ok(None);
        };
        let at = self.at(key);
        let entry = |(n, value)| read(value, &format!("{at}/{n}"));
        list.into_iter()
            .enumerate()
            .map(entry)
            .collect::<Read<_>>()
            .map(Some)
    }

    /// The fields not taken, in their order.
    pub(super) fn rest(self) -> Object {
        let known = self.known;
        let rest = self.map.into_iter();
        rest.filter(|(key, _)| !known.contains(&key.as_str()))
            .collect()
    }
}
