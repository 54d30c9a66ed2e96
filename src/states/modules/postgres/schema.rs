//! `postgres_schema`: schemas of a database (`salt/states/postgres_schema.py`).

use super::changed;
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value};

pub const MODULE: StateModule = StateModule {
    name: "postgres_schema",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, |s| shown(s, present)),
            "Ensures that a schema exists in a database.",
        )
        .args(args![
            dbname,
            owner = None,
            user = None,
            db_user = None,
            db_password = None,
            db_host = None,
            db_port = None
        ]),
        StateFunction::new(
            "absent",
            |s| super::run(s, |s| shown(s, absent)),
            "Ensures that a schema does not exist in a database.",
        )
        .args(args![
            dbname,
            user = None,
            db_user = None,
            db_password = None,
            db_host = None,
            db_port = None
        ]),
    ],
};

/// The outcome with the database, as stock returns it.
fn shown(s: &mut State<'_, '_>, run: fn(&mut State<'_, '_>) -> Result) -> Result {
    Ok(run(s)?.with("dbname", s.arg("dbname").clone()))
}

fn ask(s: &mut State<'_, '_>, function: &str, kwargs: Map) -> Result<Value> {
    let args = vec![s.arg("dbname").clone(), s.name().into()];
    let mut all = s.pick(&["db_user", "db_password", "db_host", "db_port", "user"]);
    all.0.extend(kwargs.0);
    s.salt_with(&format!("postgres.{function}"), args, all)
}

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, database) = (s.name(), python::str(s.arg("dbname")));
    if ask(s, "schema_get", Map::new())?.truthy() {
        return Ok(StateOutcome::good(format!(
            "Schema {name} already exists in database {database}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Schema {name} is set to be created in database {database}."
        )));
    }
    let owner = s.pick(&["owner"]);
    if ask(s, "schema_create", owner)?.truthy() {
        let text = format!("Schema {name} has been created in database {database}");
        return Ok(changed(s, text, "Present"));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to create schema {name} in database {database}"
    )))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let (name, database) = (s.name(), python::str(s.arg("dbname")));
    if !ask(s, "schema_exists", Map::new())?.truthy() {
        return Ok(StateOutcome::good(format!(
            "Schema {name} is not present in database {database}, so it cannot be removed"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Schema {name} is set to be removed from database {database}"
        )));
    }
    if ask(s, "schema_remove", Map::new())?.truthy() {
        let text = format!("Schema {name} has been removed from database {database}");
        return Ok(changed(s, text, "Absent"));
    }
    Ok(StateOutcome::bad(format!(
        "Schema {name} failed to be removed"
    )))
}
