//! Python's handling of text, where targeting depends on it.

pub use halite_wire::pytext::{is_space, number, str, words};
use halite_wire::{Map, Value};
use std::borrow::Cow;

/// `str(value).lower()`, without copying unchanged text.
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

/// `int(text)` for a list index: surrounding white space, a sign, and single underscores between digits are allowed.
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

/// The YAML value of one word of an expression if it is not text: a map key that text cannot name (`salt/utils/args.py
/// yamlify_arg`, YAML 1.1).
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
    // Digits with underscores stay text; that is a rule of `yamlify_arg` itself.
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

/// `map[key]` with Python's equality of numbers: `1`, `1.0` and `True` are the same key.
pub fn get_like<'a>(map: &'a Map, key: &Value) -> Option<&'a Value> {
    let wanted = number(key);
    map.iter()
        .find(|(own, _)| own == key || (wanted.is_some() && number(own) == wanted))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn lower_case() {
        assert_eq!(lower(&Value::Bool(true)), "true");
        assert_eq!(lower(&"ÄB".into()), "äb");
    }

    proptest! {
        #[test]
        fn any_text(text in ".*") {
            let _ = (int(&text), yaml_key(&text), lower(&Value::from(text.as_str())));
        }

        #[test]
        fn any_number(text in "[-+0-9xb_.eE ]{0,12}") {
            let _ = (int(&text), yaml_key(&text));
        }
    }
}
