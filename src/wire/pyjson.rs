//! JSON strings as Python's `json` writes them.

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
