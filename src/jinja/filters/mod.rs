//! Filters of Jinja and Salt.
//!
//! Filters that read or change the host on which a template is rendered are missing: `which`, `file_hashsum`,
//! `list_files`, `is_empty`, `is_text_file`, `is_bin_file`, `http_query`, `dns_check`, `get_uid`. Their names are known
//! but calls are refused, so that templates that only test for them work.

mod access;
mod crypto;
mod data;
mod dicts;
mod group;
mod itertools;
mod json;
pub mod markup;
mod net;
mod net_kinds;
mod numbers;
mod parse;
mod paths;
pub mod pprint;
mod query;
mod random;
mod refused;
mod regex;
mod select;
mod sequences;
mod serialise;
mod sets;
pub mod sort;
mod text;
mod time;
mod truth;
mod urlize;
mod words;
mod wrap;
mod xml;
mod yaml_text;

pub use json::JsonStyle;
pub(super) use regex::matches;

use super::FilterFn;
use super::error::{Error, ErrorKind};
use super::value::Obj;
use std::collections::HashMap;
use std::sync::LazyLock;

type Table = &'static [(&'static str, FilterFn)];

/// One table per subject. If both Salt and Jinja have a filter with a name, Salt's is used.
const TABLES: &[Table] = &[
    crypto::TABLE,
    data::TABLE,
    dicts::TABLE,
    group::TABLE,
    itertools::TABLE,
    markup::TABLE,
    net::TABLE,
    numbers::TABLE,
    paths::TABLE,
    query::TABLE,
    random::TABLE,
    refused::TABLE,
    regex::TABLE,
    select::TABLE,
    sequences::TABLE,
    serialise::TABLE,
    sets::TABLE,
    text::TABLE,
    time::TABLE,
    truth::TABLE,
    urlize::TABLE,
    words::TABLE,
    wrap::TABLE,
    yaml_text::TABLE,
];

static BY_NAME: LazyLock<HashMap<&'static str, FilterFn>> = LazyLock::new(|| {
    TABLES
        .iter()
        .flat_map(|table| table.iter().copied())
        .collect()
});

/// The filter with this name.
pub fn find(name: &str) -> Option<FilterFn> {
    BY_NAME.get(name).copied()
}

/// Whether a filter can be used: it exists and is not one of those that access the disk or the network.
pub fn exists(name: &str) -> bool {
    find(name).is_some() && !refused::TABLE.iter().any(|(known, _)| *known == name)
}

/// The names of all filters.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLES
        .iter()
        .flat_map(|table| table.iter().map(|(name, _)| *name))
}

/// The text, where Python's function accepts nothing else.
fn text_of(value: &Obj) -> Result<&str, Error> {
    match value {
        Obj::Undefined(missing) => Err(missing.error()),
        other => other.as_str().ok_or_else(|| {
            Error::type_error(format!(
                "expected string or bytes-like object, got '{}'",
                other.type_name()
            ))
        }),
    }
}

/// `bool(argument)`, or the default.
fn flag(argument: &Option<Obj>, default: bool) -> Result<bool, Error> {
    argument.as_ref().map_or(Ok(default), Obj::truthy)
}

/// An integer argument, or the default.
fn integer(argument: &Option<Obj>, default: i64) -> Result<i64, Error> {
    let Some(obj) = argument else {
        return Ok(default);
    };
    if let Obj::Undefined(missing) = obj {
        return Err(missing.error());
    }
    obj.as_int().ok_or_else(|| {
        Error::type_error(format!(
            "'{}' object cannot be interpreted as an integer",
            obj.type_name()
        ))
    })
}

/// A text argument, or the default.
fn text_or<'a>(argument: &'a Option<Obj>, default: &'a str) -> Result<&'a str, Error> {
    match argument {
        None => Ok(default),
        Some(obj) => text_of(obj),
    }
}

/// `AttributeError` for a method that values of this type do not have.
fn no_attribute(value: &Obj, name: &str) -> Error {
    Error::new(
        ErrorKind::Attribute,
        format!("'{}' object has no attribute '{name}'", value.type_name()),
    )
}

/// A required argument.
fn required(argument: &Option<Obj>) -> Obj {
    argument.clone().unwrap_or(Obj::None)
}

/// The bytes of a text or of bytes (`salt/utils/stringutils.py to_bytes`).
fn bytes_of(value: &Obj) -> Result<Vec<u8>, Error> {
    match value {
        Obj::Undefined(missing) => Err(missing.error()),
        Obj::Bytes(bytes) => Ok(bytes.to_vec()),
        other => match other.as_str() {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => Err(Error::type_error(format!(
                "expected str, bytes, or bytearray not <class '{}'>",
                other.type_name()
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_twice() {
        let all: usize = TABLES.iter().map(|table| table.len()).sum();
        assert_eq!(all, BY_NAME.len());
    }
}
