//! Python's handling of text and keys: lines, white space, order.
//!
//! Users and their scripts read what Python prints, so the outputters must match it to the byte.

use halite_wire::pytext::{self, number};
use halite_wire::{Map, Value};
use std::cmp::Ordering;

pub use pytext::repr as python_repr;
pub(super) use pytext::{bytes_repr, float_repr, is_space, str_repr};

/// Python's `str()`: text as it is, otherwise the `repr()`.
pub fn python_str(value: &Value) -> String {
    pytext::str(value).into_owned()
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

/// `str.splitlines(True)`: lines with their line ends.
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

/// Replaces escape characters in foreign text by `?` (`salt/output/__init__.py strip_esc_sequence`).
pub(super) fn strip_esc(text: &str) -> String {
    text.replace('\x1b', "?")
}

/// `salt.utils.data.decode`: bytes that are valid UTF-8 become text, at all depths.
///
/// Stock raises an exception on other bytes; here they stay bytes.
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

/// The rank of a type in pprint's order of incomparable keys: by the name of the class.
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
            push_title_case(&mut out, c);
        }
        inside = c.is_lowercase() || c.is_uppercase() || is_digraph(c);
    }
    out
}

/// Letters that are a pair of letters with a title case form of their own (U+01C5 and others).
fn is_digraph(c: char) -> bool {
    matches!(c, '\u{1c4}'..='\u{1cc}' | '\u{1f1}'..='\u{1f3}')
}

fn push_title_case(out: &mut String, c: char) {
    match c {
        '\u{1c4}'..='\u{1c6}' => return out.push('\u{1c5}'),
        '\u{1c7}'..='\u{1c9}' => return out.push('\u{1c8}'),
        '\u{1ca}'..='\u{1cc}' => return out.push('\u{1cb}'),
        '\u{1f1}'..='\u{1f3}' => return out.push('\u{1f2}'),
        _ => {}
    }
    let mut upper = c.to_uppercase();
    out.extend(upper.next());
    out.extend(upper.flat_map(char::to_lowercase));
}
