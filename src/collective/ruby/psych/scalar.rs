//! How Psych resolves plain text (`Psych::ScalarScanner`).

use crate::ruby::{Datum, DatumError};

/// The meaning of plain text.
#[derive(Debug, PartialEq)]
pub(super) enum Plain {
    /// A value, which may be text.
    Value(Datum),
    /// A date or time, or something that Psych fails on: text for us, written in quotes.
    Ambiguous,
}

/// Scans plain text.
///
/// # Errors
/// A number is too large.
pub(super) fn scan(text: &str) -> Result<Plain, DatumError> {
    let value = |datum| Ok(Plain::Value(datum));
    if text.is_empty() {
        return value(Datum::Nil);
    }
    if is_word(text) || text.contains('\n') {
        return value(word(text).unwrap_or_else(|| text.into()));
    }
    if is_date_or_time(text) {
        return Ok(Plain::Ambiguous);
    }
    match text.to_ascii_lowercase().as_str() {
        ".inf" | "+.inf" => return value(Datum::Float(f64::INFINITY)),
        "-.inf" => return value(Datum::Float(f64::NEG_INFINITY)),
        ".nan" => return value(Datum::Float(f64::NAN)),
        _ => {}
    }
    if let Some(name) = text.strip_prefix(':').filter(|name| !name.is_empty()) {
        return value(Datum::symbol(symbol(name)));
    }
    if let Some(datum) = sixties(text) {
        return value(datum);
    }
    if let Some(number) = decimal(text) {
        return Ok(number.map_or(Plain::Ambiguous, |n| Plain::Value(Datum::Float(n))));
    }
    integer(text)
}

/// Text that starts with a letter, optionally after one other character.
fn is_word(text: &str) -> bool {
    let letter = |c: char| {
        c.is_alphabetic() || c.is_ascii_whitespace() || "_!@#$%^&*(){}<>|/\\~;=".contains(c)
    };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(first), _) if letter(first) => true,
        (Some(first), Some(second)) => {
            !(first.is_ascii_digit() || ".:-".contains(first)) && letter(second)
        }
        _ => false,
    }
}

/// The words that are not text.
fn word(text: &str) -> Option<Datum> {
    if text.len() > 5 {
        return None;
    }
    match text.to_ascii_lowercase().as_str() {
        "~" | "null" => Some(Datum::Nil),
        "yes" | "true" | "on" => Some(Datum::Bool(true)),
        "no" | "false" | "off" => Some(Datum::Bool(false)),
        _ => None,
    }
}

/// The name of a symbol, which may be in quotes.
fn symbol(name: &str) -> &str {
    let quote = name.chars().next().filter(|c| matches!(c, '"' | '\''));
    let quoted = quote.and_then(|quote| {
        let inner = &name[1..];
        inner.rfind(quote).map(|end| &inner[..end])
    });
    match quoted {
        Some(inner) => inner.strip_prefix(':').unwrap_or(inner),
        None => name,
    }
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

/// Splits `least` to `most` digits off the front.
fn some_digits(text: &str, least: usize, most: usize) -> Option<(&str, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (least..=most)
        .contains(&count)
        .then(|| text.split_at(count))
}

/// `2026-11-22`, `2026-11-22 10:20:30.5 +01:00`.
fn is_date_or_time(text: &str) -> bool {
    date_or_time(text).is_some()
}

fn date_or_time(text: &str) -> Option<()> {
    let (year, rest) = text.strip_prefix('-').unwrap_or(text).split_once('-')?;
    let (month, rest) = rest.split_once('-')?;
    if year.len() != 4 || !digits(year) || !digits(month) || month.len() > 2 {
        return None;
    }
    let (_, rest) = some_digits(rest, 1, 2)?;
    if rest.is_empty() {
        return Some(());
    }
    let rest = match rest.strip_prefix(['T', 't']) {
        Some(rest) => rest,
        None => {
            let trimmed = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
            (trimmed.len() < rest.len()).then_some(trimmed)?
        }
    };
    let (_, rest) = some_digits(rest, 1, 2)?;
    let (_, rest) = some_digits(rest.strip_prefix(':')?, 2, 2)?;
    let (_, rest) = some_digits(rest.strip_prefix(':')?, 2, 2)?;
    let rest = match rest.strip_prefix('.') {
        Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let zone = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
    if zone.is_empty() {
        return rest.is_empty().then_some(());
    }
    if zone == "Z" {
        return Some(());
    }
    let (_, minutes) = some_digits(zone.strip_prefix(['-', '+'])?, 1, 4)?;
    let minutes = minutes.strip_prefix(':').unwrap_or(minutes);
    (minutes.is_empty() || (minutes.len() == 2 && digits(minutes))).then_some(())
}

/// Hours, minutes and seconds; Psych reads two numbers as hours and minutes.
fn sixties(text: &str) -> Option<Datum> {
    let (number, fraction) = match text.split_once('.') {
        Some((number, fraction)) => (number, Some(fraction)),
        None => (text, None),
    };
    let parts: Vec<&str> = number.split(':').collect();
    let first = unsigned(parts[0]);
    let number = |b: u8| b.is_ascii_digit() || b == b'_';
    let first_good = first.starts_with(|c: char| c.is_ascii_digit()) && first.bytes().all(number);
    let minute = |part: &&str| match part.as_bytes() {
        [one] => one.is_ascii_digit(),
        [ten, one] => (b'0'..=b'5').contains(ten) && one.is_ascii_digit(),
        _ => false,
    };
    let good = (2..=3).contains(&parts.len()) && first_good && parts[1..].iter().all(minute);
    if !good || !fraction.is_none_or(|f| f.bytes().all(number)) {
        return None;
    }
    let plain: Vec<i128> = parts
        .iter()
        .map_while(|part| until_bad(part).parse().ok())
        .collect();
    let weights = [3600, 60, 1];
    let sum = plain.iter().zip(weights).try_fold(0i128, |sum, (n, w)| {
        n.checked_mul(w).and_then(|n| sum.checked_add(n))
    })?;
    if plain.len() < parts.len() {
        return None;
    }
    let Some(fraction) = fraction else {
        return Some(Datum::Int(sum));
    };
    let weight = weights[parts.len() - 1] as f64;
    let fraction = format!("0.{}", until_bad(fraction)).parse().unwrap_or(0.0);
    Some(Datum::Float(sum as f64 + weight * fraction))
}

/// Digits as parsed by Ruby's `to_i`: single underscores are ignored.
fn until_bad(text: &str) -> String {
    let end = if text.starts_with('_') {
        0
    } else {
        text.find("__").unwrap_or(text.len())
    };
    text[..end].replace(['_', '+'], "")
}

/// A number with a point; `Some(None)` is one that Psych considers a number but cannot parse.
fn decimal(text: &str) -> Option<Option<f64>> {
    let (whole, rest) = unsigned(text).split_once('.')?;
    let grouped = |b: u8| b.is_ascii_digit() || matches!(b, b'_' | b',');
    let whole_good =
        whole.is_empty() || (whole.as_bytes()[0].is_ascii_digit() && whole.bytes().all(grouped));
    let (fraction, exponent) = match rest.split_once(['e', 'E']) {
        Some((fraction, exponent)) => (fraction, Some(exponent)),
        None => (rest, None),
    };
    let fraction_good = fraction.bytes().all(|b| b.is_ascii_digit());
    let exponent_good = exponent.is_none_or(|e| e.starts_with(['-', '+']) && digits(&e[1..]));
    if !whole_good || !fraction_good || !exponent_good {
        return None;
    }
    if whole.is_empty() && rest.is_empty() {
        return None;
    }
    if whole.is_empty() && fraction.is_empty() {
        return Some(None);
    }
    Some(text.replace([',', '_'], "").parse().ok())
}

fn integer(text: &str) -> Result<Plain, DatumError> {
    let body = unsigned(text);
    let all = |text: &str, allowed: fn(u8) -> bool| {
        !text.is_empty() && text.bytes().all(|b| allowed(b) || matches!(b, b'_' | b','))
    };
    let (digits, radix) = if let Some(bits) = body.strip_prefix("0b") {
        (bits, 2)
    } else if let Some(hex) = body.strip_prefix("0x") {
        (hex, 16)
    } else if body.len() > 1 && body.starts_with('0') {
        (&body[1..], 8)
    } else {
        (body, 10)
    };
    let good = match radix {
        2 => all(digits, |b| matches!(b, b'0' | b'1')),
        8 => all(digits, |b| matches!(b, b'0'..=b'7')),
        16 => all(digits, |b| b.is_ascii_hexdigit()),
        // Separators between the digits are single.
        _ => {
            let mut parts = digits.split([',', '_']);
            digits.starts_with(|c: char| c.is_ascii_digit())
                && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        }
    };
    if !good {
        return Ok(Plain::Value(text.into()));
    }
    let plain = digits.replace([',', '_'], "");
    if plain.is_empty() && radix != 8 {
        return Ok(Plain::Ambiguous);
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let plain = format!("{sign}0{plain}");
    let number = i128::from_str_radix(&plain, radix);
    let number = number.map_err(|_| DatumError::TooLarge("127 bits in one number"))?;
    Ok(Plain::Value(Datum::Int(number)))
}
