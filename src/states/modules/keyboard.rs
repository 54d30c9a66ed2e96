//! `keyboard`: the layout of the keyboard.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_wire::map;

pub(super) const MODULE: StateModule = StateModule {
    name: "keyboard",
    functions: &[
        StateFunction::new(
            "system",
            |s| layout(s, "sys", "System", "system"),
            "Ensures that the console has a layout.",
        ),
        StateFunction::new(
            "xorg",
            |s| layout(s, "x", "XOrg", "XOrg"),
            "Ensures that X has a layout.",
        ),
    ],
};

fn layout(s: &mut State<'_, '_>, of: &str, title: &str, word: &str) -> Result {
    let name = s.name();
    if s.salt(&format!("keyboard.get_{of}"), Vec::new())?
        .is_str(&name)
    {
        return Ok(StateOutcome::good(format!(
            "{title} layout {name} already set"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "{title} layout {name} needs to be set"
        )));
    }
    Ok(
        if s.salt(&format!("keyboard.set_{of}"), [name.as_str().into()])?
            .truthy()
        {
            let text = format!("Set {word} keyboard layout {name}");
            StateOutcome::good(text).changes(map! {"layout" => name})
        } else {
            StateOutcome::bad(format!("Failed to set {word} keyboard layout"))
        },
    )
}
