//! `file.blockreplace`.

use super::edit::{edited, existing};
use super::{Step, absolute, command_error, fail, templates};
use crate::declare::State;
use halite_modules::execution::python;
use halite_wire::{Map, Value};

/// Adds what other states have collected for a file.
fn add_accumulated(content: &mut String, collected: &Map) {
    for (_, texts) in collected.iter() {
        for text in texts.as_array().unwrap_or_default() {
            if !content.is_empty() {
                content.push('\n');
            }
            content.push_str(&python::str(text));
        }
    }
}

pub(super) fn blockreplace(s: &mut State<'_, '_>) -> Step {
    let name = absolute(s, "blockreplace")?;
    existing(&name)?;
    let mut content = s.text("content").unwrap_or_default();
    let id = s.low.get("__id__").cloned().unwrap_or_default();
    add_accumulated(&mut content, &s.run.accumulated_for(&name, &id));
    for text in templates::texts(s)?.unwrap_or_default() {
        content.push_str(&text);
    }
    let mut with = s.pick(&[
        "marker_start",
        "marker_end",
        "append_if_not_found",
        "prepend_if_not_found",
        "backup",
        "show_changes",
        "append_newline",
        "insert_before_match",
        "insert_after_match",
    ]);
    with.set("content", content);
    with.set("dry_run", s.test);
    let done = s.salt_with("file.blockreplace", vec![Value::from(name)], with);
    match command_error(done)? {
        Ok(changes) => Ok(edited(s, changes, "Changes would be made")),
        Err(why) => fail(format!(
            "Encountered error managing block: {why}. See the log for details."
        )),
    }
}
