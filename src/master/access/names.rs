//! Names of users and systems as they come in with a request. Pure.
//!
//! They are checked here before anything else looks at them, so that neither a log nor a table grows with what a
//! stranger sends.

use halite_wire::{Map, Value};

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
