//! The tag of plain text in YAML 1.1 (`yaml/resolver.py`) and its value (`yaml/constructor.py`,
//! `salt/utils/yamlloader.py construct_scalar`).

use crate::Value;

/// The resolved tag of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Str,
    Binary,
    Merge,
    /// The `=` of YAML 1.1: plain text as a key; Salt cannot construct it elsewhere.
    Default,
    Seq,
    Map,
    Set,
    Pairs,
    Other(String),
}

/// The tag that PyYAML gives plain text. Dates are plain text for Salt.
pub(super) fn implicit_tag(text: &str) -> Tag {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Tag::Null,
        "<<" => Tag::Merge,
        "=" => Tag::Default,
        _ if boolean_word(text) => Tag::Bool,
        _ if is_float(text) => Tag::Float,
        _ if is_int(text) => Tag::Int,
        _ => Tag::Str,
    }
}

/// How a loader that supports dates would resolve plain text.
#[derive(PartialEq, Eq)]
pub(super) enum Plain {
    Text,
    Other,
}

/// How a text is resolved when it is written without quotes.
pub(super) fn plain_meaning(text: &str) -> Plain {
    match implicit_tag(text) {
        Tag::Str if !is_timestamp(text) => Plain::Text,
        _ => Plain::Other,
    }
}

fn boolean_word(text: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: [&str; 18] = [
        "yes", "Yes", "YES", "no", "No", "NO", "true", "True", "TRUE", "false", "False", "FALSE",
        "on", "On", "ON", "off", "Off", "OFF",
    ];
    WORDS.contains(&text)
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

fn all(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(allowed)
}

fn digit_or_underscore(b: u8) -> bool {
    b.is_ascii_digit() || b == b'_'
}

/// `[0-9][0-9_]*`
fn number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && all(text, digit_or_underscore)
}

/// `(:[0-5]?[0-9])+`, given without its first colon.
fn sixties(text: &str) -> bool {
    text.split(':').all(|part| match part.as_bytes() {
        [d] => d.is_ascii_digit(),
        [tens, d] => (b'0'..=b'5').contains(tens) && d.is_ascii_digit(),
        _ => false,
    })
}

fn is_int(text: &str) -> bool {
    let body = unsigned(text);
    if let Some(bits) = body.strip_prefix("0b") {
        return all(bits, |b| matches!(b, b'0' | b'1' | b'_'));
    }
    if let Some(hex) = body.strip_prefix("0x") {
        return all(hex, |b| b.is_ascii_hexdigit() || b == b'_');
    }
    if let Some(octal) = body.strip_prefix('0') {
        return octal.bytes().all(|b| matches!(b, b'0'..=b'7' | b'_'));
    }
    match body.split_once(':') {
        Some((first, rest)) => number(first) && sixties(rest),
        None => number(body),
    }
}

/// `([eE][-+][0-9]+)?`
fn exponent(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['e', 'E']) else {
        return text.is_empty();
    };
    rest.strip_prefix(['-', '+'])
        .is_some_and(|digits| all(digits, |b| b.is_ascii_digit()))
}

/// `[0-9_]*` and then an exponent or nothing.
fn fraction(text: &str) -> bool {
    exponent(text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_'))
}

fn is_float(text: &str) -> bool {
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let body = unsigned(text);
    if matches!(body, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let Some((whole, rest)) = body.split_once('.') else {
        return false;
    };
    if whole.is_empty() {
        // A sign is not allowed before a leading dot.
        return body == text && rest.starts_with(|c: char| c.is_ascii_digit()) && fraction(rest);
    }
    match whole.split_once(':') {
        Some((first, minutes)) => {
            number(first) && sixties(minutes) && rest.bytes().all(digit_or_underscore)
        }
        None => number(whole) && fraction(rest),
    }
}

/// A date, or a date with a time (`yaml/resolver.py`, the pattern of timestamps).
fn is_timestamp(text: &str) -> bool {
    let digits = |s: &str, least: usize, most: usize| {
        (least..=most).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit())
    };
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    if !digits(year, 4, 4) || !digits(month, 1, 2) {
        return false;
    }
    if digits(rest, 2, 2) && month.len() == 2 {
        return true;
    }
    let Some((day, time)) = rest.split_once(['T', 't', ' ', '\t']) else {
        return false;
    };
    let time = if rest[day.len()..].starts_with(['T', 't']) {
        time
    } else {
        time.trim_start_matches([' ', '\t'])
    };
    digits(day, 1, 2) && is_time(time)
}

/// `h:mm:ss`, an optional fraction and zone.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let hour = if digit(1) { 2 } else { 1 };
    let two = |i: usize| bytes.get(i) == Some(&b':') && digit(i + 1) && digit(i + 2);
    if !digit(0) || !two(hour) || !two(hour + 3) {
        return false;
    }
    let mut rest = &text[hour + 6..];
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    if rest.is_empty() {
        return true;
    }
    let zone = rest.trim_start_matches([' ', '\t']);
    let Some(offset) = zone.strip_prefix(['-', '+']) else {
        return zone == "Z";
    };
    let (hours, minutes) = offset.split_once(':').unwrap_or((offset, "00"));
    let number = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    matches!(hours.len(), 1 | 2) && minutes.len() == 2 && number(hours) && number(minutes)
}

/// The boolean a text means, in any letter case.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" => Some(true),
        "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// The integer a text means, or `None` if Python's `int()` would reject it.
pub(super) fn integer(text: &str) -> Option<Value> {
    let text = without_leading_zeros(text).replace('_', "");
    let negative = text.starts_with('-');
    let body = unsigned(&text);
    let (digits, radix) = if body == "0" {
        (body, 10)
    } else if let Some(bits) = body.strip_prefix("0b") {
        (bits, 2)
    } else if let Some(hex) = body.strip_prefix("0x") {
        (hex, 16)
    } else if body.starts_with('0') {
        (body, 8)
    } else if body.contains(':') {
        return sexagesimal(body).map(|n| narrow(if negative { -n } else { n }));
    } else {
        (body, 10)
    };
    if !all(digits, |b| b.is_ascii_alphanumeric()) {
        return None;
    }
    match i128::from_str_radix(digits, radix) {
        Ok(n) => Some(narrow(if negative { -n } else { n })),
        Err(e) if *e.kind() == std::num::IntErrorKind::PosOverflow => Some(Value::Str(text)),
        Err(_) => None,
    }
}

/// Salt strips the zeros of an unsigned integer, so that `0644` is the number 644
/// (`salt/utils/yamlloader.py construct_scalar`).
fn without_leading_zeros(text: &str) -> &str {
    if text == "0" || !text.starts_with('0') || text.starts_with("0b") || text.starts_with("0x") {
        return text;
    }
    match text.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    }
}

fn sexagesimal(body: &str) -> Option<i128> {
    body.split(':').try_fold(0i128, |sum, part| {
        let part: i128 = part.parse().ok()?;
        sum.checked_mul(60)?.checked_add(part)
    })
}

fn narrow(n: i128) -> Value {
    if let Ok(n) = i64::try_from(n) {
        return Value::Int(n);
    }
    match u64::try_from(n) {
        Ok(n) => Value::UInt(n),
        Err(_) => Value::Str(n.to_string()),
    }
}

/// The float a text means, or `None` if Python's `float()` would reject it.
pub(super) fn float(text: &str) -> Option<f64> {
    let text = text.replace('_', "").to_ascii_lowercase();
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let body = unsigned(&text);
    match body {
        ".inf" => return Some(sign * f64::INFINITY),
        ".nan" => return Some(f64::NAN),
        _ => {}
    }
    if body.contains(':') {
        let sum = body.split(':').try_fold(0.0, |sum, part| {
            Some(sum * 60.0 + part.parse::<f64>().ok()?)
        })?;
        return Some(sign * sum);
    }
    body.parse::<f64>().ok().map(|f| sign * f)
}

/// Base64 as Salt 3008 and Python's lenient decoder read it: missing padding is added,
/// characters outside the alphabet are skipped (`binascii.a2b_base64`).
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() {
        return None;
    }
    let padding = match text.len() % 4 {
        0 => 0,
        n => 4 - n,
    };
    let (mut out, mut bits, mut have, mut pads) = (Vec::new(), 0u32, 0, 0);
    for b in text.bytes().chain(std::iter::repeat_n(b'=', padding)) {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                pads += 1;
                if have >= 2 && have + pads >= 4 {
                    return Some(out);
                }
                continue;
            }
            _ => continue,
        };
        pads = 0;
        bits = (bits << 6 | u32::from(six)) & 0xff_ffff;
        if have > 0 {
            out.push((bits >> (6 - 2 * have)) as u8);
        }
        have = (have + 1) % 4;
    }
    (have == 0).then_some(out)
}
