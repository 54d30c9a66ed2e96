//! Methods of text: upper and lower case.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj};
use super::{Table, positional, receiver};

pub(super) const TABLE: Table = &[
    ("capitalize", |_, v, a| {
        changed("capitalize", v, a, capitalize)
    }),
    ("casefold", |_, v, a| changed("casefold", v, a, casefold)),
    ("islower", |_, v, a| cased("islower", v, a, is_lower)),
    ("istitle", |_, v, a| cased("istitle", v, a, is_title)),
    ("isupper", |_, v, a| cased("isupper", v, a, is_upper)),
    ("lower", |_, v, a| changed("lower", v, a, str::to_lowercase)),
    ("swapcase", |_, v, a| changed("swapcase", v, a, swapcase)),
    ("title", |_, v, a| changed("title", v, a, title)),
    ("upper", |_, v, a| changed("upper", v, a, str::to_uppercase)),
];

fn changed(name: &str, value: &Obj, args: &Args, change: fn(&str) -> String) -> Result<Obj, Error> {
    positional(&format!("str.{name}"), args, 0, 0)?;
    Ok(change(receiver(value)).into())
}

fn cased(name: &str, value: &Obj, args: &Args, is: fn(&str) -> bool) -> Result<Obj, Error> {
    positional(&format!("str.{name}"), args, 0, 0)?;
    Ok(Obj::Bool(is(receiver(value))))
}

/// The title case of a letter at the start of a word.
fn title_char(c: char, out: &mut String) {
    match c {
        'Ǆ'..='ǆ' => out.push('ǅ'),
        'Ǉ'..='ǉ' => out.push('ǈ'),
        'Ǌ'..='ǌ' => out.push('ǋ'),
        'Ǳ'..='ǳ' => out.push('ǲ'),
        'ŉ' => out.push_str("ʼN"),
        // Georgian has capitals only for whole words.
        'ა'..='ჿ' => out.push(c),
        c => {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            out.extend(upper.flat_map(char::to_lowercase));
        }
    }
}

/// `text.capitalize()`.
pub fn capitalize(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    if let Some(first) = chars.next() {
        title_char(first, &mut out);
        out.push_str(&chars.as_str().to_lowercase());
    }
    out
}

fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase() || matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ')
}

/// `text.title()`.
pub fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    for c in text.chars() {
        if within {
            out.extend(c.to_lowercase())
        } else {
            title_char(c, &mut out)
        }
        within = is_cased(c);
    }
    out
}

fn swapcase(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_uppercase() {
            out.extend(c.to_lowercase())
        } else {
            out.extend(c.to_uppercase())
        }
    }
    out
}

/// Lower case, with the few letters that only case folding changes.
fn casefold(text: &str) -> String {
    let text = text.to_lowercase();
    text.replace(['ß', 'ẞ'], "ss")
        .replace('ς', "σ")
        .replace('ſ', "s")
}

/// Whether there are cased letters and all of them are lower case (`str.islower`).
pub(super) fn is_lower(text: &str) -> bool {
    text.chars().any(char::is_lowercase) && !text.chars().any(|c| is_cased(c) && !c.is_lowercase())
}

/// Whether there are cased letters and all of them are upper case (`str.isupper`).
pub(super) fn is_upper(text: &str) -> bool {
    text.chars().any(char::is_uppercase) && !text.chars().any(|c| is_cased(c) && !c.is_uppercase())
}

fn is_title(text: &str) -> bool {
    let (mut within, mut any) = (false, false);
    for c in text.chars() {
        if c.is_lowercase() != within && is_cased(c) {
            return false;
        }
        within = is_cased(c);
        any |= within;
    }
    any
}

/// `is lower`: `str(value).islower()`.
///
/// # Errors
/// A strict undefined value.
pub fn test_lower(_: &mut Cx, value: &Obj, _: &Args) -> Result<bool, Error> {
    Ok(is_lower(&value.to_str()?))
}

/// `is upper`: `str(value).isupper()`.
///
/// # Errors
/// A strict undefined value.
pub fn test_upper(_: &mut Cx, value: &Obj, _: &Args) -> Result<bool, Error> {
    Ok(is_upper(&value.to_str()?))
}
