//! Values as scalars, before their style is chosen (`yaml/representer.py`).

use crate::pytext::float_repr;
use crate::{Map, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A scalar as text, and whether it is text, binary, or something that plain text is resolved to.
pub(super) struct Scalar<'a> {
    pub text: Cow<'a, str>,
    pub kind: ScalarKind,
}

#[derive(PartialEq)]
pub(super) enum ScalarKind {
    Plain,
    Text,
    Binary,
}

pub(super) fn represent(value: &Value) -> Scalar<'_> {
    let plain = |text: String| Scalar {
        text: text.into(),
        kind: ScalarKind::Plain,
    };
    match value {
        Value::Bool(b) => plain(b.to_string()),
        Value::Int(i) => plain(i.to_string()),
        Value::UInt(u) => plain(u.to_string()),
        Value::Float(f) => plain(float_text(*f)),
        Value::Str(s) => Scalar {
            text: s.into(),
            kind: ScalarKind::Text,
        },
        Value::Bytes(b) => Scalar {
            text: base64_lines(b).into(),
            kind: ScalarKind::Binary,
        },
        Value::Nil | Value::Array(_) | Value::Map(_) => plain("null".into()),
    }
}

/// `repr(float)` of Python, changed so that YAML reads a float (`yaml/representer.py represent_float`).
fn float_text(f: f64) -> String {
    if f.is_nan() {
        return ".nan".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    let repr = float_repr(f);
    match repr.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => repr,
    }
}

/// Lines of 76 characters, as `base64.encodebytes` writes them.
fn base64_lines(bytes: &[u8]) -> String {
    use base64::Engine;
    let mut out = String::new();
    for chunk in bytes.chunks(57) {
        base64::engine::general_purpose::STANDARD.encode_string(chunk, &mut out);
        out.push('\n');
    }
    out
}

/// Entries in output order: keys of one type are sorted, mixed ones are not.
pub(super) fn entries(map: &Map, sort: bool) -> Vec<&(Value, Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    let comparable = entries
        .windows(2)
        .all(|pair| compare(&pair[0].0, &pair[1].0).is_some());
    if sort && comparable {
        entries.sort_by(|a, b| compare(&a.0, &b.0).unwrap_or(Ordering::Equal));
    }
    entries
}

fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    let integer = |v: &Value| match v {
        Value::Bool(b) => Some(i128::from(*b)),
        Value::Int(i) => Some(i128::from(*i)),
        Value::UInt(u) => Some(i128::from(*u)),
        _ => None,
    };
    let number = |v: &Value| match v {
        Value::Float(f) => Some(*f),
        v => integer(v).map(|i| i as f64),
    };
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (a, b) => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => Some(number(a)?.total_cmp(&number(b)?)),
        },
    }
}
