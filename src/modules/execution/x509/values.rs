//! Arguments in the forms in which they are given.

use super::der;
use super::names::{self, Name};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const DAY: f64 = 86400.0;
const FORMAT: &str = "%Y-%m-%d %H:%M:%S";
/// The last second of the year 9999.
const LAST: f64 = 253_402_300_799.0;

/// What arguments that are wrong end with.
pub fn invocation(text: impl Into<String>) -> CallError {
    CallError::Invocation(text.into())
}

/// `word in value`.
pub fn has(value: &Value, word: &str) -> Result<bool> {
    match value {
        Value::Str(text) => Ok(text.contains(word)),
        Value::Array(list) => Ok(list.iter().any(|v| v.is_str(word))),
        Value::Map(map) => Ok(map.contains(word)),
        other => Err(CallError::Type(format!(
            "argument of type '{}' is not iterable",
            python::type_name(other)
        ))),
    }
}

/// `value.get("critical", False)`.
pub fn critical_of(map: &Map) -> Result<bool> {
    match map.get("critical") {
        None => Ok(false),
        Some(Value::Bool(critical)) => Ok(*critical),
        Some(_) => Err(CallError::Type(
            "critical must be a boolean value".to_owned(),
        )),
    }
}

/// Pairs in the form of OpenSSL's configuration, and whether they begin with `critical`.
pub fn configuration(text: &str) -> (Vec<(String, Value)>, bool) {
    let rest = text.strip_prefix("critical");
    let body = rest.map_or(text, |r| r.trim_matches(',').trim());
    let pairs = body.split(',').map(|item| {
        let (key, value) = item
            .trim()
            .split_once(':')
            .unwrap_or((item.trim(), PRESENT));
        (key.trim().to_owned(), value.trim().into())
    });
    (pairs.collect(), rest.is_some())
}

/// The value of a word that has none.
const PRESENT: &str = "__present__";

/// Seconds of a time as arguments have it.
///
/// # Errors
/// It has another form.
pub fn parse_time(text: &str) -> Result<i64> {
    let when = DateTime::strptime(FORMAT, text).map_err(|_| {
        let shown = python::repr(&text.into());
        CallError::raised(
            "ValueError",
            format!("time data {shown} does not match format '{FORMAT}'"),
        )
    })?;
    let when = when.to_zoned(TimeZone::UTC).map_err(|_| out_of_range())?;
    Ok(when.timestamp().as_second())
}

fn out_of_range() -> CallError {
    CallError::raised("OverflowError", "date value out of range")
}

/// Now, in seconds.
pub fn now() -> i64 {
    Timestamp::now().as_second()
}

/// Seconds in a number of days from now.
///
/// # Errors
/// It is no number, or too large.
pub fn in_days(days: &Value) -> Result<i64> {
    let days = match days {
        Value::Int(days) => *days as f64,
        Value::Float(days) => *days,
        Value::Bool(one) => f64::from(u8::from(*one)),
        other => {
            return Err(CallError::Type(format!(
                "unsupported type for timedelta days component: {}",
                python::type_name(other)
            )));
        }
    };
    in_seconds(days * DAY)
}

/// Seconds in a number of seconds from now.
///
/// # Errors
/// It is too large.
pub fn in_seconds(seconds: f64) -> Result<i64> {
    let when = now() as f64 + seconds;
    if (-LAST..=LAST).contains(&when) {
        Ok(when as i64)
    } else {
        Err(out_of_range())
    }
}

/// A time under a key, if there is one.
///
/// # Errors
/// It is none.
pub fn time_under(map: &Map, key: &str) -> Result<Option<i64>> {
    match map.get(key).filter(|v| v.truthy()) {
        None => Ok(None),
        Some(Value::Str(text)) => parse_time(text).map(Some),
        Some(other) => Err(CallError::Type(format!(
            "strptime() argument 1 must be str, not {}",
            python::type_name(other)
        ))),
    }
}

/// A serial number (`_get_serial_number`); a random one if none is given.
///
/// # Errors
/// It is none.
pub fn serial_number(given: Option<&Value>) -> Result<Vec<u8>> {
    let bytes = match given {
        None | Some(Value::Nil) => {
            let mut bytes: [u8; 20] = rand::random();
            // 159 bits are the most that fit.
            bytes[0] &= 0x7f;
            return Ok(der::unsigned(&bytes));
        }
        Some(Value::Int(number)) if *number >= 0 => Some(number.to_be_bytes().to_vec()),
        Some(Value::UInt(number)) => Some(number.to_be_bytes().to_vec()),
        Some(Value::Str(text)) => super::unhex(&text.replace(':', "")),
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        Some(_) => None,
    };
    match bytes {
        Some(bytes) => Ok(der::unsigned(&bytes)),
        None => Err(CallError::Command(format!(
            "Could not parse serial number {}",
            given.map(python::str).unwrap_or_default()
        ))),
    }
}

/// The subject that arguments give: as `subject`, or by the names of attributes.
///
/// # Errors
/// It is no name.
pub fn subject(args: &Map) -> Result<Name> {
    match args.get("subject").filter(|v| v.truthy()) {
        Some(subject) => names::parse(subject),
        None => names::parse(&args.clone().into()),
    }
}

/// The error of Python for an attribute that a value does not have.
pub fn attribute_error(value: &Value, name: &str) -> CallError {
    let kind = python::type_name(value);
    CallError::raised(
        "AttributeError",
        format!("'{kind}' object has no attribute '{name}'"),
    )
}

/// A map of pairs, of which later ones win.
pub fn pairs_map(pairs: Vec<(String, Value)>) -> Map {
    let mut map = Map::new();
    for (key, value) in pairs {
        map.set(key, value);
    }
    map
}
