//! Values as Python prints them, for texts and returns that stock Salt makes with
//! `str()`, `repr()` and `type()`.

use crate::wire::{Value, pytext};

pub use pytext::{repr, repr_map, repr_tuple};

/// `str(value)`.
pub fn str(value: &Value) -> String {
    pytext::str(value).into_owned()
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
