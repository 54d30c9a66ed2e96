//! The types of options.

use halite_wire::{Map, Value};
use std::path::PathBuf;

/// A value that was read, with an optional remark for the operator.
pub struct Converted<T> {
    /// The value.
    pub value: T,
    /// Set if the value is written in a form that is only tolerated.
    pub note: Option<&'static str>,
}

/// A type that an option can have.
pub trait OptionValue: Sized {
    /// The type in plain English, for "must be ..." in error messages.
    const TYPE: &'static str;

    /// Whether an empty value is meaningful; otherwise it means the default.
    const OPTIONAL: bool = false;

    /// Reads the value; `None` if it has another type.
    fn from_value(value: &Value) -> Option<Converted<Self>>;

    /// The value as it would be written in the file.
    fn to_value(&self) -> Value;
}

pub(super) fn converted<T>(value: T) -> Option<Converted<T>> {
    Some(Converted { value, note: None })
}

pub(super) fn with_note<T>(value: T, note: &'static str) -> Option<Converted<T>> {
    let note = Some(note);
    Some(Converted { value, note })
}

/// Text as Python's `str()` formats it.
pub(super) fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Str(s) => s.clone(),
        Value::Int(i) => i.to_string(),
        Value::UInt(u) => u.to_string(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Float(_) => halite_wire::yaml::emit_scalar(value),
        _ => return None,
    })
}

impl OptionValue for String {
    const TYPE: &'static str = "text";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        converted(text(value)?)
    }

    fn to_value(&self) -> Value {
        self.into()
    }
}

impl OptionValue for PathBuf {
    const TYPE: &'static str = "a path";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        converted(PathBuf::from(value.as_str()?))
    }

    fn to_value(&self) -> Value {
        self.to_string_lossy().as_ref().into()
    }
}

impl OptionValue for bool {
    const TYPE: &'static str = "true or false";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        match value {
            Value::Bool(b) => converted(*b),
            Value::Int(0) => with_note(false, "write false instead of 0"),
            Value::Int(1) => with_note(true, "write true instead of 1"),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

/// A whole number; text that contains one counts too, as with Python's `int()`.
fn whole(value: &Value) -> Option<Converted<i128>> {
    match value {
        Value::Int(i) => converted((*i).into()),
        Value::UInt(u) => converted((*u).into()),
        Value::Str(s) => converted(s.trim().parse().ok()?),
        Value::Float(f) if f.is_finite() => with_note(
            f.trunc() as i128,
            "only whole numbers are used; the fraction is dropped",
        ),
        _ => None,
    }
}

macro_rules! whole_number {
    ($($type:ty = $words:literal;)*) => {$(
        impl OptionValue for $type {
            const TYPE: &'static str = $words;

            fn from_value(value: &Value) -> Option<Converted<Self>> {
                let Converted { value, note } = whole(value)?;
                let value = value.try_into().ok()?;
                Some(Converted { value, note })
            }

            fn to_value(&self) -> Value {
                (*self).into()
            }
        }
    )*};
}

whole_number! {
    u16 = "a port number from 0 to 65535";
    u32 = "a whole number from 0";
    u64 = "a whole number from 0";
    usize = "a whole number from 0";
    i32 = "a whole number";
    i64 = "a whole number";
}

impl OptionValue for f64 {
    const TYPE: &'static str = "a number";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        match value {
            Value::Int(i) => converted(*i as f64),
            Value::UInt(u) => converted(*u as f64),
            Value::Float(f) => converted(*f),
            Value::Str(s) => converted(s.trim().parse().ok().filter(|f: &f64| f.is_finite())?),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

impl OptionValue for Vec<String> {
    const TYPE: &'static str = "a list of text";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        match value {
            Value::Array(items) => converted(items.iter().map(text).collect::<Option<_>>()?),
            single => converted(vec![text(single)?]),
        }
    }

    fn to_value(&self) -> Value {
        self.clone().into()
    }
}

impl OptionValue for Map {
    const TYPE: &'static str = "a map";

    /// A list of one-key maps counts as a map (`salt/utils/data.py is_dictlist`, `repack_dictlist`).
    fn from_value(value: &Value) -> Option<Converted<Self>> {
        match value {
            Value::Map(m) => converted(m.clone()),
            // Empty ones as well: they are the default of some options in Salt.
            Value::Array(items) => {
                let mut out = Map::new();
                for item in items {
                    match item.as_map()?.0.as_slice() {
                        [(Value::Str(key), value)] => out.set(key, value.clone()),
                        _ => return None,
                    }
                }
                converted(out)
            }
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        self.clone().into()
    }
}

macro_rules! optional {
    ($($type:ty = $words:literal;)*) => {$(
        impl OptionValue for Option<$type> {
            const TYPE: &'static str = $words;
            const OPTIONAL: bool = true;

            fn from_value(value: &Value) -> Option<Converted<Self>> {
                if value.is_nil() {
                    return converted(None);
                }
                let Converted { value, note } = <$type>::from_value(value)?;
                Some(Converted { value: Some(value), note })
            }

            fn to_value(&self) -> Value {
                self.as_ref().map_or(Value::Nil, OptionValue::to_value)
            }
        }
    )*};
}

optional! {
    String = "text or empty";
    PathBuf = "a path or empty";
    bool = "true, false or empty";
    i32 = "a whole number or empty";
    Map = "a map or empty";
    super::LogFormat = "salt, json or empty";
    u32 = "a whole number from 0, or empty";
}
