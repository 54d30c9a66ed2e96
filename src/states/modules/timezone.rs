//! `timezone`: the time zone of the host.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::CallError;
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "timezone",
    functions: &[
        StateFunction::new("system", system, "Sets the time zone of the system.")
            .args(args![utc = True]),
    ],
};

fn system(s: &mut State<'_, '_>) -> Result {
    let (name, utc) = (s.name(), s.flag("utc"));
    let zone = [Value::from(name.as_str())];
    let set = match s.salt("timezone.zone_compare", zone.clone()) {
        Ok(same) => same.truthy(),
        Err(CallError::Command(e)) => {
            return Ok(StateOutcome::bad(format!(
                "Unable to compare desired timezone '{name}' to system timezone: {e}"
            )));
        }
        Err(other) => return Err(other),
    };
    let clock = !utc || s.salt("timezone.get_hwclock", Vec::new())?.is_str("UTC");
    let mut parts = Vec::new();
    let mut changes = Map::new();
    let mut good = true;
    if set && clock {
        parts.push(format!("Timezone {name} already set"));
    } else if set {
        // Only what changes is told.
    } else if s.test {
        parts.push(format!("Timezone {name} needs to be set"));
    } else if s.salt("timezone.set_zone", zone)?.truthy() {
        parts.push(format!("Set timezone {name}"));
        changes.set("timezone", name.as_str());
    } else {
        parts.push("Failed to set timezone".to_owned());
        good = false;
    }
    if clock {
        if utc && set {
            parts.push(format!("UTC already set to {name}"));
        }
    } else if s.test {
        parts.push("UTC needs to be set to True".to_owned());
    } else if s
        .salt("timezone.set_hwclock", [Value::from("UTC")])?
        .truthy()
    {
        parts.push("Set UTC to True".to_owned());
        changes.set("utc", true);
    } else {
        parts.push("Failed to set UTC to True".to_owned());
        good = false;
    }
    let result = if s.test && !(set && clock) {
        None
    } else {
        Some(good)
    };
    Ok(StateOutcome::new(result, parts.join(", ")).changes(changes))
}
