//! PostgreSQL: users, databases and what is in them. Each state asks the execution module `postgres`.

pub(super) mod cluster;
pub(super) mod database;
pub(super) mod extension;
pub(super) mod group;
pub(super) mod initdb;
pub(super) mod language;
pub(super) mod privileges;
mod role;
pub(super) mod schema;
pub(super) mod tablespace;
pub(super) mod user;

use crate::declare::{Result, State, StateOutcome};
use halite_wire::{Map, Value, map};

/// How to reach the server, as execution functions want it.
fn connection(s: &State<'_, '_>) -> Map {
    let mut all = server(s);
    all.set("maintenance_db", s.arg("maintenance_db").clone());
    all
}

/// The same for functions that take the database as an argument of their own.
fn server(s: &State<'_, '_>) -> Map {
    let arg = |name: &str| s.arg(name).clone();
    map! {
        "runas" => arg("user"), "host" => arg("db_host"), "user" => arg("db_user"), "port" => arg("db_port"),
        "password" => arg("db_password"),
    }
}

/// Arguments of the state beside those of the connection.
fn with(s: &State<'_, '_>, names: &[&str], connection: &Map) -> Map {
    let mut all = s.pick(names);
    all.0.extend(connection.0.iter().cloned());
    all
}

/// Calls a function of the execution module with the state's name.
fn ask(s: &mut State<'_, '_>, function: &str, kwargs: Map) -> Result<Value> {
    let name = s.name();
    s.salt_with(&format!("postgres.{function}"), vec![name.into()], kwargs)
}

/// Runs a state if there is a `psql`; stock does not load these states without one.
fn run(s: &mut State<'_, '_>, state: fn(&mut State<'_, '_>) -> Result) -> Result {
    run_with(s, "psql", state)
}

fn run_with(
    s: &mut State<'_, '_>,
    program: &str,
    state: fn(&mut State<'_, '_>) -> Result,
) -> Result {
    let dir = s.salt("config.option", vec!["postgres.bins_dir".into()])?;
    let dir = dir.as_str().unwrap_or_default().trim_end_matches('/');
    for path in [format!("{dir}/{program}"), program.to_owned()] {
        if s.salt("cmd.which", vec![path.into()])?.truthy() {
            return state(s);
        }
    }
    let part = |key: &str| s.low.str(key).unwrap_or_default();
    let (module, function) = (part("state"), part("fun"));
    Ok(StateOutcome::bad(format!(
        "State '{module}.{function}' was not found in SLS '{}'\nReason: '{module}' __virtual__ returned False: \
         Unable to load postgres module.  Make sure `postgres.bins_dir` is set.\n",
        part("__sls__")
    )))
}

/// The end of states that make something of their name.
fn changed(s: &State<'_, '_>, comment: String, how: &str) -> StateOutcome {
    let mut changes = Map::new();
    changes.set(s.name(), how);
    StateOutcome::good(comment).changes(changes)
}

/// `absent` of what is called `kind` in comments.
fn absent(
    s: &mut State<'_, '_>,
    kind: &str,
    exists: &str,
    remove: &str,
    more: Map,
    connection: Map,
) -> Result {
    let name = s.name();
    if !ask(s, exists, connection.clone())?.truthy() {
        return Ok(StateOutcome::good(format!(
            "{kind} {name} is not present, so it cannot be removed"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "{kind} {name} is set to be removed"
        )));
    }
    let mut kwargs = more;
    kwargs.0.extend(connection.0);
    if ask(s, remove, kwargs)?.truthy() {
        let comment = format!("{kind} {name} has been removed");
        return Ok(changed(s, comment, "Absent"));
    }
    Ok(StateOutcome::bad(format!(
        "{kind} {name} failed to be removed"
    )))
}
