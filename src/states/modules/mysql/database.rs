//! `mysql_database` (`salt/states/mysql_database.py`).

use super::{ask, changed, error, with_error};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_wire::{Map, Value, map};

pub const MODULE: StateModule = StateModule {
    name: "mysql_database",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, present),
            "Ensures that a database exists, with this character set and collation.",
        )
        .args(args![character_set = None, collate = None])
        .keywords(),
        StateFunction::new(
            "absent",
            |s| super::run(s, absent),
            "Ensures that a database does not exist.",
        )
        .keywords(),
    ],
};

fn get(s: &mut State<'_, '_>) -> Result<Map> {
    let name = s.name();
    let found = ask(s, "db_get", vec![name.into()], Map::new())?;
    Ok(found.into_map().unwrap_or_default())
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let existing = get(s)?;
    if !existing.is_empty() {
        return update(s, &name, &existing);
    }
    if let Some(failed) = error() {
        return Ok(failed);
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Database {name} is not present and needs to be created"
        )));
    }
    let options = s.pick(&["character_set", "collate"]);
    if ask(s, "db_create", vec![name.as_str().into()], options)?.truthy() {
        let text = format!("The database {name} has been created");
        return Ok(changed(s, text, "Present"));
    }
    Ok(StateOutcome::bad(with_error(format!(
        "Failed to create database {name}"
    ))))
}

fn update(s: &mut State<'_, '_>, name: &str, existing: &Map) -> Result {
    let mut outcome = StateOutcome::good(format!("Database {name} is already present"));
    let differs = |arg: &str| {
        let wanted = s.text(arg).filter(|text| !text.is_empty())?;
        let is = existing.str(arg).unwrap_or("None");
        (wanted != is).then(|| format!("{wanted} != {is} needs to be updated"))
    };
    let (set, collation) = (differs("character_set"), differs("collate"));
    let wanted = set.is_some() || collation.is_some();
    if let Some(text) = set {
        outcome.comment = format!("Database character set {text}");
    }
    if let Some(text) = &collation {
        outcome.comment += &format!("\nDatabase collate {text}");
    }
    if s.test {
        if wanted {
            outcome.result = None;
        }
        // Stock says no more if the collation differs.
        if wanted && collation.is_none() {
            outcome.comment += &format!("\nDatabase {name} is going to be updated");
        }
        return Ok(outcome);
    }
    if wanted {
        let options = s.pick(&["character_set", "collate"]);
        ask(s, "alter_db", vec![name.into()], options)?;
    }
    let current = get(s)?;
    let mut changes = Map::new();
    for key in ["collate", "character_set"] {
        let part = |of: &Map| of.get(key).cloned().unwrap_or_default();
        let (before, now): (Value, Value) = (part(existing), part(&current));
        if before != now {
            changes.set(key, map! {"before" => before, "now" => now});
        }
    }
    Ok(outcome.changes(changes))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let args = || vec![Value::from(name.as_str())];
    if ask(s, "db_exists", args(), Map::new())?.truthy() {
        if s.test {
            return Ok(StateOutcome::would(format!(
                "Database {name} is present and needs to be removed"
            )));
        }
        if ask(s, "db_remove", args(), Map::new())?.truthy() {
            let text = format!("Database {name} has been removed");
            return Ok(changed(s, text, "Absent"));
        }
        if let Some(mut failed) = error() {
            failed.comment = format!("Unable to remove database {name} ({})", failed.comment);
            return Ok(failed);
        }
    } else if let Some(failed) = error() {
        return Ok(failed);
    }
    Ok(StateOutcome::good(format!(
        "Database {name} is not present, so it cannot be removed"
    )))
}
