//! `file`: files, directories, links and their contents (`salt/states/file.py`).

mod accumulated;
mod append;
mod block;
mod cached;
mod check;
mod clean;
mod copy;
mod decode;
mod directory;
mod edit;
mod keyvalue;
mod line;
mod links;
mod managed;
mod patch;
mod pruned;
mod recurse;
mod retention;
mod serialize;
mod simple;
mod symlink;
mod table;
mod templates;
mod tidied;

pub(super) use cached::ToCache;
pub(super) use managed::signature_of;
pub(super) use table::MODULE;

use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::file::paths;
use halite_modules::execution::file::{group_to_gid, user_to_uid};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

/// Why a function ends before its last line.
pub(super) enum Ended {
    /// With this outcome.
    With(Box<StateOutcome>),
    /// With an exception.
    Raised(CallError),
}

impl From<CallError> for Ended {
    fn from(fault: CallError) -> Ended {
        Ended::Raised(fault)
    }
}

impl From<StateOutcome> for Ended {
    fn from(outcome: StateOutcome) -> Ended {
        Ended::With(Box::new(outcome))
    }
}

/// The result of a step of a state.
pub(super) type Step<T = StateOutcome> = std::result::Result<T, Ended>;

/// Runs the steps of a function; its outcome has the name with the home directory filled in.
fn run(s: &mut State<'_, '_>, steps: fn(&mut State<'_, '_>) -> Step) -> Result {
    let name = s.name();
    let outcome = outcome(steps(s))?;
    Ok(match name.starts_with('~') {
        true => outcome.with("name", paths::expanduser(&name)),
        false => outcome,
    })
}

/// The outcome of steps.
pub(super) fn outcome(step: Step) -> Result {
    match step {
        Ok(outcome) => Ok(outcome),
        Err(Ended::With(outcome)) => Ok(*outcome),
        Err(Ended::Raised(fault)) => Err(fault),
    }
}

/// Ends with a failure.
fn fail<T>(comment: impl Into<String>) -> Step<T> {
    Err(StateOutcome::bad(comment).into())
}

/// The text of a `CommandExecutionError`; other exceptions are passed on.
fn command_error<T>(result: Result<T>) -> Result<std::result::Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(CallError::Command(text)) => Ok(Err(text)),
        Err(other) => Err(other),
    }
}

/// The path of a state, which must be there.
fn named(s: &State<'_, '_>, function: &str) -> Step<String> {
    match paths::expanduser(&s.name()) {
        name if name.is_empty() => fail(format!("Must provide name to file.{function}")),
        name => Ok(name),
    }
}

/// The path of a state, which must be absolute.
fn absolute(s: &State<'_, '_>, function: &str) -> Step<String> {
    let name = named(s, function)?;
    if paths::is_abs(&name) {
        Ok(name)
    } else {
        fail(format!("Specified file {name} is not an absolute path"))
    }
}

/// The user of a state, which may also be given as `owner`.
fn user_of(s: &State<'_, '_>) -> Value {
    match s.arg("user") {
        user if user.truthy() => user.clone(),
        user => s.kwargs.get("owner").unwrap_or(user).clone(),
    }
}

/// What is wrong with a user and a group; empty if they exist or are not given.
fn unknown_owner(user: &Value, group: &Value) -> String {
    let mut text = String::new();
    if user.truthy() && user_to_uid(user).is_none() {
        text.push_str(&format!("User {} is not available ", python::str(user)));
    }
    if group.truthy() && group_to_gid(group).is_none() {
        text.push_str(&format!("Group {} is not available", python::str(group)));
    }
    text
}

/// Requires that user and group exist, except in test mode: an earlier state may be about to create them.
fn known_owner(s: &State<'_, '_>, user: &Value, group: &Value) -> Step<()> {
    let wrong = unknown_owner(user, group);
    if wrong.is_empty() {
        return Ok(());
    }
    if s.test {
        log::warn!("{}: {}", s.name(), wrong.trim_end());
        return Ok(());
    }
    fail(wrong)
}

/// The outcome that a state return of an execution function describes.
fn outcome_of(mut ret: Map) -> StateOutcome {
    let result = match ret.remove("result") {
        Some(Value::Nil) => None,
        other => Some(other.is_some_and(|v| v.truthy())),
    };
    let comment = ret.remove("comment").map(|c| python::str(&c));
    let changes = ret.remove("changes").unwrap_or_else(|| Map::new().into());
    let mut outcome = StateOutcome::new(result, comment.unwrap_or_default()).changes(changes);
    ret.remove("name");
    outcome.more = ret;
    outcome
}

/// Whether a map of changes has any.
fn has_changes(outcome: &StateOutcome) -> bool {
    outcome.changes.truthy()
}

/// Adds a change.
fn change(outcome: &mut StateOutcome, key: &str, value: impl Into<Value>) {
    if let Value::Map(changes) = &mut outcome.changes {
        changes.set(key, value);
    }
}

/// An optional mode in the four digits of `ls`; anything else stays.
fn mode_of(value: &Value) -> Value {
    halite_modules::execution::file::os::normalize_mode(value).into()
}

/// A line of a text without its end.
fn without_end(line: &str) -> &str {
    let ends = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    match line.strip_suffix("\r\n") {
        Some(line) => line,
        None => line.strip_suffix(ends).unwrap_or(line),
    }
}
