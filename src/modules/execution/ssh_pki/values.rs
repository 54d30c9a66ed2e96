//! Arguments in the forms in which they are given.

use super::cert::Fields;
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use crate::execution::x509::{attribute_error, serial_bytes};
use halite_wire::Value;

/// As many principals as OpenSSH reads.
const MOST_PRINCIPALS: usize = 256;

/// Seconds of a time string, such as `1.5h`; a number is one of seconds.
///
/// # Errors
/// It is neither.
pub fn seconds(given: &Value) -> Result<f64> {
    let text = match given {
        Value::Str(text) => text,
        other => return number(other),
    };
    if let Ok(number) = text.trim().replace('_', "").parse::<f64>() {
        return Ok(number);
    }
    let factor = match text.chars().last() {
        Some('s') => 1.0,
        Some('m') => 60.0,
        Some('h') => 3600.0,
        Some('d') => 86400.0,
        _ => 0.0,
    };
    let digits = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    match digits.parse::<f64>() {
        Ok(number) if is_number && factor > 0.0 => Ok(number * factor),
        _ => {
            let text = format!("Invalid time string format: {text}");
            Err(CallError::raised("ValueError", text))
        }
    }
}

fn number(given: &Value) -> Result<f64> {
    match given {
        Value::Int(number) => Ok(*number as f64),
        Value::UInt(number) => Ok(*number as f64),
        Value::Float(number) => Ok(*number),
        Value::Bool(one) => Ok(f64::from(u8::from(*one))),
        other => Err(CallError::Type(format!(
            "float() argument must be a string or a real number, not '{}'",
            python::type_name(other)
        ))),
    }
}

/// The number of a certificate; a random one if none is given.
///
/// # Errors
/// It is none, or too large.
pub fn serial(given: &Value) -> Result<u64> {
    let bytes = match given {
        // As in stock, only positive ones of Python's `int`.
        Value::Nil => return Ok(rand::random::<u64>() >> 1),
        Value::Bool(one) => vec![u8::from(*one)],
        Value::Int(negative) if *negative < 0 => Vec::from([1; 9]),
        other => serial_bytes(Some(other))?,
    };
    if bytes.len() > 8 {
        let text = "serial must be between 0 and 2**64";
        return Err(CallError::raised("ValueError", text));
    }
    Ok(bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u64::from(*byte)))
}

/// What certificates are named by in logs.
///
/// # Errors
/// It is no text.
pub fn key_id(given: &Value) -> Result<Vec<u8>> {
    match given {
        Value::Str(text) => Ok(text.clone().into_bytes()),
        Value::Bytes(bytes) => Ok(bytes.clone()),
        other if !other.truthy() => Ok(Vec::new()),
        _ => Err(CallError::Type("key_id must be bytes".to_owned())),
    }
}

/// Principals. (Stock takes the letters of a text for principals.)
///
/// # Errors
/// They are no texts, or too many.
pub fn principals(given: &Value) -> Result<Vec<Vec<u8>>> {
    let all = match given {
        Value::Array(list) => list.clone(),
        Value::Map(map) => map.iter().map(|(key, _)| key.clone()).collect(),
        text @ (Value::Str(_) | Value::Bytes(_)) => vec![text.clone()],
        other => {
            let kind = python::type_name(other);
            let text = format!("'{kind}' object is not iterable");
            return Err(CallError::Type(text));
        }
    };
    if all.len() > MOST_PRINCIPALS {
        let text = "Reached or exceeded the maximum number of valid_principals";
        return Err(CallError::raised("ValueError", text));
    }
    let bytes = |one: &Value| match one {
        Value::Str(text) => Some(text.clone().into_bytes()),
        Value::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    };
    let all: Option<Vec<_>> = all.iter().map(bytes).collect();
    all.ok_or_else(|| {
        CallError::Type("principals must be a list of bytes and can't be empty".to_owned())
    })
}

/// Critical options or extensions, in their order.
///
/// # Errors
/// They are no map of texts and flags.
pub fn fields(given: &Value) -> Result<Fields> {
    let map = match given {
        Value::Map(map) => map,
        other if !other.truthy() => return Ok(Vec::new()),
        other => return Err(attribute_error(other, "items")),
    };
    let mut all: Fields = Vec::new();
    for (name, value) in map.iter().filter(|(_, value)| value.truthy()) {
        let text = |value: &Value| match value {
            Value::Str(text) => Ok(text.clone().into_bytes()),
            other => Err(attribute_error(other, "encode")),
        };
        let value = match value {
            Value::Bool(_) => Vec::new(),
            other => text(other)?,
        };
        all.push((text(name)?, value));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_strings() {
        let good = |text: &str| seconds(&text.into()).ok();
        assert_eq!(good("1.5h"), Some(5400.0));
        assert_eq!(good("1d"), Some(86400.0));
        assert_eq!(good("60"), Some(60.0));
        for bad in ["", "d", "1w", "1h30m", " 1d", "-1d", "1.5.5d", ".5d", "1D"] {
            assert_eq!(good(bad), None, "{bad}");
        }
        assert!(seconds(&Value::Nil).is_err());
    }

    #[test]
    fn serial_numbers() {
        let good = |given: Value| serial(&given).ok();
        assert_eq!(good("DE:AD".into()), Some(0xdead));
        assert_eq!(good(0.into()), Some(0));
        assert_eq!(good((-1).into()), None);
        assert_eq!(good("zz".into()), None);
        assert_eq!(good("1".repeat(40).into()), None);
    }
}
