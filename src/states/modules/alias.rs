//! `alias`: the mail aliases.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "alias",
    functions: &[
        StateFunction::new("absent", absent, "Ensures that an alias does not exist."),
        StateFunction::new("present", present, "Ensures that an alias has a target.")
            .args(args![target]),
    ],
};

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, target) = (s.name(), s.arg("target").clone());
    let found = s.salt("aliases.has_target", [name.as_str().into(), target.clone()])?;
    if found.truthy() {
        return Ok(StateOutcome::good(format!("Alias {name} already present")));
    }
    let shown = python::str(&target);
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Alias {name} -> {shown} is set to be added"
        )));
    }
    let done = s.salt("aliases.set_target", [name.as_str().into(), target])?;
    Ok(if done.truthy() {
        StateOutcome::good(format!("Set email alias {name} -> {shown}"))
            .changes(map! {"alias" => name})
    } else {
        StateOutcome::bad("Failed to set alias")
    })
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let args = [Value::from(name.as_str())];
    if !s.salt("aliases.get_target", args.clone())?.truthy() {
        return Ok(StateOutcome::good(format!("Alias {name} already absent")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Alias {name} is set to be removed"
        )));
    }
    Ok(if s.salt("aliases.rm_alias", args)?.truthy() {
        StateOutcome::good(format!("Removed alias {name}")).changes(map! {"alias" => name})
    } else {
        StateOutcome::bad("Failed to remove alias")
    })
}
