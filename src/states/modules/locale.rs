//! `locale`: locales of the host.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_wire::{Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "locale",
    functions: &[
        StateFunction::new("present", present, "Ensures that a locale is available."),
        StateFunction::new("system", system, "Sets the locale of the system."),
    ],
};

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let args = [Value::from(name.as_str())];
    if s.salt("locale.avail", args.clone())?.truthy() {
        return Ok(StateOutcome::good(format!(
            "Locale {name} is already present"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Locale {name} needs to be generated"
        )));
    }
    Ok(if s.salt("locale.gen_locale", args)?.truthy() {
        StateOutcome::good(format!("Generated locale {name}")).changes(map! {"locale" => name})
    } else {
        StateOutcome::bad(format!("Failed to generate locale {name}"))
    })
}

fn system(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let now = match s.salt("locale.get_locale", Vec::new()) {
        Ok(now) => now,
        Err(halite_modules::execution::CallError::Command(e)) => {
            return Ok(StateOutcome::bad(format!(
                "Failed to set system locale: {e}"
            )));
        }
        Err(other) => return Err(other),
    };
    if now.is_str(&name) {
        return Ok(StateOutcome::good(format!(
            "System locale {name} already set"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "System locale {name} needs to be set"
        )));
    }
    let done = s.salt("locale.set_locale", [Value::from(name.as_str())])?;
    Ok(if done.truthy() {
        StateOutcome::good(format!("Set system locale {name}")).changes(map! {"locale" => name})
    } else {
        StateOutcome::bad(format!("Failed to set system locale to {name}"))
    })
}
