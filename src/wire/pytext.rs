//! Values and texts as Python prints them: `str()`, `repr()`, white space.
//!
//! Users, scripts and targets read what Python prints, so the output must match byte for byte.

use super::{Map, Value};
use regex::Regex;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

/// `str(value)`: text unchanged, else the [`repr`].
pub fn str(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Str(text) => Cow::Borrowed(text),
        other => Cow::Owned(repr(other)),
    }
}

/// `repr(value)`, a list for [`Value::Array`].
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    put(&mut out, value);
    out
}

/// `repr(dict)`.
pub fn repr_map(map: &Map) -> String {
    let mut out = String::new();
    put_map(&mut out, map);
    out
}

/// `repr(tuple(values))`, as for `*args`.
pub fn repr_tuple(values: &[Value]) -> String {
    let mut out = String::from("(");
    put_items(&mut out, values);
    if values.len() == 1 {
        out.push(',');
    }
    out.push(')');
    out
}

fn put(out: &mut String, value: &Value) {
    match value {
        Value::Nil => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(i) => push(out, i),
        Value::UInt(u) => push(out, u),
        Value::Float(f) => out.push_str(&float_repr(*f)),
        Value::Str(text) => out.push_str(&str_repr(text)),
        Value::Bytes(bytes) => out.push_str(&bytes_repr(bytes)),
        Value::Array(items) => {
            out.push('[');
            put_items(out, items);
            out.push(']');
        }
        Value::Map(map) => put_map(out, map),
    }
}

fn put_items(out: &mut String, items: &[Value]) {
    for (n, item) in items.iter().enumerate() {
        out.push_str(if n == 0 { "" } else { ", " });
        put(out, item);
    }
}

fn put_map(out: &mut String, map: &Map) {
    out.push('{');
    for (n, (key, item)) in map.iter().enumerate() {
        out.push_str(if n == 0 { "" } else { ", " });
        put(out, key);
        out.push_str(": ");
        put(out, item);
    }
    out.push('}');
}

fn push(out: &mut String, what: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{what}");
}

/// `repr()` of a float: the shortest digits that parse back to it, an exponent from 1e16 and below 1e-4.
pub fn float_repr(f: f64) -> String {
    if f.is_nan() {
        return "nan".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = shortest(f);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if f == 0.0 || (-4..16).contains(&exponent) {
        let places = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
        let places = i32::try_from(places).unwrap_or(0) - exponent;
        return format!("{f:.*}", usize::try_from(places).unwrap_or(0).max(1));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The fewest digits that parse back to `f`, in scientific notation. Of two equally near ones
/// Python chooses the even one, as formatting with a fixed number of digits does.
fn shortest(f: f64) -> String {
    let shortest = format!("{f:e}");
    let digits = shortest.split(['e', '.']).nth(1);
    let places = if shortest.contains('.') {
        digits.map_or(0, str::len)
    } else {
        0
    };
    let even = format!("{f:.places$e}");
    if even.parse() == Ok(f) {
        even
    } else {
        shortest
    }
}

/// Categories that Python's `str.isprintable()` rejects, except the plain space.
static UNPRINTABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{C}\p{Z}]").ok());

/// `c.isprintable()`.
pub fn is_printable(c: char) -> bool {
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
pub fn str_repr(text: &str) -> String {
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

/// `repr()` of bytes.
pub fn bytes_repr(bytes: &[u8]) -> String {
    let quote = quote_for(bytes.contains(&b'\''), bytes.contains(&b'"'));
    let mut out = String::with_capacity(bytes.len() + 3);
    out.push('b');
    out.push(quote);
    for &b in bytes {
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

/// What `\w` of Python's `re` matches: letters, numbers and `_`, but no marks.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{L}\p{N}]").ok());
/// What its `\d` matches.
static DECIMAL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\p{Nd}").ok());

fn is_in(class: &LazyLock<Option<Regex>>, c: char) -> bool {
    let mut buffer = [0; 4];
    class
        .as_ref()
        .is_some_and(|class| class.is_match(c.encode_utf8(&mut buffer)))
}

/// Whether `\w` of Python's `re` matches.
pub fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    is_in(&WORD, c)
}

/// Whether `\d` of Python's `re` matches.
pub fn is_decimal(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    is_in(&DECIMAL, c)
}

/// White space in Python: Unicode's, and the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// The words of a text, as `str.split()` gives them.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// A value as a number, for Python's equality: `1`, `1.0` and `True` are equal.
pub fn number(value: &Value) -> Option<f64> {
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

    #[test]
    fn values() {
        let list = Value::Array(vec![
            1.into(),
            "x'\"\n\u{e9}\u{a0}\u{200b}".into(),
            1.0.into(),
            1e16.into(),
            1e-5.into(),
            Value::Nil,
            true.into(),
            "q'".into(),
        ]);
        assert_eq!(
            repr(&list),
            "[1, 'x\\'\"\\n\u{e9}\\xa0\\u200b', 1.0, 1e+16, 1e-05, None, True, \"q'\"]"
        );
        let map = map! {
            "a" => vec![Value::Nil, "it's".into(), 1.5.into()],
            "b" => b"\x00\xff'".as_slice(),
        };
        let text = r#"{'a': [None, "it's", 1.5], 'b': b"\x00\xff'"}"#;
        assert_eq!(
            (repr_map(&map).as_str(), &*str(&map.clone().into())),
            (text, text)
        );
        assert_eq!([repr_tuple(&[1.into()]), repr_tuple(&[])], ["(1,)", "()"]);
        assert_eq!(str(&"it's".into()), "it's");
    }

    #[test]
    fn floats() {
        let shown = [
            0.0,
            -0.0,
            0.1,
            1e15,
            123456789012345680.0,
            1e-4,
            5e-324,
            f64::INFINITY,
        ];
        let shown: Vec<String> = shown.into_iter().map(float_repr).collect();
        let wanted = [
            "0.0",
            "-0.0",
            "0.1",
            "1000000000000000.0",
            "1.2345678901234568e+17",
            "0.0001",
            "5e-324",
            "inf",
        ];
        assert_eq!(shown, wanted);
    }
}
