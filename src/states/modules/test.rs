//! `test`: states for trying out requisites (`salt/states/test.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "test",
    functions: &[
        StateFunction::new(
            "check_pillar",
            check_pillar,
            "Checks that pillar keys exist and have a type.",
        )
        .args(args![
            present = None,
            boolean = None,
            integer = None,
            string = None,
            listing = None,
            dictionary = None,
            verbose = False
        ]),
        StateFunction::new(
            "configurable_test_state",
            configurable,
            "Returns the given result, changes and comment.",
        )
        .args(args![
            changes = True,
            result = True,
            comment = "",
            warnings = None,
            allow_test_mode_failure = False
        ]),
        StateFunction::new(
            "fail_with_changes",
            |s| told(s, true, false),
            "Always fails, and pretends to change something.",
        )
        .keywords(),
        StateFunction::new(
            "fail_without_changes",
            |s| told(s, false, false),
            "Always fails and changes nothing.",
        )
        .keywords(),
        StateFunction::new("mod_watch", mod_watch, "Tells what has changed.").keywords(),
        StateFunction::new(
            "nop",
            |s| told(s, false, true),
            "Always succeeds and changes nothing.",
        )
        .keywords(),
        StateFunction::new("show_notification", show_notification, "Shows a text.")
            .args(args![text = None])
            .keywords(),
        StateFunction::new(
            "succeed_with_changes",
            |s| told(s, true, true),
            "Always succeeds, and pretends to change something.",
        )
        .keywords(),
        StateFunction::new(
            "succeed_without_changes",
            |s| told(s, false, true),
            "Always succeeds and changes nothing.",
        )
        .keywords(),
    ],
};

fn pretended() -> Map {
    let change = halite_wire::map! {"old" => "Unchanged", "new" => "Something pretended to change"};
    halite_wire::map! {"testing" => change}
}

fn told(s: &mut State<'_, '_>, changes: bool, good: bool) -> Result {
    let mut outcome = match (good, changes, s.test) {
        (true, true, true) => {
            StateOutcome::would("If we weren't testing, this would be successful with changes")
        }
        (true, ..) => StateOutcome::good("Success!"),
        (false, true, true) => {
            StateOutcome::would("If we weren't testing, this would be failed with changes")
        }
        (false, false, true) => {
            StateOutcome::bad("If we weren't testing, this would be a failure!")
        }
        (false, ..) => StateOutcome::bad("Failure!"),
    };
    if let Some(comment) = s
        .kwargs
        .get("comment")
        .filter(|_| (!s.test || good && !changes) && s.function.name != "nop")
    {
        outcome.comment = python::str(comment);
    }
    if changes {
        outcome.changes = pretended().into();
    }
    Ok(outcome)
}

fn configurable(s: &mut State<'_, '_>) -> Result {
    let random = || Value::Bool(jiff::Timestamp::now().as_microsecond() % 2 == 0);
    let decide = |name: &str, given: &Value| {
        match given {
        Value::Bool(yes) => Ok(*yes),
        Value::Str(text) if text.eq_ignore_ascii_case("random") => Ok(random().truthy()),
        _ => Err(CallError::Invocation(match name {
            "changes" => "You have specified the state option 'changes' with invalid arguments. It must be either True, False, or 'Random'".to_owned(),
            _ => "You have specified the state option 'result' with invalid arguments. It must be either True, False, or 'Random'".to_owned(),
        })),
    }
    };
    let changes = decide("changes", s.arg("changes"))?;
    let result = decide("result", s.arg("result"))?;
    let mut outcome = StateOutcome::new(Some(result), s.text("comment").unwrap_or_default());
    if changes {
        outcome.changes = pretended().into();
    }
    match s.arg("warnings") {
        Value::Nil => {}
        Value::Array(list) => outcome
            .more
            .set("warnings", list.iter().map(python::str).collect::<Vec<_>>()),
        Value::Str(text) => outcome
            .more
            .set("warnings", vec![Value::from(text.as_str())]),
        _ => {
            return Err(CallError::Invocation(
                "You have specified the state option 'warnings' with invalid arguments. It must be a string or a list of strings".to_owned(),
            ));
        }
    }
    if s.test {
        outcome.result = match (s.flag("allow_test_mode_failure"), changes) {
            (true, _) if !result => Some(false),
            (_, true) => None,
            (_, false) => Some(true),
        };
        if outcome.comment.is_empty() {
            outcome.comment = "This is a test".to_owned();
        }
    }
    Ok(outcome)
}

fn show_notification(s: &mut State<'_, '_>) -> Result {
    if let text @ Value::Map(_) = s.arg("text") {
        return Ok(StateOutcome::good("").with("comment", text.clone()));
    }
    match s.text("text") {
        Some(text) if !text.is_empty() => Ok(StateOutcome::good(text)),
        _ => Err(CallError::Invocation(
            "Missing required argument text.".to_owned(),
        )),
    }
}

/// The watched states that have changed, of requisites in the form that `mod_watch` gets.
fn mod_watch(s: &mut State<'_, '_>) -> Result {
    let mut changed = Vec::new();
    let watched = s
        .low
        .get("__reqs__")
        .and_then(Value::as_map)
        .and_then(|all| all.get("watch"));
    for low in watched.and_then(Value::as_array).unwrap_or_default() {
        let Some(low) = low.as_map() else { continue };
        changed.push(Value::from(format!(
            "{}: {}",
            low.str("state").unwrap_or_default(),
            low.get("__id__").map(python::str).unwrap_or_default()
        )));
    }
    Ok(StateOutcome::good("Watch statement fired.")
        .changes(halite_wire::map! {"Requisites with changes" => changed}))
}

/// Whether a value has a type.
type IsKind = fn(&Value) -> bool;

fn check_pillar(s: &mut State<'_, '_>) -> Result {
    let pillar = s.ctx().pillar.clone();
    let verbose = s.flag("verbose");
    let find = |key: &str| {
        let mut at = Value::Map(Map::clone(&pillar));
        for part in key.split(':') {
            at = at.as_map()?.get(part)?.clone();
        }
        Some(at)
    };
    let mut comment = String::new();
    let mut good = true;
    let checks: [(&str, &str, IsKind); 6] = [
        ("present", "", |_| true),
        ("boolean", "bool", |v| matches!(v, Value::Bool(_))),
        ("integer", "int", |v| {
            matches!(v, Value::Int(_) | Value::Bool(_))
        }),
        ("string", "str", |v| matches!(v, Value::Str(_))),
        ("listing", "list", |v| matches!(v, Value::Array(_))),
        ("dictionary", "dict", |v| matches!(v, Value::Map(_))),
    ];
    // Each key once, present ones first, as in stock Salt.
    for (name, kind, fits) in checks {
        for key in s.list(name).iter().map(python::str) {
            match find(&key) {
                None => {
                    good = false;
                    comment.push_str(&format!("Pillar key \"{key}\" is missing.\n"));
                }
                Some(value) if !fits(&value) => {
                    good = false;
                    comment.push_str(&format!("Pillar key \"{key}\" is not {kind}.\n"));
                }
                Some(_) if verbose => {
                    let what = if kind.is_empty() { "present" } else { kind };
                    comment.push_str(&format!("Pillar key \"{key}\" is {what}.\n"));
                }
                Some(_) => {}
            }
        }
    }
    Ok(StateOutcome::new(Some(good), comment))
}
