//! `key=value` arguments given as plain text.

use crate::wire::Value;

/// Splits `name=value` as Salt does: a name of letters, digits, `_`, `.` and `-` that
/// does not begin with a digit, one `=`, no line break in the value
/// (`salt/utils/args.py parse_kwarg`).
pub fn parse_kwarg(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let first = name.chars().next()?;
    if !(first.is_alphabetic() || first == '_') {
        return None;
    }
    if !name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
    {
        return None;
    }
    if value.starts_with('=') {
        return None;
    }
    let value = value.strip_suffix('\n').unwrap_or(value);
    (!value.contains('\n')).then_some((name, value))
}

/// The value of such an argument. Masters condition arguments before publishing, so
/// only clients that send raw text come here; plain scalars are resolved, anything
/// more stays text.
pub fn yamlify(text: &str) -> Value {
    match text {
        "None" | "null" | "Null" | "NULL" | "~" => return Value::Nil,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return true.into();
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain && (digits == "0" || !digits.starts_with('0')) {
        if let Ok(i) = text.parse::<i64>() {
            return i.into();
        }
    }
    if digits.contains('.') && digits.starts_with(|c: char| c.is_ascii_digit()) {
        if let Ok(f) = text.parse::<f64>() {
            return f.into();
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_keywords() {
        assert_eq!(parse_kwarg("a=b"), Some(("a", "b")));
        assert_eq!(parse_kwarg("a.b-c="), Some(("a.b-c", "")));
        assert_eq!(parse_kwarg("a==b"), None);
        assert_eq!(parse_kwarg("1a=b"), None);
        assert_eq!(parse_kwarg("a b=c"), None);
        assert_eq!(parse_kwarg("a=b\nc"), None);
        assert_eq!(parse_kwarg("plain"), None);
    }
}
