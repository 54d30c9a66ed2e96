//! `postgres_privileges`: what roles may do with an object (`salt/states/postgres_privileges.py`).

use super::{changed, connection};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value};

pub const MODULE: StateModule = StateModule {
    name: "postgres_privileges",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, present),
            "Ensures that a role has privileges on an object.",
        )
        .args(args![
            object_name,
            object_type,
            privileges = None,
            grant_option = None,
            prepend = "public",
            maintenance_db = None,
            user = None,
            db_password = None,
            db_host = None,
            db_port = None,
            db_user = None
        ]),
        StateFunction::new(
            "absent",
            |s| super::run(s, absent),
            "Ensures that a role does not have privileges on an object.",
        )
        .args(args![
            object_name,
            object_type,
            privileges = None,
            prepend = "public",
            maintenance_db = None,
            user = None,
            db_password = None,
            db_host = None,
            db_port = None,
            db_user = None
        ]),
    ],
};

/// The privileges with commas, or nil.
fn privileges(s: &State<'_, '_>) -> Value {
    match s.arg("privileges") {
        value if !value.truthy() => Value::Nil,
        Value::Array(list) => {
            let names: Vec<String> = list.iter().map(python::str).collect();
            names.join(",").into()
        }
        // Python joins the letters of a text.
        Value::Str(text) => {
            let letters: Vec<String> = text.chars().map(String::from).collect();
            letters.join(",").into()
        }
        other => other.clone(),
    }
}

fn kwargs(s: &State<'_, '_>, granting: bool) -> Map {
    let mut all = connection(s);
    all.set("privileges", privileges(s));
    all.set("prepend", s.arg("prepend").clone());
    if granting {
        all.set("grant_option", s.arg("grant_option").clone());
    }
    all
}

fn ask(s: &mut State<'_, '_>, function: &str, kwargs: &Map) -> Result<bool> {
    let args = vec![
        s.name().into(),
        s.arg("object_name").clone(),
        s.arg("object_type").clone(),
    ];
    let answer = s.salt_with(&format!("postgres.{function}"), args, kwargs.clone())?;
    Ok(answer.truthy())
}

/// What comments say is granted.
fn shown(s: &State<'_, '_>) -> String {
    if s.arg("object_type").is_str("group") {
        python::str(s.arg("object_name"))
    } else {
        python::str(&privileges(s))
    }
}

fn present(s: &mut State<'_, '_>) -> Result {
    let kwargs = kwargs(s, true);
    if ask(s, "has_privileges", &kwargs)? {
        return Ok(StateOutcome::good(
            "The requested privilege(s) are already set",
        ));
    }
    let (name, what) = (s.name(), shown(s));
    if s.test {
        return Ok(StateOutcome::would(format!(
            "The privilege(s): {what} are set to be granted to {name}"
        )));
    }
    if ask(s, "privileges_grant", &kwargs)? {
        let text = format!("The privilege(s): {what} have been granted to {name}");
        return Ok(changed(s, text, "Present"));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to grant privilege(s): {what} to {name}"
    )))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let kwargs = kwargs(s, false);
    if !ask(s, "has_privileges", &kwargs)? {
        return Ok(StateOutcome::good(
            "The requested privilege(s) are not set so cannot be revoked",
        ));
    }
    let (name, what) = (s.name(), shown(s));
    if s.test {
        return Ok(StateOutcome::would(format!(
            "The privilege(s): {what} are set to be revoked from {name}"
        )));
    }
    if ask(s, "privileges_revoke", &kwargs)? {
        let text = format!("The privilege(s): {what} have been revoked from {name}");
        return Ok(changed(s, text, "Absent"));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to revoke privilege(s): {what} from {name}"
    )))
}
