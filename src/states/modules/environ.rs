//! `environ`: the environment of the minion's process.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "environ",
    functions: &[
        StateFunction::new("setenv", setenv, "Sets variables of the environment.").args(args![
            value,
            false_unsets = False,
            clear_all = False,
            update_minion = False,
            permanent = False
        ]),
    ],
};

fn setenv(s: &mut State<'_, '_>) -> Result {
    let wanted = match s.arg("value").clone() {
        Value::Map(map) => map,
        value @ (Value::Str(_) | Value::Bool(false)) => Map(vec![(s.name().into(), value)]),
        _ => {
            return Ok(StateOutcome::bad(
                "Environ value must be string, dict or False",
            ));
        }
    };
    let unsets = s.flag("false_unsets");
    let current = |key: &str| std::env::var(key).ok();
    let mut changes = Map::new();
    if s.flag("clear_all") {
        let cleared = if unsets { Value::Nil } else { "".into() };
        for (key, _) in std::env::vars() {
            if !wanted.contains(&key) {
                changes.set(key, cleared.clone());
            }
        }
    }
    for (key, value) in wanted.iter() {
        let key = python::str(key);
        let now = current(&key);
        match value {
            Value::Bool(false) if unsets => {
                if now.is_some() {
                    changes.set(key, Value::Nil);
                }
            }
            Value::Bool(false) => {
                if now.as_deref() != Some("") {
                    changes.set(key, "");
                }
            }
            value => {
                if !value.is_str(&now.unwrap_or_default()) {
                    changes.set(key, value.clone());
                }
            }
        }
    }
    if changes.is_empty() {
        let verb = if s.test { "are" } else { "were" };
        return Ok(StateOutcome::good(format!(
            "Environ values {verb} already set with the correct values"
        )));
    }
    if s.test {
        return Ok(StateOutcome::good("Environ values will be changed").changes(changes));
    }
    let more = s.pick(&["false_unsets", "clear_all", "update_minion", "permanent"]);
    let done = s.salt_with("environ.setenv", [Value::Map(wanted)], more)?;
    Ok(if done == Value::Bool(false) || done.is_nil() {
        StateOutcome::bad("Failed to set environ variables")
    } else {
        StateOutcome::good("Environ values were set")
    }
    .changes(changes))
}
