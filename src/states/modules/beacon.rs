//! `beacon`: the minion's beacons.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "beacon",
    functions: &[
        StateFunction::new("absent", absent, "Ensures that a beacon is not configured.")
            .args(args![save = False])
            .keywords(),
        StateFunction::new("disabled", disabled, "Disables a beacon.").keywords(),
        StateFunction::new("enabled", enabled, "Enables a beacon.").keywords(),
        StateFunction::new("present", present, "Ensures that a beacon is configured.")
            .args(args![save = False])
            .keywords(),
    ],
};

/// The configuration of the beacon now.
fn current(s: &mut State<'_, '_>) -> Result<Option<Value>> {
    let all = s.salt_with("beacons.list", Vec::new(), map! {"return_yaml" => false})?;
    match all {
        Value::Map(all) => Ok(all.get(&s.name()).cloned()),
        // What stock says if no minion answers.
        _ => Err(CallError::Type(
            "argument of type 'NoneType' is not iterable".to_owned(),
        )),
    }
}

/// Calls a function of beacons; in test mode it only says what it would do.
fn call(s: &mut State<'_, '_>, fun: &str, data: Option<Vec<Value>>) -> Result<Map> {
    let mut args = vec![Value::from(s.name())];
    args.extend(data.map(Value::from));
    let given = match s.test {
        true => map! {"test" => true},
        false => Map::new(),
    };
    let answer = s.salt_with(fun, args, given)?;
    Ok(answer.into_map().unwrap_or_default())
}

fn outcome(s: &State<'_, '_>, answer: &Map, done: String) -> StateOutcome {
    let comment = answer.get("comment").map(python::str).unwrap_or_default();
    let changes = match answer.get("changes") {
        Some(Value::Map(changes)) => changes.clone(),
        _ => Map::new(),
    };
    match answer.get("result").is_some_and(Value::truthy) {
        _ if s.test => StateOutcome::good(comment),
        true => StateOutcome::good(done).changes(changes),
        false => StateOutcome::bad(comment),
    }
}

/// Keeps the beacons over a restart, if the declaration says so.
fn save(s: &mut State<'_, '_>, mut outcome: StateOutcome) -> Result {
    if !s.flag("save") || outcome.result == Some(false) {
        return Ok(outcome);
    }
    let name = s.name();
    if s.test {
        outcome
            .comment
            .push_str(&format!("\nBeacon {name} would be saved"));
        return Ok(outcome);
    }
    let answer = s.salt("beacons.save", Vec::new())?;
    let answer = answer.as_map().cloned().unwrap_or_default();
    if answer.get("result").is_some_and(Value::truthy) {
        outcome.comment.push_str(&format!("\nBeacon {name} saved"));
    } else {
        outcome.result = Some(false);
        let why = answer.get("comment").map(python::str).unwrap_or_default();
        outcome.comment.push_str(&format!("\n{why}"));
    }
    Ok(outcome)
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let data: Vec<Value> = s
        .kwargs
        .iter()
        .map(|(key, value)| Map(vec![(key.clone(), value.clone())]).into())
        .collect();
    let outcome = match current(s)? {
        None => {
            let answer = call(s, "beacons.add", Some(data))?;
            outcome(s, &answer, format!("Adding {name} to beacons"))
        }
        Some(now) if now == Value::from(data.clone()) => {
            StateOutcome::good(format!("Job {name} in correct state"))
        }
        Some(_) => {
            let answer = call(s, "beacons.modify", Some(data))?;
            outcome(s, &answer, format!("Modifying {name} in beacons"))
        }
    };
    save(s, outcome)
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let outcome = if current(s)?.is_some() {
        let answer = call(s, "beacons.delete", None)?;
        outcome(s, &answer, format!("Removed {name} from beacons"))
    } else {
        StateOutcome::good(format!("{name} not configured in beacons"))
    };
    save(s, outcome)
}

fn enabled(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if current(s)?.is_none() {
        return Ok(StateOutcome::good(format!(
            "{name} not a configured beacon"
        )));
    }
    let answer = call(s, "beacons.enable_beacon", None)?;
    Ok(outcome(s, &answer, format!("Enabled {name} from beacons")))
}

fn disabled(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if current(s)?.is_none() {
        return Ok(StateOutcome::good(format!("Job {name} is not configured.")));
    }
    let answer = call(s, "beacons.disable_beacon", None)?;
    Ok(outcome(s, &answer, format!("Disabled beacon {name}.")))
}
