//! `quota`: quotas of disk space.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "quota",
    functions: &[
        StateFunction::new("mode", mode, "Ensures that quotas are on or off.")
            .args(args![mode, quotatype]),
    ],
};

fn mode(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let wanted = if s.arg("mode") == &Value::Bool(true) {
        "on"
    } else {
        "off"
    };
    let kind = python::str(s.arg("quotatype"));
    let absent = |key: &str| CallError::raised("KeyError", format!("'{key}'"));
    let all = s
        .salt("quota.get_mode", [name.as_str().into()])?
        .into_map()
        .unwrap_or_default();
    let now = match all.get(&name) {
        Some(Value::Map(own)) => own.get(&kind).ok_or_else(|| absent(&kind))?,
        Some(_) => {
            let text = "string indices must be integers, not 'str'";
            return Err(CallError::raised("TypeError", text));
        }
        None => return Err(absent(&name)),
    };
    if now.is_str(wanted) {
        return Ok(StateOutcome::good(format!(
            "Quota for {name} already set to {wanted}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Quota for {name} needs to be set to {wanted}"
        )));
    }
    Ok(
        if s.salt(&format!("quota.{wanted}"), [name.as_str().into()])?
            .truthy()
        {
            let text = format!("Set quota for {name} to {wanted}");
            StateOutcome::good(text).changes(map! {"quota" => name})
        } else {
            StateOutcome::bad(format!("Failed to set quota for {name} to {wanted}"))
        },
    )
}
