//! MySQL and MariaDB: databases, users, grants and queries. Stock 3008 has these states in an extension; they are those of
//! 3007.

pub(super) mod database;
pub(super) mod grants;
pub(super) mod query;
pub(super) mod user;

use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::mysql;
use halite_wire::{Map, Value};

/// Runs a state if there is a client; stock does not load these states without its driver.
fn run(s: &mut State<'_, '_>, state: fn(&mut State<'_, '_>) -> Result) -> Result {
    // What a state before this one has left.
    mysql::take_error();
    if mysql::is_available() {
        return state(s);
    }
    let part = |key: &str| s.low.str(key).unwrap_or_default();
    let (module, function) = (part("state"), part("fun"));
    Ok(StateOutcome::bad(format!(
        "State '{module}.{function}' was not found in SLS '{}'\nReason: '{module}' __virtual__ returned False: \
         mysql module could not be loaded\n",
        part("__sls__")
    )))
}

/// Calls a function of the execution module, with the keywords for the connection.
fn ask(s: &mut State<'_, '_>, function: &str, args: Vec<Value>, more: Map) -> Result<Value> {
    let mut kwargs = s.kwargs.clone();
    kwargs.0.extend(more.0);
    s.salt_with(&format!("mysql.{function}"), args, kwargs)
}

/// The error that a function has kept, as a failure.
fn error() -> Option<StateOutcome> {
    mysql::take_error().map(StateOutcome::bad)
}

/// A comment with the error that a function has kept in brackets.
fn with_error(comment: String) -> String {
    match mysql::take_error() {
        Some(error) => format!("{comment} ({error})"),
        None => comment,
    }
}

/// Success with a change of the state's name.
fn changed(s: &State<'_, '_>, comment: String, how: &str) -> StateOutcome {
    let mut changes = Map::new();
    changes.set(s.name(), how);
    StateOutcome::good(comment).changes(changes)
}
