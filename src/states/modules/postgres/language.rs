//! `postgres_language`: languages of a database (`salt/states/postgres_language.py`).

use super::{changed, server};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_wire::Value;

const ARGS: &[Arg] = args![
    maintenance_db,
    user = None,
    db_password = None,
    db_host = None,
    db_port = None,
    db_user = None
];

pub const MODULE: StateModule = StateModule {
    name: "postgres_language",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, present),
            "Ensures that a database has a language.",
        )
        .args(ARGS),
        StateFunction::new(
            "absent",
            |s| super::run(s, absent),
            "Ensures that a database does not have a language.",
        )
        .args(ARGS),
    ],
};

fn ask(s: &mut State<'_, '_>, function: &str) -> Result<Value> {
    let args = vec![s.name().into(), s.arg("maintenance_db").clone()];
    let to = server(s);
    s.salt_with(&format!("postgres.{function}"), args, to)
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if ask(s, "language_exists")?.truthy() {
        return Ok(StateOutcome::good(format!(
            "Language {name} is already installed"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Language {name} is set to be installed"
        )));
    }
    if ask(s, "language_create")?.truthy() {
        return Ok(changed(
            s,
            format!("Language {name} has been installed"),
            "Present",
        ));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to install language {name}"
    )))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if !ask(s, "language_exists")?.truthy() {
        return Ok(StateOutcome::good(format!(
            "Language {name} is not present so it cannot be removed"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Language {name} is set to be removed"
        )));
    }
    // Stock cannot: it does not tell the database.
    if ask(s, "language_remove")?.truthy() {
        return Ok(changed(
            s,
            format!("Language {name} has been removed"),
            "Absent",
        ));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to remove language {name}"
    )))
}
