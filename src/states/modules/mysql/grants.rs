//! `mysql_grants` (`salt/states/mysql_grants.py`).

use super::{ask, changed, error, with_error};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::mysql;
use halite_modules::execution::python;
use halite_wire::Value;

pub const MODULE: StateModule = StateModule {
    name: "mysql_grants",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, present),
            "Ensures that a user has privileges.",
        )
        .args(args![
            grant = None,
            database = None,
            user = None,
            host = "localhost",
            grant_option = False,
            escape = True,
            revoke_first = False,
            ssl_option = False
        ])
        .keywords(),
        StateFunction::new(
            "absent",
            |s| super::run(s, absent),
            "Ensures that a user does not have privileges.",
        )
        .args(args![
            grant = None,
            database = None,
            user = None,
            host = "localhost",
            grant_option = False,
            escape = True
        ])
        .keywords(),
    ],
};

const NAMES: [&str; 5] = ["grant", "database", "user", "host", "grant_option"];

/// A function for the state's grant.
fn of_grant(s: &mut State<'_, '_>, function: &str, more: &[&str]) -> Result<bool> {
    let mut kwargs = s.pick(&NAMES);
    kwargs.0.extend(s.pick(more).0);
    Ok(ask(s, function, Vec::new(), kwargs)?.truthy())
}

/// The grant in comments, with this word before the user.
fn shown(s: &State<'_, '_>, word: &str) -> String {
    let part = |name: &str| python::str(s.arg(name));
    format!(
        "{} on {} {word} {}@{}",
        part("grant"),
        part("database"),
        part("user"),
        part("host")
    )
}

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, grant) = (s.name(), shown(s, "to"));
    if of_grant(s, "grant_exists", &["escape"])? {
        return Ok(StateOutcome::good(format!(
            "Grant {grant} is already present"
        )));
    }
    if let Some(failed) = error() {
        return Ok(failed);
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "MySQL grant {name} is set to be created"
        )));
    }
    if s.flag("revoke_first") {
        revoke_others(s)?;
    }
    if of_grant(s, "grant_add", &["escape", "ssl_option"])? {
        let text = format!("Grant {grant} has been added");
        return Ok(changed(s, text, "Present"));
    }
    let part = |name: &str| python::str(s.arg(name));
    Ok(StateOutcome::bad(with_error(format!(
        "Failed to execute: \"GRANT {} ON {} TO {}@{}\"",
        part("grant"),
        part("database"),
        part("user"),
        part("host")
    ))))
}

/// Takes what the user has on the same database and table. Stock compares names that are never the same.
fn revoke_others(s: &mut State<'_, '_>) -> Result<()> {
    let account = s.pick(&["user", "host"]);
    let grants = ask(s, "user_grants", Vec::new(), account)?;
    let whole = python::str(s.arg("database"));
    let (database, table) = whole.rsplit_once('.').unwrap_or(("", &whole));
    let quoted = |s: &mut State<'_, '_>, name: &str| -> Result<String> {
        if name == "*" {
            return Ok(name.to_owned());
        }
        let args = vec![name.into(), (table == "*").into()];
        let quoted = s.salt("mysql.quote_identifier", args)?;
        Ok(python::str(&quoted).replace("%%", "%"))
    };
    let place = format!("{}.{}", quoted(s, database)?, quoted(s, table)?);
    for grant in grants.str_list() {
        let tokens = s.salt("mysql.tokenize_grant", vec![grant.into()])?;
        let Some(tokens) = tokens
            .as_map()
            .filter(|t| t.str("database") == Some(&place))
        else {
            continue;
        };
        let what = tokens.get("grant").map(Value::str_list).unwrap_or_default();
        let mut kwargs = s.pick(&["database", "user", "host", "grant_option", "escape"]);
        kwargs.set("grant", what.join(","));
        ask(s, "grant_revoke", Vec::new(), kwargs)?;
    }
    Ok(())
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let (name, of_user) = (s.name(), shown(s, "for"));
    let unable = |text: String| {
        let failed = mysql::take_error();
        failed.map(|error| StateOutcome::bad(format!("{text} ({error})")))
    };
    if of_grant(s, "grant_exists", &["escape"])? {
        if s.test {
            return Ok(StateOutcome::would(format!(
                "MySQL grant {name} is set to be revoked"
            )));
        }
        if of_grant(s, "grant_revoke", &[])? {
            let text = format!("Grant {of_user} has been revoked");
            return Ok(changed(s, text, "Absent"));
        }
        if let Some(failed) = unable(format!("Unable to revoke grant {of_user}")) {
            return Ok(failed);
        }
    } else if let Some(failed) = unable(format!("Unable to determine if grant {of_user} exists")) {
        return Ok(failed);
    }
    Ok(StateOutcome::good(format!(
        "Grant {} is not present, so it cannot be revoked",
        shown(s, "to")
    )))
}
