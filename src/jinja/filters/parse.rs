//! Python's `int()` and `float()` for text.

use halite_wire::pytext::is_space;
use num_bigint::BigInt;

/// Removes single underscores between digits; `None` if underscores are elsewhere.
fn without_underscores(digits: &str) -> Option<String> {
    if digits.starts_with('_') || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    Some(digits.replace('_', ""))
}

/// `int(text, base)`; base 0 is taken from the prefix.
pub fn int(text: &str, base: i64) -> Option<BigInt> {
    let text = text.trim_matches(is_space);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_lowercase();
    let prefixed = match lower.get(..2) {
        Some("0x") => 16,
        Some("0o") => 8,
        Some("0b") => 2,
        _ => 0,
    };
    let (radix, digits) = match base {
        0 if prefixed != 0 => (prefixed, &lower[2..]),
        0 if lower.len() > 1
            && lower.starts_with('0')
            && !lower.trim_matches(['0', '_']).is_empty() =>
        {
            return None;
        }
        0 => (10, lower.as_str()),
        base if base == prefixed => (prefixed, &lower[2..]),
        base => (base, lower.as_str()),
    };
    let digits = if prefixed != 0 && radix == prefixed {
        digits.strip_prefix('_').unwrap_or(digits)
    } else {
        digits
    };
    let digits = without_underscores(digits)?;
    if !(2..=36).contains(&radix) || digits.is_empty() || digits.len() > 4300 {
        return None;
    }
    let radix = radix as u32;
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let number = BigInt::parse_bytes(digits.as_bytes(), radix)?;
    Some(if negative { -number } else { number })
}

/// `float(text)`.
pub fn float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    if !text.contains('_') {
        return text.parse().ok();
    }
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('_') {
        let digit = |at: Option<usize>| {
            at.and_then(|at| bytes.get(at))
                .is_some_and(u8::is_ascii_digit)
        };
        if !digit(at.checked_sub(1)) || !digit(Some(at + 1)) {
            return None;
        }
    }
    text.replace('_', "").parse().ok()
}
