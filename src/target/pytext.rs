//! Values as Python prints them and texts as Python reads them, where targeting depends on it.

use crate::wire::{Map, Value};
use std::borrow::Cow;
use std::fmt::Write;

/// White space of Python's `str.split()` and `str.isspace()`.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The words of a text, as `str.split()` gives them.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `str(value)`.
pub fn str(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Str(text) => Cow::Borrowed(text),
        other => Cow::Owned(repr(other)),
    }
}

/// `str(value).lower()`, without a copy where nothing changes.
pub fn lower(value: &Value) -> Cow<'_, str> {
    match str(value) {
        Cow::Borrowed(text) if is_lower(text) => Cow::Borrowed(text),
        text => Cow::Owned(text.to_lowercase()),
    }
}

fn is_lower(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii() && !b.is_ascii_uppercase())
}

/// `repr(value)`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Nil => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(i) => out.push_str(&i.to_string()),
        Value::UInt(u) => out.push_str(&u.to_string()),
        Value::Float(f) => out.push_str(&float(*f)),
        Value::Str(text) => quote(out, text),
        Value::Bytes(bytes) => quote_bytes(out, bytes),
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n == 0 { "" } else { ", " });
                write_repr(out, item);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (n, (key, item)) in map.iter().enumerate() {
                out.push_str(if n == 0 { "" } else { ", " });
                write_repr(out, key);
                out.push_str(": ");
                write_repr(out, item);
            }
            out.push('}');
        }
    }
}

/// Python's shortest form: an exponent below 1e-4 and from 1e16 on, else at least one decimal.
pub(crate) fn float(f: f64) -> String {
    if f.is_nan() {
        return "nan".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let short = format!("{f:e}");
    let (digits, exponent) = short.split_once('e').unwrap_or((&short, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if f != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{f}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

pub(crate) fn quote(out: &mut String, text: &str) {
    let mark = mark_for(text.contains('\''), text.contains('"'));
    out.push(mark);
    for c in text.chars() {
        let _ = match c {
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            c if c == mark => write!(out, "\\{c}"),
            c if c.is_control() && (c as u32) < 0x100 => write!(out, "\\x{:02x}", c as u32),
            c => write!(out, "{c}"),
        };
    }
    out.push(mark);
}

pub(crate) fn quote_bytes(out: &mut String, bytes: &[u8]) {
    let mark = mark_for(bytes.contains(&b'\''), bytes.contains(&b'"'));
    out.push('b');
    out.push(mark);
    for b in bytes {
        let _ = match b {
            b'\\' => write!(out, "\\\\"),
            b'\n' => write!(out, "\\n"),
            b'\r' => write!(out, "\\r"),
            b'\t' => write!(out, "\\t"),
            b if *b as char == mark => write!(out, "\\{mark}"),
            b' '..=b'~' => write!(out, "{}", *b as char),
            b => write!(out, "\\x{b:02x}"),
        };
    }
    out.push(mark);
}

fn mark_for(single: bool, double: bool) -> char {
    if single && !double { '"' } else { '\'' }
}

/// `int(text)`, for the index of a list: white space around, a sign and single underscores between
/// digits are fine.
pub fn int(text: &str) -> Option<i64> {
    let text = text.trim_matches(is_space);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let well_formed = digits
        .split('_')
        .all(|run| !run.is_empty() && run.bytes().all(|b| b.is_ascii_digit()));
    if !well_formed {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// What YAML makes of one word of an expression when it is not text: the key of a map that a text
/// cannot name (`salt/utils/args.py yamlify_arg`, YAML 1.1).
pub fn yaml_key(text: &str) -> Option<Value> {
    let bare = text.trim_matches(' ');
    match bare {
        "~" | "null" | "Null" | "NULL" | "None" => return Some(Value::Nil),
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Some(Value::Bool(true));
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Some(Value::Bool(false));
        }
        _ => {}
    }
    // Digits with underscores stay text by a rule of `yamlify_arg` itself.
    if bare.contains('_') && bare.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return None;
    }
    yaml_int(bare).or_else(|| yaml_float(bare))
}

fn yaml_int(text: &str) -> Option<Value> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.replace('_', "");
    let (radix, digits) = if let Some(hex) = digits.strip_prefix("0x") {
        (16, hex)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        (2, binary)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, &digits[1..])
    } else {
        (10, digits.as_str())
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(Value::Int(if negative { -number } else { number }))
}

fn yaml_float(text: &str) -> Option<Value> {
    let has_dot = text.contains('.');
    let ordinary = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-' | b'e' | b'E'));
    if !has_dot || !ordinary {
        return None;
    }
    text.parse().ok().map(Value::Float)
}

/// `map[key]` with Python's equality of numbers: `1`, `1.0` and `True` are one key.
pub fn get_like<'a>(map: &'a Map, key: &Value) -> Option<&'a Value> {
    let number = number(key);
    map.iter()
        .find(|(own, _)| own == key || (number.is_some() && self::number(own) == number))
        .map(|(_, value)| value)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map;
    use proptest::prelude::*;

    #[test]
    fn numbers_as_keys() {
        let map = Map(vec![(Value::Int(1), Value::from("one"))]);
        for text in ["1", "true", "1.0", "0x1", "01", "+1", " 1 "] {
            let key = yaml_key(text).unwrap();
            assert!(get_like(&map, &key).is_some(), "{text}");
        }
        for text in ["1_0", "x", "", "1.2.3", ".", "-", "0x", "e.", "2026-01-01"] {
            assert_eq!(yaml_key(text), None, "{text}");
        }
        assert_eq!(int("-1"), Some(-1));
        assert_eq!(int("1_0"), Some(10));
        assert_eq!(int("1__0"), None);
        assert_eq!(int(""), None);
    }

    #[test]
    fn nested_values() {
        let value = Value::from(map! {
            "a" => vec![Value::Nil, true.into(), "it's".into(), 1.5.into()],
            "b" => b"\x00\xff'".as_slice(),
        });
        assert_eq!(
            str(&value),
            r#"{'a': [None, True, "it's", 1.5], 'b': b"\x00\xff'"}"#
        );
        assert_eq!(lower(&Value::Bool(true)), "true");
    }

    proptest! {
        #[test]
        fn any_text(text in ".*") {
            let _ = (int(&text), yaml_key(&text), repr(&Value::from(text.as_str())));
        }

        #[test]
        fn any_number(text in "[-+0-9xb_.eE ]{0,12}") {
            let _ = (int(&text), yaml_key(&text));
        }
    }
}
