//! Numbers as Ruby parses and writes them.

use num_bigint::BigInt;

/// Longest text of a number, in bytes.
const LONGEST: usize = 1024;

/// `Integer(text)`: sign, base prefix (a lone zero means octal), single underscores between digits. `None` if Ruby raises an
/// exception.
pub(super) fn integer(text: &str) -> Option<BigInt> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    if text.len() > LONGEST {
        return None;
    }
    let (negative, text) = match text.strip_prefix('-') {
        Some(text) => (true, text),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = text.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0b", 2), ("0o", 8), ("0d", 10)];
    let known = prefixes
        .iter()
        .find_map(|(prefix, base)| Some((lower.strip_prefix(prefix)?, *base)));
    let (digits, base) = match known {
        Some(found) => found,
        None if lower.len() > 1 && lower.starts_with('0') => {
            (lower[1..].strip_prefix('_').unwrap_or(&lower[1..]), 8)
        }
        None => (lower.as_str(), 10),
    };
    let number = BigInt::parse_bytes(plain(digits)?.as_bytes(), base)?;
    Some(if negative { -number } else { number })
}

/// Digits without the underscores between them; `None` if there are underscores elsewhere or signs.
fn plain(digits: &str) -> Option<String> {
    let good = digits.split('_').all(|part| !part.is_empty()) && !digits.starts_with(['+', '-']);
    good.then(|| digits.replace('_', ""))
}

/// `Float(text)`. `None` if Ruby raises an exception.
pub(super) fn float(text: &str) -> Option<f64> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    if text.len() > LONGEST {
        return None;
    }
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let digits = plain(digits)?;
        return digits
            .chars()
            .try_fold(0.0, |sum, c| Some(sum * 16.0 + f64::from(c.to_digit(16)?)));
    }
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    for (at, octet) in bytes.iter().enumerate() {
        let good = match octet {
            // Each needs a digit on both sides.
            b'_' | b'.' => digit(at.checked_sub(1)) && digit(Some(at + 1)),
            b'+' | b'-' => at == 0 || matches!(bytes[at - 1], b'e' | b'E'),
            b'e' | b'E' => digit(at.checked_sub(1)),
            octet => octet.is_ascii_digit(),
        };
        if !good {
            return None;
        }
    }
    text.replace('_', "").parse().ok()
}

/// Whether a line of the text is digits: `^[0-9]+$`.
pub(super) fn digits(text: &str) -> bool {
    text.split('\n').any(all_digits)
}

fn all_digits(line: &str) -> bool {
    !line.is_empty() && line.bytes().all(|c| c.is_ascii_digit())
}

/// Whether a line of the text is digits, any character, digits: `^[0-9]+.[0-9]+$`.
pub(super) fn float_like(text: &str) -> bool {
    text.split('\n').any(|line| {
        let others = || line.char_indices().filter(|(_, c)| !c.is_ascii_digit());
        match others().next() {
            None => line.len() >= 3,
            Some((at, c)) => all_digits(&line[..at]) && all_digits(&line[at + c.len_utf8()..]),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, expected) in [
            ("12", Some(12)),
            (" -12\n", Some(-12)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("08", None),
            ("1_000", Some(1000)),
            ("0_7", Some(7)),
            ("1__0", None),
            ("_1", None),
            ("0x1f", Some(31)),
            ("0b11", Some(3)),
            ("--1", None),
            ("0x-1", None),
            ("", None),
            ("1.0", None),
        ] {
            assert_eq!(integer(text), expected.map(BigInt::from), "{text:?}");
        }
    }

    #[test]
    fn floats() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("2048", Some(2048.0)),
            ("2e3", Some(2000.0)),
            ("2_3", Some(23.0)),
            ("0x1", Some(1.0)),
            ("1.", None),
            (".5", None),
            ("1x5", None),
            ("1 5", None),
            ("inf", None),
            ("-1.5e-1", Some(-0.15)),
        ] {
            assert_eq!(float(text), expected, "{text:?}");
        }
    }

    #[test]
    fn shapes() {
        for (text, int, float) in [
            ("1", true, false),
            ("2048", true, true),
            ("12", true, false),
            ("1.5", false, true),
            ("1x5", false, true),
            ("1.5.2", false, false),
            ("a\n12\nb", true, false),
            ("-1", false, false),
            ("1é5", false, true),
            ("", false, false),
            (".5", false, false),
        ] {
            assert_eq!((digits(text), float_like(text)), (int, float), "{text:?}");
        }
    }
}
