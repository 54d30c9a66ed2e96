//! `augeas`: changes in configuration files, by the structure that Augeas sees in them.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_modules::files::MAX_CONTENT;
use halite_sys::safe_open::read_finite;
use halite_wire::{Value, difflib, map};
use std::path::Path;

pub(super) const MODULE: StateModule = StateModule {
    name: "augeas",
    functions: &[
        StateFunction::new("change", change, "Ensures values in a configuration file.")
            .args(args![
                context = None,
                changes = None,
                lens = None,
                load_path = None
            ])
            .keywords(),
    ],
};

fn change(s: &mut State<'_, '_>) -> Result {
    let changes: Vec<Value> = match s.arg("changes").as_array() {
        Some(changes) if !changes.is_empty() => changes.to_vec(),
        _ => return Ok(StateOutcome::bad("'changes' must be specified as a list")),
    };
    let load_path = match s.arg("load_path") {
        Value::Nil => Value::Nil,
        Value::Array(dirs) => {
            let dirs: Vec<String> = dirs.iter().map(python::str).collect();
            dirs.join(":").into()
        }
        _ => return Ok(StateOutcome::bad("'load_path' must be specified as a list")),
    };
    let context = s.text("context").filter(|context| !context.is_empty());
    let file = match &context {
        Some(context) => {
            let path = context.strip_prefix("/files").unwrap_or(context);
            path.strip_suffix('/').unwrap_or(path).to_owned()
        }
        None => match only_file(&changes) {
            Ok(file) => file,
            Err(text) => return Ok(StateOutcome::bad(format!("Error: {text}"))),
        },
    };
    if s.test {
        let words: Vec<String> = changes.iter().map(python::str).collect();
        let words = words.join("\n");
        return Ok(StateOutcome::good(match &context {
            Some(context) => format!("Executing commands in file \"{context}\":\n{words}"),
            None => format!("Executing commands{words}"),
        }));
    }
    let before = lines(&file);
    let kwargs = map! {
        "context" => context.unwrap_or_default(), "lens" => s.arg("lens").clone(), "commands" => changes,
        "load_path" => load_path,
    };
    let done = s.salt_with("augeas.execute", Vec::new(), kwargs)?;
    let done = done.into_map().unwrap_or_default();
    if !done.get("retval").is_some_and(Value::truthy) {
        let text = done.str("error").unwrap_or("augeas failed");
        return Ok(StateOutcome::bad(format!("Error: {text}")));
    }
    let diff = difflib::changed_lines(&before, &lines(&file));
    Ok(if diff.is_empty() {
        StateOutcome::good("No changes made")
    } else {
        StateOutcome::good("Changes have been saved").changes(map! {"diff" => diff})
    })
}

/// The lines of a file, with their ends; a file that is not there has none.
fn lines(file: &str) -> Vec<String> {
    let bytes = read_finite(file.as_ref(), MAX_CONTENT).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// The file of changes without a context.
fn only_file(changes: &[Value]) -> Result<String, String> {
    let mut first: Option<String> = None;
    for change in changes {
        let change = python::str(change);
        let mut words = change.split_whitespace();
        let path = match words.next() {
            Some("ins" | "insert") => words.nth(2),
            _ => words.next(),
        };
        let Some(path) = path.and_then(|path| path.strip_prefix("/files")) else {
            return Err(format!(
                "Changes should be prefixed with /files if no context is provided, change: {change}"
            ));
        };
        let file = of_path(path);
        match &first {
            None => first = Some(file),
            Some(known) if *known == file => {}
            Some(known) => {
                return Err(format!(
                    "Changes should be made to one file at a time, detected changes to {known} and {file}"
                ));
            }
        }
    }
    Ok(first.unwrap_or_default())
}

/// The part of a path that names a file; the rest are nodes in it.
fn of_path(path: &str) -> String {
    let mut ancestors = Path::new(path).ancestors();
    let file = ancestors.find(|path| path.is_file());
    file.map_or(path.to_owned(), |file| file.to_string_lossy().into_owned())
}
