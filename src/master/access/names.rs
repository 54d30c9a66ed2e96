//! Names of users and systems as they come in with a request. Pure.
//!
//! They are checked here before anything else looks at them, so that neither a log nor a table grows with what a
//! stranger sends.
//!
//! A directory finds `fred` as well if it is asked for `Fred`, for ` fred ` or for `ｆｒｅｄ`. Here all of these are one user,
//! or rules for `fred` would not apply to `Fred`, and each spelling could guess passwords anew.

use halite_wire::{Map, Value};
use std::borrow::Cow;

/// Most bytes of a name. A distinguished name of LDAP is the longest kind.
const LONGEST: usize = 256;
/// The fields that hold names.
const FIELDS: [&str; 3] = ["user", "username", "eauth"];

/// Checks the names in a request.
///
/// # Errors
/// One is too long.
pub fn check(fields: &Map) -> Result<(), String> {
    let long = |field: &&&str| fields.str(field).is_some_and(|name| name.len() > LONGEST);
    match FIELDS.iter().find(long) {
        None => Ok(()),
        Some(field) => Err(format!("{field} is longer than {LONGEST} bytes")),
    }
}

/// A name from a request, cut off where [`check`] refuses it; empty if there is none.
pub fn claimed<'a>(fields: &'a Map, field: &str) -> &'a str {
    shown(
        fields
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default(),
    )
}

/// The spelling of which all are folded that a directory takes for the same name (RFC 4518): in lower case, without
/// characters that only look different, and with single blanks.
pub fn folded(name: &str) -> String {
    let plain = prepared(name, false).unwrap_or_else(|| name.to_owned());
    prepared(&plain, true).unwrap_or_else(|| plain.to_lowercase())
}

/// Whether a directory reads a name as it is written, except for upper and lower case.
pub fn is_plain(name: &str) -> bool {
    prepared(name, false).is_some_and(|prepared| prepared == name)
}

fn prepared(name: &str, fold_case: bool) -> Option<String> {
    let prepared: Cow<str> = stringprep::x520prep(name, fold_case).ok()?;
    Some(prepared.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The start of a text, short enough for a line of a log.
pub fn shown(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn spellings_of_a_name_are_one_user() {
        for other in [
            "fred",
            "Fred",
            " fred",
            "FRED  ",
            "ｆred",
            "\tfred\u{a0}",
            "fr\u{ad}ed",
        ] {
            assert_eq!(folded(other), "fred", "{other:?}");
            assert_eq!(
                is_plain(other),
                ["fred", "Fred"].contains(&other),
                "{other:?}"
            );
        }
        assert_eq!(folded("Anna  Müller"), "anna müller");
        assert!(is_plain("Anna Müller") && is_plain("fred@example.org"));
        // They cannot be told, so that such a name is refused.
        assert!(!is_plain("") && !is_plain("fr\u{e000}ed"));
    }

    #[test]
    fn names_are_bounded() {
        let long = "\u{e9}".repeat(1 << 20);
        for field in FIELDS {
            let fields = map! {field => long.as_str()};
            assert!(check(&fields).is_err(), "{field}");
            assert_eq!(claimed(&fields, field).len(), LONGEST);
        }
        let cut = "a".to_owned() + &long;
        assert_eq!(shown(&cut).len(), LONGEST - 1);
        assert_eq!(
            check(&map! {"user" => "fred", "password" => long.as_str()}),
            Ok(())
        );
        assert_eq!(claimed(&map! {"user" => 5}, "user"), "");
    }
}
