//! `postgres_database`: databases (`salt/states/postgres_database.py`).

use super::{ask, changed, connection, with};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_wire::{Map, Value};

pub const MODULE: StateModule = StateModule {
    name: "postgres_database",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, present),
            "Ensures that a database exists, with this owner, tablespace, encoding and locale.",
        )
        .args(args![
            tablespace = None,
            encoding = None,
            lc_collate = None,
            lc_ctype = None,
            owner = None,
            owner_recurse = False,
            template = None,
            user = None,
            maintenance_db = None,
            db_password = None,
            db_host = None,
            db_port = None,
            db_user = None
        ]),
        StateFunction::new(
            "absent",
            |s| {
                super::run(s, |s| {
                    let to = connection(s);
                    super::absent(s, "Database", "db_exists", "db_remove", Map::new(), to)
                })
            },
            "Ensures that a database does not exist.",
        )
        .args(super::role::CONNECTION),
    ],
};

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, to) = (s.name(), connection(s));
    let all = s.salt_with("postgres.db_list", vec![], to.clone())?;
    let found = all.as_map().and_then(|all| all.get(&name));
    let Some(found) = found.and_then(Value::as_map) else {
        return create(s, &name, &to);
    };
    let differs = |arg: &str, key: &str| {
        let wanted = s.text(arg).filter(|text| !text.is_empty());
        let is = found.str(key).unwrap_or_default();
        wanted.is_some_and(|wanted| match arg {
            "encoding" => wanted.to_lowercase() != is.to_lowercase(),
            _ => wanted != is,
        })
    };
    if differs("encoding", "Encoding")
        || differs("lc_collate", "Collate")
        || differs("lc_ctype", "Ctype")
    {
        return Ok(StateOutcome::bad(format!(
            "Database {name} has wrong parameters which couldn't be changed on fly."
        )));
    }
    if !differs("tablespace", "Tablespace") && !differs("owner", "Owner") {
        return Ok(StateOutcome::good(format!(
            "Database {name} is already present"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Database {name} exists, but parameters need to be changed"
        )));
    }
    let kwargs = with(s, &["tablespace", "owner", "owner_recurse"], &to);
    if ask(s, "db_alter", kwargs)?.truthy() {
        let text = format!("Parameters for database {name} have been changed");
        return Ok(changed(s, text, "Parameters changed"));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to change parameters for database {name}"
    )))
}

fn create(s: &mut State<'_, '_>, name: &str, to: &Map) -> Result {
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Database {name} is set to be created"
        )));
    }
    let names = [
        "tablespace",
        "encoding",
        "lc_collate",
        "lc_ctype",
        "owner",
        "template",
    ];
    let kwargs = with(s, &names, to);
    if ask(s, "db_create", kwargs)?.truthy() {
        return Ok(changed(
            s,
            format!("The database {name} has been created"),
            "Present",
        ));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to create database {name}"
    )))
}
