//! Values exchanged by Ruby programs: `Marshal` and Psych's YAML, data only.
//!
//! MCollective and the first Choria plugins send Ruby symbols and regular expressions, which neither JSON
//! nor msgpack have. Anything that carries code or names a class is refused: input can only ever become
//! data. (Reference: sections 7 and 8 of the notes on Choria.)

pub mod error;
pub mod json;
pub mod marshal;
mod pairs;
pub mod psych;
#[cfg(test)]
pub mod samples;

pub use error::{DatumError, MAX_BYTES};

use halite_wire::{Map, Value};

/// A value of Ruby.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Datum {
    /// `nil`.
    #[default]
    Nil,
    /// `true`, `false`.
    Bool(bool),
    /// `Integer`. Larger ones are refused.
    Int(i128),
    /// `Float`.
    Float(f64),
    /// `Symbol`, without its colon.
    Symbol(String),
    /// `String` that is text.
    Str(String),
    /// `String` whose encoding is binary, or that is not UTF-8.
    Bytes(Vec<u8>),
    /// `Regexp`.
    Regexp {
        /// The text between the slashes.
        source: String,
        /// Ruby's option bits: 1 ignores case, 2 is extended, 4 lets a dot match line ends.
        options: u8,
    },
    /// `Array`.
    Array(Vec<Datum>),
    /// `Hash`, in order.
    Hash(Vec<(Datum, Datum)>),
}

impl Datum {
    /// A symbol.
    pub fn symbol(name: impl Into<String>) -> Datum {
        Datum::Symbol(name.into())
    }

    /// The value under a key of a hash, whether the key is a symbol or a string.
    pub fn get(&self, key: &str) -> Option<&Datum> {
        let Datum::Hash(pairs) = self else {
            return None;
        };
        let found = pairs.iter().find(|(name, _)| name.as_str() == Some(key));
        found.map(|(_, value)| value)
    }

    /// The text of a string or a symbol.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Datum::Str(text) | Datum::Symbol(text) => Some(text),
            Datum::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The bytes of a string.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Datum::Str(text) => Some(text.as_bytes()),
            Datum::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A regular expression as text that includes its options (`Regexp#to_s`), such as `(?i-mx:a.c)`.
    pub fn regexp_text(&self) -> Option<String> {
        let Datum::Regexp { source, options } = self else {
            return None;
        };
        let letters = |on: bool| -> String {
            let set = [(4, 'm'), (1, 'i'), (2, 'x')];
            let set = set.iter().filter(|(bit, _)| (options & bit != 0) == on);
            set.map(|(_, letter)| *letter).collect()
        };
        let dash = if letters(false).is_empty() { "" } else { "-" };
        let (on, off) = (letters(true), letters(false));
        Some(format!("(?{on}{dash}{off}:{source})"))
    }

    /// An integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Datum::Int(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The elements of an array; empty for anything else.
    pub fn items(&self) -> &[Datum] {
        match self {
            Datum::Array(items) => items,
            _ => &[],
        }
    }

    /// Converts to the value type of the rest of halite: symbols and regular expressions become text.
    pub fn to_value(&self) -> Value {
        match self {
            Datum::Nil => Value::Nil,
            Datum::Bool(flag) => Value::Bool(*flag),
            Datum::Int(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => Value::Int(number),
                (_, Ok(number)) => Value::UInt(number),
                _ => Value::Str(number.to_string()),
            },
            Datum::Float(number) => Value::Float(*number),
            Datum::Symbol(text) | Datum::Str(text) => Value::Str(text.clone()),
            Datum::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Value::Str(text.to_owned()),
                Err(_) => Value::Bytes(bytes.clone()),
            },
            Datum::Regexp { source, .. } => Value::Str(format!("/{source}/")),
            Datum::Array(items) => Value::Array(items.iter().map(Datum::to_value).collect()),
            Datum::Hash(pairs) => {
                let pairs = pairs.iter().map(|(k, v)| (k.to_value(), v.to_value()));
                Value::Map(Map(pairs.collect()))
            }
        }
    }
}

impl From<&Value> for Datum {
    fn from(value: &Value) -> Datum {
        match value {
            Value::Nil => Datum::Nil,
            Value::Bool(flag) => Datum::Bool(*flag),
            Value::Int(number) => Datum::Int((*number).into()),
            Value::UInt(number) => Datum::Int((*number).into()),
            Value::Float(number) => Datum::Float(*number),
            Value::Str(text) => Datum::Str(text.clone()),
            Value::Bytes(bytes) => Datum::Bytes(bytes.clone()),
            Value::Array(items) => Datum::Array(items.iter().map(Datum::from).collect()),
            Value::Map(map) => {
                let pairs = map.iter().map(|(k, v)| (k.into(), v.into()));
                Datum::Hash(pairs.collect())
            }
        }
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Datum {
        Datum::Str(text.to_owned())
    }
}

/// The fewest decimal digits that parse back to a float other than zero, without sign, and how many are before the point.
fn shortest(number: f64) -> (String, i32) {
    let text = format!("{:e}", number.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    (digits.replace('.', ""), exponent + 1)
}

/// `Float#to_s`.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}Infinity");
    }
    if number == 0.0 {
        return format!("{sign}0.0");
    }
    let (digits, point) = shortest(number);
    let count = digits.len() as i32;
    match point {
        1.. if point < count => {
            let (whole, fraction) = digits.split_at(point as usize);
            format!("{sign}{whole}.{fraction}")
        }
        1..=15 => {
            let zeros = "0".repeat((point - count) as usize);
            format!("{sign}{digits}{zeros}.0")
        }
        -3..=0 => {
            let zeros = "0".repeat(point.unsigned_abs() as usize);
            format!("{sign}0.{zeros}{digits}")
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let rest = if rest.is_empty() { "0" } else { rest };
            let (exponent, sign_of) = ((point - 1).abs(), if point > 0 { '+' } else { '-' });
            format!("{sign}{first}.{rest}e{sign_of}{exponent:02}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_ruby_does() {
        // From Ruby 3.1.
        for (number, text) in [
            (1.0, "1.0"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (1e14, "100000000000000.0"),
            (1e15, "1.0e+15"),
            (1e16, "1.0e+16"),
            (1_234_567_890_123_456.0, "1.234567890123456e+15"),
            (0.0001, "0.0001"),
            (0.00001, "1.0e-05"),
            (1.5e300, "1.5e+300"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(float_text(number), text);
        }
    }
}
