//! `file.accumulated`.

use super::{Step, fail};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::python;
use halite_wire::{Map, Value};

/// The states that a state is for, by module.
fn targets(low: &Map) -> Vec<Value> {
    let keys = ["require_in", "watch_in"];
    let lists = keys.iter().filter_map(|key| low.get(key)?.as_array());
    lists.flatten().cloned().collect()
}

pub(super) fn accumulated(s: &mut State<'_, '_>) -> Step {
    let name = s.name();
    if name.is_empty() {
        return fail("Must provide name to file.accumulated");
    }
    let text = match s.arg("text") {
        Value::Nil => return fail("No text supplied for accumulator"),
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let targets = targets(s.low);
    if targets.is_empty() {
        return fail(format!(
            "Orphaned accumulator {name} in {}:{}",
            python::str(s.low.get("__sls__").unwrap_or(&Value::Nil)),
            python::str(s.low.get("__id__").unwrap_or(&Value::Nil))
        ));
    }
    if !targets
        .iter()
        .any(|one| one.as_str().is_some() || one.as_map().is_some_and(|map| map.contains("file")))
    {
        return fail(format!(
            "Orphaned accumulator {name} in {}:{}",
            python::str(s.low.get("__sls__").unwrap_or(&Value::Nil)),
            python::str(s.low.get("__id__").unwrap_or(&Value::Nil))
        ));
    }
    let file = s.text("filename").unwrap_or_default();
    let ids = targets.iter().filter_map(Value::as_map);
    let ids = ids.flat_map(|map| map.iter().map(|(_, id)| id.clone()));
    s.run.accumulate(&file, &name, text, ids.collect());
    Ok(StateOutcome::good(format!(
        "Accumulator {name} for file {file} was charged by text"
    )))
}
