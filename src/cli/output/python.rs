//! Python's ways with text: `repr()`, `str()`, line splitting, comparison of keys.
//!
//! Users and their scripts read what Python prints, so the outputters need it to the byte.

use crate::wire::{Map, Value};
use regex::Regex;
use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::LazyLock;

/// What Python's `repr()` gives for the value (a list for [`Value::Array`]).
pub fn python_repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// What Python's `str()` gives: text as it stands, else the `repr()`.
pub fn python_str(value: &Value) -> String {
    match value {
        Value::Str(s) => s.clone(),
        other => python_repr(other),
    }
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Nil => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(i) => push(out, i),
        Value::UInt(u) => push(out, u),
        Value::Float(f) => out.push_str(&float_repr(*f)),
        Value::Str(s) => out.push_str(&str_repr(s)),
        Value::Bytes(b) => out.push_str(&bytes_repr(b)),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(out, item);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(out, key);
                out.push_str(": ");
                write_repr(out, item);
            }
            out.push('}');
        }
    }
}

fn push(out: &mut String, what: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{what}");
}

/// `repr()` of a float: shortest digits that read back the same, exponent from 1e16 and below 1e-4.
pub(super) fn float_repr(f: f64) -> String {
    if f.is_nan() {
        return "nan".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{f:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if f == 0.0 || (-4..16).contains(&exponent) {
        return format!("{f:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Categories that Python's `str.isprintable()` refuses, the plain space apart.
static UNPRINTABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{C}\p{Z}]").ok());

fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let mut buffer = [0; 4];
    match UNPRINTABLE.as_ref() {
        Some(pattern) => !pattern.is_match(c.encode_utf8(&mut buffer)),
        None => true,
    }
}

fn quote_for(single: bool, double: bool) -> char {
    if single && !double { '"' } else { '\'' }
}

/// `repr()` of text.
pub(super) fn str_repr(text: &str) -> String {
    let quote = quote_for(text.contains('\''), text.contains('"'));
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => match u32::from(c) {
                n @ ..=0xff => push(&mut out, format_args!("\\x{n:02x}")),
                n @ ..=0xffff => push(&mut out, format_args!("\\u{n:04x}")),
                n => push(&mut out, format_args!("\\U{n:08x}")),
            },
        }
    }
    out.push(quote);
    out
}

/// `repr()` of octets.
pub(super) fn bytes_repr(octets: &[u8]) -> String {
    let quote = quote_for(octets.contains(&b'\''), octets.contains(&b'"'));
    let mut out = String::with_capacity(octets.len() + 3);
    out.push('b');
    out.push(quote);
    for &b in octets {
        match b {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b if char::from(b) == quote => {
                out.push('\\');
                out.push(quote);
            }
            b' '..=b'~' => out.push(char::from(b)),
            b => push(&mut out, format_args!("\\x{b:02x}")),
        }
    }
    out.push(quote);
    out
}

/// Python's idea of white space: Unicode's, and the four ASCII separators.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// `str.strip()`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `str.rstrip()`.
pub(super) fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// `str.lstrip()`.
pub(super) fn lstrip(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\x0b' | '\x0c' | '\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// `str.splitlines(True)`: lines with their ends.
pub(super) fn split_lines_keeping_ends(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !is_line_end(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        lines.push(&text[start..end]);
        start = end;
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

/// `str.splitlines()`.
pub(super) fn split_lines(text: &str) -> Vec<&str> {
    split_lines_keeping_ends(text)
        .into_iter()
        .map(|line| match line.strip_suffix("\r\n") {
            Some(rest) => rest,
            None => line.strip_suffix(is_line_end).unwrap_or(line),
        })
        .collect()
}

/// Escape characters of foreign text become `?` (`salt/output/__init__.py strip_esc_sequence`).
pub(super) fn strip_esc(text: &str) -> String {
    text.replace('\x1b', "?")
}

/// `salt.utils.data.decode`: octets that are UTF-8 become text, at every depth.
///
/// Stock raises on other octets; here they stay octets.
pub(super) fn decode(value: &Value) -> Value {
    match value {
        Value::Bytes(b) => match std::str::from_utf8(b) {
            Ok(text) => Value::from(text),
            Err(_) => value.clone(),
        },
        Value::Array(items) => Value::Array(items.iter().map(decode).collect()),
        Value::Map(map) => Value::Map(Map(map
            .iter()
            .map(|(k, v)| (decode(k), decode(v)))
            .collect())),
        other => other.clone(),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(b) => Some(f64::from(u8::from(*b))),
        Value::Int(i) => Some(*i as f64),
        Value::UInt(u) => Some(*u as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    }
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Bool(b) => Some(i128::from(*b)),
        Value::Int(i) => Some(i128::from(*i)),
        Value::UInt(u) => Some(i128::from(*u)),
        _ => None,
    }
}

/// Python's `<` and `>` between two values; `None` where Python raises `TypeError`.
pub(super) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return Some(a.cmp(&b));
    }
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return Some(a.total_cmp(&b));
    }
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Entries in the order of `sorted(dict)`; `None` where the keys do not compare.
pub(super) fn sorted_entries(map: &Map) -> Option<Vec<&(Value, Value)>> {
    let mut entries: Vec<_> = map.iter().collect();
    if entries
        .windows(2)
        .any(|pair| compare(&pair[0].0, &pair[1].0).is_none())
    {
        return None;
    }
    entries.sort_by(|a, b| compare(&a.0, &b.0).unwrap_or(Ordering::Equal));
    Some(entries)
}

/// The place of a type in pprint's order of keys that do not compare: by the name of the class.
fn class_rank(value: &Value) -> u8 {
    match value {
        Value::Nil => 0,
        Value::Bytes(_) => 1,
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => 2,
        Value::Str(_) => 3,
        Value::Array(_) => 4,
        Value::Map(_) => 5,
    }
}

/// Entries in the order of Python's pprint, which never fails.
pub(super) fn pprint_entries(map: &Map) -> Vec<&(Value, Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|(a, _), (b, _)| {
        compare(a, b).unwrap_or_else(|| class_rank(a).cmp(&class_rank(b)))
    });
    entries
}

/// `str.title()`: letters after a non-letter in upper case, all others in lower case.
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_lowercase() || c.is_uppercase();
    }
    out
}
