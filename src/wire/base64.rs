//! Base64 as Python and Ruby write and read it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// `base64.b64encode`.
pub fn encode(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// `base64.encodebytes`: lines of at most 76 digits, each ending in a line feed.
pub fn encode_lines(data: &[u8]) -> String {
    lines(data, 57)
}

/// Ruby's `Base64.encode64`: lines of at most 60 digits, each ending in a line feed.
pub fn encode_ruby(data: &[u8]) -> String {
    lines(data, 45)
}

/// One output line per `line` bytes of input, each ending in a line feed.
fn lines(data: &[u8], line: usize) -> String {
    let ends = data.len().div_ceil(line);
    let mut out = String::with_capacity(data.len().div_ceil(3) * 4 + ends);
    for part in data.chunks(line) {
        STANDARD.encode_string(part, &mut out);
        out.push('\n');
    }
    out
}

/// Decodes what Ruby or Go wrote: ignores white space but nothing else. `None` if it is not base64.
pub fn decode_lines(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().any(|b| b.is_ascii_whitespace()) {
        return STANDARD.decode(text).ok();
    }
    let mut digits = text.as_bytes().to_vec();
    digits.retain(|b| !b.is_ascii_whitespace());
    STANDARD.decode(digits).ok()
}

/// `base64.b64decode`: other characters than base64 digits are ignored; the end must be padded.
///
/// # Errors
/// The text of Python's `binascii.Error`.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, String> {
    let (mut bits, mut count, mut pads) = (0u32, 0usize, 0);
    let mut out = Vec::new();
    for byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                pads += 1;
                if count % 4 >= 2 && count % 4 + pads >= 4 {
                    return Ok(out);
                }
                continue;
            }
            _ => continue,
        };
        pads = 0;
        bits = (bits << 6) | u32::from(digit);
        count += 1;
        if count % 4 != 1 {
            let shift = [0, 0, 4, 2][count % 4];
            out.push((bits >> shift) as u8);
        }
    }
    match count % 4 {
        0 => Ok(out),
        1 => Err(format!(
            "Invalid base64-encoded string: number of data characters ({count}) cannot be 1 more \
             than a multiple of 4"
        )),
        _ => Err("Incorrect padding".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_python() {
        assert_eq!(encode_lines(b""), "");
        assert_eq!(encode_lines(b"ab"), "YWI=\n");
        let lines = encode_lines(&[0; 58]);
        assert_eq!(lines, format!("{}\nAA==\n", "A".repeat(76)));
        assert_eq!(decode(lines.as_bytes()), Ok(vec![0; 58]));
        let lines = encode_ruby(&[0; 46]);
        assert_eq!(lines, format!("{}\nAA==\n", "A".repeat(60)));
        assert_eq!(decode_lines(&lines), Some(vec![0; 46]));
        for noise in ["YWI", "Y!W=", "YWI=YWI=", "YWJ="] {
            assert_eq!(decode_lines(noise), None, "{noise}");
        }
        assert_eq!(decode(b"Y!W\nI="), Ok(b"ab".to_vec()));
        assert_eq!(decode(b"YWI"), Err("Incorrect padding".into()));
        assert!(decode(b"YWIxY").unwrap_err().contains("(5)"));
    }
}
