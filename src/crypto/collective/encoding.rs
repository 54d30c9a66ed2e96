//! Base64 of signatures, hashes and keys: Ruby writes lines of 60 digits, Go writes it unbroken, both read both.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Octets in a line of Ruby's `Base64.encode64`.
const LINE: usize = 45;

/// Unbroken, as Go writes it.
pub(super) fn encode(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// Lines of at most 60 digits, each with its line end, as Ruby's `Base64.encode64` writes them.
pub(super) fn encode_lines(data: &[u8]) -> String {
    let lines = data.chunks(LINE).map(|part| STANDARD.encode(part) + "\n");
    lines.collect()
}

/// Reads base64 with white space anywhere; `None` for anything else in it, and where it gives more than `most` octets.
pub(super) fn decode(text: &[u8], most: usize) -> Option<Vec<u8>> {
    let digits = text.iter().copied().filter(|c| !c.is_ascii_whitespace());
    // Counted before anything is put aside.
    if digits.clone().count() > most.div_ceil(3).saturating_mul(4) {
        return None;
    }
    let digits: Zeroizing<Vec<u8>> = Zeroizing::new(digits.collect());
    let data = STANDARD.decode(digits.as_slice()).ok()?;
    (data.len() <= most).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_ruby() {
        assert_eq!(encode_lines(b""), "");
        let lines = encode_lines(&[0; 46]);
        assert_eq!(lines, format!("{}\nAA==\n", "A".repeat(60)));
        assert_eq!(decode(lines.as_bytes(), 46), Some(vec![0; 46]));
        assert_eq!(decode(encode(&[7; 46]).as_bytes(), 46), Some(vec![7; 46]));
        assert_eq!(decode(b" YW\r\nI=\t", 2), Some(b"ab".to_vec()));
    }

    #[test]
    fn noise_and_length_are_refused() {
        for bad in ["YWI", "Y!WI=", "YWI=YWI=", "=", "YWJ=", "Y\0WI=", "-_-_"] {
            assert_eq!(decode(bad.as_bytes(), 100), None, "{bad}");
        }
        assert_eq!(decode(b"YWI=", 1), None);
        assert_eq!(decode(&[b'A'; 400], 256), None);
        assert_eq!(decode(b"", 0), Some(vec![]));
    }
}
