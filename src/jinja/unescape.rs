//! Escapes in string literals, as in Python's `unicode-escape` codec.

/// The text of a string literal.
///
/// # Errors
/// A truncated `\x`, `\u` or `\U`, an invalid code point, or `\N{...}`, since there is no table of names.
pub fn unescape(text: &str) -> Result<String, String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = escape(&rest[at + 1..], &mut out)?;
    }
    out.push_str(rest);
    Ok(out)
}

/// Parses the text after a backslash and returns the rest.
fn escape<'a>(text: &'a str, out: &mut String) -> Result<&'a str, String> {
    let Some(c) = text.chars().next() else {
        return Err("\\ at end of string".to_owned());
    };
    let rest = &text[c.len_utf8()..];
    let plain = match c {
        '\n' => return Ok(rest),
        '\\' | '\'' | '"' => c,
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '0'..='7' => return Ok(octal(text, out)),
        'x' => return hex(rest, 2, "truncated \\xXX escape", out),
        'u' => return hex(rest, 4, "truncated \\uXXXX escape", out),
        'U' => return hex(rest, 8, "truncated \\UXXXXXXXX escape", out),
        'N' => return Err("unknown Unicode character name".to_owned()),
        other => {
            out.push('\\');
            other
        }
    };
    out.push(plain);
    Ok(rest)
}

fn octal<'a>(text: &'a str, out: &mut String) -> &'a str {
    let digits = text
        .bytes()
        .take(3)
        .take_while(|b| matches!(b, b'0'..=b'7'))
        .count();
    let code = text[..digits]
        .bytes()
        .fold(0, |code, b| code * 8 + u32::from(b - b'0'));
    out.extend(char::from_u32(code));
    &text[digits..]
}

fn hex<'a>(text: &'a str, length: usize, cut: &str, out: &mut String) -> Result<&'a str, String> {
    let digits = text.get(..length).ok_or(cut)?;
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(cut.to_owned());
    }
    let code = u32::from_str_radix(digits, 16).map_err(|_| cut)?;
    if code > 0x10_ffff {
        return Err("illegal Unicode character".to_owned());
    }
    // Half of a surrogate pair is not a valid character here.
    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    Ok(&text[length..])
}
