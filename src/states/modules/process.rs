//! `process`: processes that must not run.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "process",
    functions: &[StateFunction::new(
        "absent",
        absent,
        "Ends the processes that have a text in their names.",
    )
    .args(args![user = None, signal = None])],
};

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = Value::from(s.name());
    let mut kwargs = s.pick(&["user"]);
    if s.test {
        let found = s.salt_with("ps.pgrep", vec![name], kwargs)?;
        return Ok(match found.as_array() {
            Some(all) if !all.is_empty() => {
                StateOutcome::would(format!("{} processes will be killed", all.len()))
            }
            _ => StateOutcome::would("No matching processes running"),
        });
    }
    if s.flag("signal") {
        kwargs.set("signal", s.arg("signal").clone());
    }
    let done = s.salt_with("ps.pkill", vec![name], kwargs)?;
    let done: Map = done.into_map().unwrap_or_default();
    let killed = done
        .get("killed")
        .and_then(Value::as_array)
        .unwrap_or_default();
    if killed.is_empty() {
        return Ok(StateOutcome::good("No matching processes running"));
    }
    let text = format!("Killed {} processes", killed.len());
    Ok(StateOutcome::good(text).changes(map! {"killed" => killed.to_vec()}))
}
