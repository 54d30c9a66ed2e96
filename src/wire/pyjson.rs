//! JSON strings as Python's `json` writes them.

use crate::Value;
use std::fmt::Write;

/// Appends `text` in quotes. With `ascii`, everything but printable ASCII is escaped, as UTF-16
/// (`ensure_ascii`).
pub fn quote(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            c if c < ' ' || (ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A value in one line, as `json.dumps(value, ensure_ascii=False)` writes it. Bytes that are not UTF-8 are replaced, and keys become
/// text.
pub fn dumps(value: &Value) -> String {
    let mut out = String::new();
    dump(&mut out, value);
    out
}

fn dump(out: &mut String, value: &Value) {
    match value {
        Value::Nil => out.push_str("null"),
        Value::Bool(is) => out.push_str(if *is { "true" } else { "false" }),
        Value::Int(n) => out.push_str(&n.to_string()),
        Value::UInt(n) => out.push_str(&n.to_string()),
        // Python writes NaN and Infinity, which is not JSON.
        Value::Float(x) if !x.is_finite() => out.push_str("null"),
        Value::Float(x) => out.push_str(&format!("{x:?}")),
        Value::Str(text) => quote(out, text, false),
        Value::Bytes(bytes) => quote(out, &String::from_utf8_lossy(bytes), false),
        Value::Array(all) => {
            out.push('[');
            for (n, one) in all.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                dump(out, one);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (n, (key, one)) in map.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                match key {
                    Value::Str(text) => quote(out, text, false),
                    other => {
                        let text = dumps(other);
                        quote(out, text.trim_matches('"'), false);
                    }
                }
                out.push_str(": ");
                dump(out, one);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn escapes_are_pythons() {
        let quoted = |ascii| {
            let mut out = String::new();
            super::quote(&mut out, "a\"\\\n\x01\x7fé😀", ascii);
            out
        };
        assert_eq!(quoted(false), "\"a\\\"\\\\\\n\\u0001\x7fé😀\"");
        assert_eq!(
            quoted(true),
            "\"a\\\"\\\\\\n\\u0001\\u007f\\u00e9\\ud83d\\ude00\""
        );
    }
}
