//! Values as Python prints them, for texts and returns that stock Salt makes with
//! `str()`, `repr()` and `type()`.

use crate::wire::{Map, Value};
use std::fmt::Write;

/// `str(value)`.
pub fn str(value: &Value) -> String {
    match value {
        Value::Str(s) => s.clone(),
        other => repr(other),
    }
}

/// `repr(value)`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    put(&mut out, value);
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

/// `repr(dict)`.
pub fn repr_map(map: &Map) -> String {
    let mut out = String::new();
    put_map(&mut out, map);
    out
}

/// `str(type(value))`.
pub fn class(value: &Value) -> &'static str {
    match value {
        Value::Nil => "<class 'NoneType'>",
        Value::Bool(_) => "<class 'bool'>",
        Value::Int(_) | Value::UInt(_) => "<class 'int'>",
        Value::Float(_) => "<class 'float'>",
        Value::Str(_) => "<class 'str'>",
        Value::Bytes(_) => "<class 'bytes'>",
        Value::Array(_) => "<class 'list'>",
        Value::Map(_) => "<class 'dict'>",
    }
}

/// `int(value)`, with the text of Python's `ValueError` or `TypeError`.
pub fn int(value: &Value) -> Result<i64, super::Fault> {
    let bad = |text: String| super::Fault::raised("ValueError", text);
    match value {
        Value::Int(i) => Ok(*i),
        Value::Bool(b) => Ok(i64::from(*b)),
        Value::Float(f) if f.is_finite() => Ok(f.trunc() as i64),
        Value::Str(s) => s.trim().replace('_', "").parse().map_err(|_| {
            bad(format!(
                "invalid literal for int() with base 10: {}",
                repr(value)
            ))
        }),
        other => Err(super::Fault::Type(format!(
            "int() argument must be a string, a bytes-like object or a real number, not '{}'",
            short_class(other)
        ))),
    }
}

/// `type(value).__name__`.
pub fn short_class(value: &Value) -> &'static str {
    class(value)
        .trim_start_matches("<class '")
        .trim_end_matches("'>")
}

fn put(out: &mut String, value: &Value) {
    match value {
        Value::Nil => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(i) => push(out, format_args!("{i}")),
        Value::UInt(u) => push(out, format_args!("{u}")),
        Value::Float(f) => out.push_str(&float(*f)),
        Value::Str(s) => put_str(out, s),
        Value::Bytes(b) => put_bytes(out, b),
        Value::Array(a) => {
            out.push('[');
            put_items(out, a);
            out.push(']');
        }
        Value::Map(m) => put_map(out, m),
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
}

fn put_items(out: &mut String, values: &[Value]) {
    for (i, v) in values.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        put(out, v);
    }
}

fn put_map(out: &mut String, map: &Map) {
    out.push('{');
    for (i, (k, v)) in map.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        put(out, k);
        out.push_str(": ");
        put(out, v);
    }
    out.push('}');
}

/// Single quotes unless the text holds some and no double ones.
fn quote(has_single: bool, has_double: bool) -> char {
    if has_single && !has_double { '"' } else { '\'' }
}

fn put_str(out: &mut String, s: &str) {
    let q = quote(s.contains('\''), s.contains('"'));
    out.push(q);
    for c in s.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == q => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x20 || (0x7f..=0xa0).contains(&u32::from(c)) || c == '\u{ad}' => {
                push(out, format_args!("\\x{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push(q);
}

fn put_bytes(out: &mut String, b: &[u8]) {
    let q = quote(b.contains(&b'\''), b.contains(&b'"'));
    out.push('b');
    out.push(q);
    for &c in b {
        match c {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            c if char::from(c) == q => {
                out.push('\\');
                out.push(q);
            }
            0x20..=0x7e => out.push(char::from(c)),
            c => push(out, format_args!("\\x{c:02x}")),
        }
    }
    out.push(q);
}

/// A float as Python's `repr` writes it: shortest form, exponent from 1e16 and below 1e-4.
pub fn float(f: f64) -> String {
    if f.is_nan() {
        return "nan".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = f.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{f:e}");
        let Some((mantissa, exponent)) = text.split_once('e') else {
            return text;
        };
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    let text = format!("{f}");
    if text.contains('.') {
        text
    } else {
        text + ".0"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map;

    #[test]
    fn prints_as_python_does() {
        let list = Value::Array(vec![
            1.into(),
            "x'\"\n\u{e9}".into(),
            1.0.into(),
            1e16.into(),
            1e-5.into(),
            Value::Nil,
            true.into(),
            "q'".into(),
            map! {"a" => "b"}.into(),
        ]);
        assert_eq!(
            repr(&list),
            "[1, 'x\\'\"\\n\u{e9}', 1.0, 1e+16, 1e-05, None, True, \"q'\", {'a': 'b'}]"
        );
        assert_eq!(repr_tuple(&[1.into()]), "(1,)");
        assert_eq!(repr_tuple(&[]), "()");
        assert_eq!(repr(&Value::Bytes(vec![0xff, b'a'])), "b'\\xffa'");
    }
}
