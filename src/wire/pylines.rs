//! Splits text and bytes into lines, in each of Python's ways. Lines keep their line ends.

/// `readlines()` of a binary file: lines end in a line feed.
pub fn split_bytes(data: &[u8]) -> Vec<&[u8]> {
    data.split_inclusive(|b| *b == b'\n').collect()
}

/// `readlines()` of a text file with `newline=''`: lines end in a line feed, a carriage return, or both.
pub fn of_file(text: &str) -> Vec<&str> {
    split(text, |c| matches!(c, '\n' | '\r'))
}

/// `str.splitlines(True)`.
pub fn of_text(text: &str) -> Vec<&str> {
    split(text, |c| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    })
}

fn split(text: &str, ends: impl Fn(char) -> bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = match rest.char_indices().find(|(_, c)| ends(*c)) {
            Some((at, '\r')) if rest[at + 1..].starts_with('\n') => at + 2,
            Some((at, c)) => at + c.len_utf8(),
            None => rest.len(),
        };
        lines.push(&rest[..end]);
        rest = &rest[end..];
    }
    lines
}

/// Bytes as text: UTF-8, or Latin-1 if they are not valid UTF-8 (`salt/utils/data.py decode` with the
/// encodings of `salt/utils/stringutils.py get_diff_list`).
pub fn decode(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => latin1(bytes),
    }
}

/// Each byte as the character with that code.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|b| char::from(*b)).collect()
}

/// The inverse of [`latin1`]; other characters are left out.
pub fn from_latin1(text: &str) -> Vec<u8> {
    text.chars()
        .filter_map(|c| u8::try_from(u32::from(c)).ok())
        .collect()
}

/// The text of Python's `UnicodeDecodeError` for bytes that are not valid UTF-8.
pub fn utf8_error(bytes: &[u8]) -> Option<String> {
    let e = std::str::from_utf8(bytes).err()?;
    let at = e.valid_up_to();
    let first = bytes[at];
    let starts = (0xc2..=0xf4).contains(&first);
    let why = match e.error_len() {
        None => "unexpected end of data",
        Some(_) if !starts => "invalid start byte",
        Some(_) => "invalid continuation byte",
    };
    let length = e.error_len().unwrap_or(bytes.len() - at);
    Some(match length {
        1 => format!("'utf-8' codec can't decode byte 0x{first:02x} in position {at}: {why}"),
        n => format!(
            "'utf-8' codec can't decode bytes in position {at}-{}: {why}",
            at + n - 1
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(split_bytes(b"a\r\nb\rc\n"), [&b"a\r\n"[..], b"b\rc\n"]);
        assert_eq!(
            of_file("a\r\nb\rc\n\x0cd"),
            ["a\r\n", "b\r", "c\n", "\x0cd"]
        );
        assert_eq!(
            of_text("a\x0cb\u{2028}\r\n"),
            ["a\x0c", "b\u{2028}", "\r\n"]
        );
        assert!(of_text("").is_empty());
        assert_eq!(decode(b"\xe9"), "\u{e9}");
        assert_eq!(from_latin1(&latin1(b"\x00\xff")), b"\x00\xff");
        assert_eq!(
            utf8_error(b"ab\xff").unwrap(),
            "'utf-8' codec can't decode byte 0xff in position 2: invalid start byte"
        );
        assert_eq!(utf8_error(b"ab"), None);
    }
}
