//! Grants as the server writes them, taken apart (`_grant_to_tokens`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use halite_wire::map;

/// The parts of a grant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokens {
    /// The user, with the quotes of names.
    pub user: String,
    /// Its host.
    pub host: String,
    /// The privileges; those of columns as `privilege.column`.
    pub grants: Vec<String>,
    /// Database and table.
    pub database: String,
}

/// Words as Python's `shlex.shlex` finds them: names, quoted texts and single signs.
fn words(text: &str) -> Result<Vec<String>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '"';
    let is_quote = |c: char| c == '\'' || c == '`';
    let mut all = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let mut word = String::from(c);
        if matches!(c, ' ' | '\t' | '\r' | '\n') {
            continue;
        }
        if is_quote(c) {
            loop {
                let next = chars.next();
                word.extend(next);
                match next {
                    Some(end) if end == c => break,
                    Some(_) => {}
                    None => return Err(CallError::raised("ValueError", "No closing quotation")),
                }
            }
        } else if is_word(c) {
            while let Some(next) = chars.next_if(|c| is_word(*c) || is_quote(*c)) {
                word.push(next);
            }
        }
        all.push(word);
    }
    Ok(all)
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Grants,
    Database,
    Tables,
    User,
    BeforeHost,
}

/// Takes a grant apart.
///
/// # Errors
/// As raised by Python.
pub fn tokens(grant: &str) -> Result<Tokens> {
    let words = words(grant)?;
    let mut found = Tokens::default();
    let mut phase = Phase::Grants;
    let (mut several, mut current, mut in_columns) = (Vec::new(), String::new(), false);
    for (i, word) in words.iter().enumerate().skip(1) {
        let next = words.get(i + 1).map(String::as_str);
        match (phase, word.as_str()) {
            (Phase::Grants, ",") => {}
            (Phase::Grants, "(") => in_columns = true,
            (Phase::Grants, ")") => in_columns = false,
            (Phase::Grants, "ON") => phase = Phase::Database,
            (Phase::Tables, "TO") => phase = Phase::User,
            (Phase::Grants, _) => {
                let Some(next) = next else {
                    return Err(CallError::raised("IndexError", "list index out of range"));
                };
                several.push(word.clone());
                if !matches!(next, "," | "ON" | "(" | ")") {
                    continue;
                }
                let mut one = several.join(" ");
                if several.len() == 1 {
                    if in_columns {
                        one = format!("{current}.{one}");
                    } else {
                        current.clone_from(word);
                    }
                }
                several.clear();
                found.grants.push(one);
            }
            (Phase::Database, _) => {
                found.database.push_str(word);
                if next == Some(".") {
                    phase = Phase::Tables;
                }
            }
            (Phase::Tables, _) => found.database.push_str(word),
            (Phase::User, _) => {
                found.user.push_str(word);
                if next == Some("@") {
                    phase = Phase::BeforeHost;
                }
            }
            (Phase::BeforeHost, "@") => {
                found.host = next.unwrap_or_default().trim_matches('\'').to_owned();
                break;
            }
            (Phase::BeforeHost, _) => {}
        }
    }
    found.user = found.user.trim_matches('\'').to_owned();
    Ok(found)
}

/// `tokenize_grant`.
pub fn tokenize(call: &mut Call<'_>) -> Result {
    let found = tokens(&python::str(call.arg("grant")))?;
    Ok(map! {
        "user" => found.user, "host" => found.host, "grant" => found.grants, "database" => found.database,
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_taken_apart() {
        let found = tokens(
            "GRANT SELECT, INSERT (a, b), CREATE VIEW ON `d\\_b`.`t` TO 'u'@'%' WITH GRANT OPTION",
        )
        .unwrap();
        let grants = ["SELECT", "INSERT", "INSERT.a", "INSERT.b", "CREATE VIEW"];
        assert_eq!(found.grants, grants);
        assert_eq!(found.database, "`d\\_b`.`t`");
        assert_eq!((found.user.as_str(), found.host.as_str()), ("u", "%"));
        let found = tokens("GRANT USAGE ON *.* TO `u`@`localhost`").unwrap();
        assert_eq!(
            (found.user.as_str(), found.host.as_str()),
            ("`u`", "`localhost`")
        );
        assert_eq!(found.database, "*.*");
        assert_eq!(
            tokens("GRANT r TO `u`@`h`").unwrap_or_default().database,
            ""
        );
    }
}
