//! `schedule`: the jobs of the minion's own schedule.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "schedule",
    functions: &[
        StateFunction::new(
            "absent",
            absent,
            "Ensures that a job is not in the schedule.",
        )
        .keywords(),
        StateFunction::new(
            "disabled",
            |s| switch(s, "schedule.disable_job", "Disabled"),
            "Disables a job of the schedule.",
        )
        .keywords(),
        StateFunction::new(
            "enabled",
            |s| switch(s, "schedule.enable_job", "Enabled"),
            "Enables a job of the schedule.",
        )
        .keywords(),
        StateFunction::new("present", present, "Ensures that a job is in the schedule.").keywords(),
    ],
};

/// The job as it is scheduled now.
fn current(s: &mut State<'_, '_>) -> Result<Option<Value>> {
    let all = s.salt_with(
        "schedule.list",
        Vec::new(),
        map! {"show_all" => true, "return_yaml" => false},
    )?;
    Ok(all.as_map().and_then(|all| all.get(&s.name())).cloned())
}

/// Calls a function of the schedule; what it returns.
fn call(s: &mut State<'_, '_>, fun: &str) -> Result<Map> {
    let mut given = s.kwargs.clone();
    if s.test {
        given.set("test", true);
    }
    let name = Value::from(s.name());
    let answer = s.salt_with(fun, [name], given)?;
    Ok(answer.into_map().unwrap_or_default())
}

/// Its outcome, with another comment for a change that was made.
fn outcome(s: &State<'_, '_>, answer: &Map, done: String) -> StateOutcome {
    let comment = answer.get("comment").map(python::str).unwrap_or_default();
    let changes = match answer.get("changes") {
        Some(Value::Map(changes)) => changes.clone(),
        _ => Map::new(),
    };
    match answer.get("result").is_some_and(Value::truthy) {
        _ if s.test => StateOutcome::good(comment).changes(changes),
        true => StateOutcome::good(done).changes(changes),
        false => StateOutcome::bad(comment),
    }
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let Some(now) = current(s)? else {
        let mut answer = call(s, "schedule.add")?;
        let fine = answer.get("result").is_some_and(Value::truthy);
        if s.test && fine && !answer.get("changes").is_some_and(Value::truthy) {
            answer.set("changes", map! {name.as_str() => "added"});
        }
        return Ok(outcome(
            s,
            &answer,
            format!("Adding new job {name} to schedule"),
        ));
    };
    let given = s.kwargs.clone();
    let wanted = s.salt_with(
        "schedule.build_schedule_item",
        [Value::from(name.as_str())],
        given,
    )?;
    if let Some(Value::Bool(false)) = wanted.as_map().and_then(|w| w.get("result")) {
        let comment = wanted
            .as_map()
            .and_then(|w| w.get("comment"))
            .map(python::str);
        return Ok(StateOutcome::bad(comment.unwrap_or_default()));
    }
    if same(&wanted, &now) {
        return Ok(StateOutcome::good(format!("Job {name} in correct state")));
    }
    let answer = call(s, "schedule.modify")?;
    Ok(outcome(
        s,
        &answer,
        format!("Modifying job {name} in schedule"),
    ))
}

/// Whether two maps have the same entries, in any order.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Map(left), Value::Map(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| {
                    let other = right.iter().find(|(k, _)| k == key);
                    other.is_some_and(|(_, other)| same(value, other))
                })
        }
        _ => left == right,
    }
}

fn not_present(name: &str) -> StateOutcome {
    StateOutcome::good(format!("Job {name} not present in schedule"))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if current(s)?.is_none() {
        return Ok(not_present(&name));
    }
    let answer = call(s, "schedule.delete")?;
    Ok(outcome(
        s,
        &answer,
        format!("Removed job {name} from schedule"),
    ))
}

fn switch(s: &mut State<'_, '_>, fun: &str, done: &str) -> Result {
    let name = s.name();
    if current(s)?.is_none() {
        return Ok(not_present(&name));
    }
    let answer = call(s, fun)?;
    let done = format!("{done} job {name} from schedule");
    // Stock does not tell these as changes.
    Ok(outcome(s, &answer, done).changes(Map::new()))
}
