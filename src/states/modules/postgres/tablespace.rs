//! `postgres_tablespace`: places for data (`salt/states/postgres_tablespace.py`). Stock looks for an existing tablespace
//! where it is told to, but changes it at the default server, even in test mode.

use super::{ask, changed, connection, with};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub const MODULE: StateModule = StateModule {
    name: "postgres_tablespace",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, present),
            "Ensures that a tablespace exists, with this owner and options.",
        )
        .args(args![
            directory,
            options = None,
            owner = None,
            user = None,
            maintenance_db = None,
            db_password = None,
            db_host = None,
            db_port = None,
            db_user = None
        ]),
        StateFunction::new(
            "absent",
            |s| super::run(s, absent),
            "Ensures that a tablespace does not exist.",
        )
        .args(args![
            user = None,
            maintenance_db = None,
            db_user = None,
            db_password = None,
            db_host = None,
            db_port = None
        ]),
    ],
};

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, to) = (s.name(), connection(s));
    let all = s.salt_with("postgres.tablespace_list", vec![], to.clone())?;
    let found = all.as_map().and_then(|all| all.get(&name));
    let Some(found) = found.and_then(Value::as_map) else {
        return create(s, &name, &to);
    };
    if found.str("Location") != s.text("directory").as_deref() && !s.test {
        return Ok(StateOutcome::bad(format!(
            "Tablespace {name} is not at the right location. This is\n            unfixable without dropping and \
             recreating the tablespace."
        )));
    }
    let mut outcome = StateOutcome::good(format!("Tablespace {name} is already present"));
    let mut change = Map::new();
    let owner = s.text("owner").filter(|owner| !owner.is_empty());
    if let Some(owner) = owner.filter(|owner| found.str("Owner") != Some(owner)) {
        if s.test {
            outcome = StateOutcome::would(format!("Tablespace {name} owner to be altered"));
        } else if alter(s, "new_owner", owner.as_str().into(), &to)? {
            outcome.comment = format!("Tablespace {name} owner changed");
            change.set("owner", owner);
        }
    }
    let options = s.arg("options").as_map().cloned().unwrap_or_default();
    let has = found.str("Opts").unwrap_or_default().to_owned();
    let mut set = Map::new();
    for (key, value) in options.iter() {
        let key = python::str(key);
        if has.contains(&format!("{key}={}", python::str(value))) {
            continue;
        }
        if s.test {
            outcome = StateOutcome::would(format!(
                "Tablespace {name} options to be\n                        altered"
            ));
            break;
        }
        let mut option = Map::new();
        option.set(key.as_str(), value.clone());
        if alter(s, "set_option", option.into(), &to)? {
            outcome.comment = format!("Tablespace {name} opts changed");
            set.set(key, value.clone());
        }
    }
    if !set.is_empty() {
        change.set("options", set);
    }
    if !change.is_empty() {
        let mut changes = Map::new();
        changes.set(name, change);
        outcome = outcome.changes(changes);
    }
    Ok(outcome)
}

fn alter(s: &mut State<'_, '_>, what: &str, value: Value, to: &Map) -> Result<bool> {
    let mut kwargs = to.clone();
    kwargs.set(what, value);
    Ok(ask(s, "tablespace_alter", kwargs)?.truthy())
}

fn create(s: &mut State<'_, '_>, name: &str, to: &Map) -> Result {
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Tablespace {name} is set to be created"
        )));
    }
    let mut kwargs = with(s, &["options", "owner"], to);
    kwargs.set("location", s.arg("directory").clone());
    if ask(s, "tablespace_create", kwargs)?.truthy() {
        let text = format!("The tablespace {name} has been created");
        return Ok(changed(s, text, "Present"));
    }
    Err(CallError::raised("KeyError", format!("'{name}'")))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let (name, to) = (s.name(), connection(s));
    let gone = format!("Tablespace {name} is not present, so it cannot be removed");
    if !ask(s, "tablespace_exists", to.clone())?.truthy() {
        return Ok(StateOutcome::good(gone));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Tablespace {name} is set to be removed"
        )));
    }
    if ask(s, "tablespace_remove", to)?.truthy() {
        let text = format!("Tablespace {name} has been removed");
        return Ok(changed(s, text, "Absent"));
    }
    // Stock says that it is not present, and success.
    Ok(StateOutcome::bad(format!(
        "Tablespace {name} failed to be removed"
    )))
}
