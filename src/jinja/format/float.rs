//! Formats floats in the three styles of C's `printf`.

/// No float has more decimal places than this, and Rust's formatting refuses very large precisions.
const DIGITS: usize = 1100;

/// Padding for a precision above [`DIGITS`].
fn zeros(precision: usize) -> String {
    "0".repeat(precision.saturating_sub(DIGITS))
}

/// `%f`: decimal places, no exponent.
pub fn fixed(f: f64, precision: usize, alternate: bool) -> String {
    if !f.is_finite() {
        return special(f);
    }
    let mut out = format!("{f:.*}", precision.min(DIGITS));
    out.push_str(&zeros(precision));
    if alternate && precision == 0 {
        out.push('.');
    }
    out
}

/// `%e`: one digit before the point, an exponent of at least two digits.
pub fn exponent(f: f64, precision: usize, alternate: bool) -> String {
    if !f.is_finite() {
        return special(f);
    }
    let text = format!("{f:.*e}", precision.min(DIGITS));
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = format!("{digits}{}", zeros(precision));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let point = if alternate && precision == 0 { "." } else { "" };
    format!("{digits}{point}{}", exponent_text(exponent))
}

fn exponent_text(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.abs())
}

/// `%g`: significant digits, the shorter of both styles. `always_float` adds `.0` to a result that looks like an
/// integer, and switches to the exponent one digit earlier, as a format without a type does.
pub fn general(f: f64, precision: usize, alternate: bool, always_float: bool) -> String {
    if !f.is_finite() {
        return special(f);
    }
    let precision = precision.clamp(1, DIGITS);
    let text = format!("{f:.*e}", precision - 1);
    let (digits, exp) = text.split_once('e').unwrap_or((&text, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    let limit = precision as i32 - i32::from(always_float);
    if exp < -4 || exp >= limit {
        let digits = if alternate { digits } else { trimmed(digits) };
        return format!("{digits}{}", exponent_text(exp));
    }
    let places = (precision as i32 - 1 - exp).max(0) as usize;
    let text = fixed(f, places, alternate);
    if alternate {
        return text;
    }
    let text = trimmed(&text);
    if always_float && !text.contains('.') {
        format!("{text}.0")
    } else {
        text.to_owned()
    }
}

fn trimmed(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

fn special(f: f64) -> String {
    match (f.is_nan(), f > 0.0) {
        (true, _) => "nan",
        (_, true) => "inf",
        _ => "-inf",
    }
    .to_owned()
}
