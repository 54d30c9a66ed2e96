//! `rabbitmq_plugin`.

use super::{failed, rabbit};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;

pub const PLUGIN: StateModule = StateModule {
    name: "rabbitmq_plugin",
    functions: &[
        StateFunction::new(
            "enabled",
            |s| set(s, true),
            "Ensures that a plugin is enabled.",
        )
        .args(args![runas = None]),
        StateFunction::new(
            "disabled",
            |s| set(s, false),
            "Ensures that a plugin is disabled.",
        )
        .args(args![runas = None]),
    ],
};

fn set(s: &mut State<'_, '_>, wanted: bool) -> Result {
    let name = s.name();
    let (fun, word) = if wanted {
        ("enable_plugin", "enabled")
    } else {
        ("disable_plugin", "disabled")
    };
    let enabled = match rabbit(s, "plugin_is_enabled", [name.as_str().into()]) {
        Ok(enabled) => enabled.truthy(),
        Err(fault) => return failed(fault),
    };
    if enabled == wanted {
        return Ok(StateOutcome::good(format!(
            "Plugin '{name}' is already {word}."
        )));
    }
    let changes = if wanted {
        old_new("", name.as_str())
    } else {
        old_new(name.as_str(), "")
    };
    if s.test {
        let text = format!("Plugin '{name}' is set to be {word}.");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    if let Err(fault) = rabbit(s, fun, [name.as_str().into()]) {
        return failed(fault);
    }
    Ok(StateOutcome::good(format!("Plugin '{name}' was {word}.")).changes(changes))
}
