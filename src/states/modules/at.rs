//! `at`: jobs that run once.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

const JOB: &[Arg] = args![
    timespec,
    tag = None,
    user = None,
    job = None,
    unique_tag = False
];

const PRESENT: StateFunction =
    StateFunction::new("present", present, "Adds a job that runs once at a time.").args(JOB);

pub(super) const MODULE: StateModule = StateModule {
    name: "at",
    functions: &[
        StateFunction::new(
            "absent",
            absent,
            "Removes jobs: one by its number, those that fit, or all.",
        )
        .args(args![jobid = None])
        .keywords(),
        StateFunction::new(
            "mod_watch",
            mod_watch,
            "Adds the job when what it watches changes.",
        )
        .args(JOB),
        PRESENT,
        StateFunction::new(
            "watch",
            |_| Ok(StateOutcome::good("")),
            "Adds a job when what it watches changes.",
        )
        .args(JOB),
    ],
};

fn mod_watch(s: &mut State<'_, '_>) -> Result {
    const FUNCTION: &StateFunction = &PRESENT;
    match s.low.str("sfun") {
        Some("watch") => s.run_as(FUNCTION),
        _ => Ok(StateOutcome::bad("")),
    }
}

fn jobs(answer: &Value) -> Vec<Value> {
    let list = answer
        .as_map()
        .and_then(|map| map.get("jobs"))
        .and_then(Value::as_array);
    list.unwrap_or_default().to_vec()
}

fn present(s: &mut State<'_, '_>) -> Result {
    let job = s
        .text("job")
        .filter(|job| !job.is_empty())
        .unwrap_or(s.name());
    let time = s.arg("timespec").clone();
    let shown = python::str(&time);
    if s.test {
        return Ok(StateOutcome::would(format!(
            "job {job} added and will run on {shown}"
        )));
    }
    let tag = s.arg("tag").clone();
    if s.flag("unique_tag") {
        if !tag.truthy() {
            return Ok(StateOutcome::bad(
                "no tag provided and unique_tag is set to True",
            ));
        }
        let same = s.salt_with("at.jobcheck", Vec::new(), map! {"tag" => tag.clone()})?;
        if !jobs(&same).is_empty() {
            let text = format!("atleast one job with tag {} exists.", python::str(&tag));
            return Ok(StateOutcome::good(text));
        }
    }
    let mut kwargs = map! {"tag" => tag};
    let mut comment = format!("job {job} added and will run on {shown}");
    if s.flag("user") {
        let user = s.arg("user").clone();
        let name = python::str(&user);
        if !s.salt("user.info", [user.clone()])?.truthy() {
            return Ok(StateOutcome::bad(format!("user {name} does not exists")));
        }
        comment = format!("job {job} added and will run as {name} on {shown}");
        kwargs.set("runas", user);
    }
    let answer = s.salt_with("at.at", [time, job.into()], kwargs)?;
    let error = answer.as_map().and_then(|map| map.get("error")).cloned();
    let outcome = match error {
        Some(error) => StateOutcome::bad(python::str(&error)),
        None => StateOutcome::good(comment),
    };
    Ok(match jobs(&answer).into_iter().next() {
        Some(job) => outcome.changes(job),
        None => outcome,
    })
}

/// The numbers of the removed jobs.
fn removed(s: &mut State<'_, '_>, ids: Vec<Value>) -> Result<Vec<Value>> {
    let answer = s.salt("at.atrm", ids)?;
    let list = answer
        .as_map()
        .and_then(|map| map.get("jobs"))
        .and_then(Value::as_map);
    let list = list
        .and_then(|jobs| jobs.get("removed"))
        .and_then(Value::as_array);
    Ok(list.unwrap_or_default().to_vec())
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if s.kwargs.contains("limit") {
        return Ok(StateOutcome::bad(format!(
            "limit parameter not supported {name}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would("removed ? job(s)"));
    }
    if s.flag("jobid") {
        let id = s.arg("jobid").clone();
        let shown = python::str(&id);
        let found = s.salt("at.atq", [id.clone()])?;
        match jobs(&found).len() {
            0 => {
                return Ok(StateOutcome::good(format!(
                    "job with id {shown} not present"
                )));
            }
            1 => {}
            _ => {
                let text = format!("more than one job was return for job with id {shown}");
                return Ok(StateOutcome::bad(text));
            }
        }
        let gone = removed(s, vec![id])?;
        // Stock compares a number with texts, and always says that it has failed.
        let outcome = if gone.iter().any(|one| one.is_str(&shown)) {
            StateOutcome::good(format!("job with id {shown} was removed"))
        } else {
            StateOutcome::bad(format!("failed to remove job with id {shown}"))
        };
        return Ok(outcome.changes(map! {"removed" => gone}));
    }
    let ids = if s.kwargs.is_empty() {
        vec!["all".into()]
    } else {
        let wanted = s.kwargs.clone();
        let found = s.salt_with("at.jobcheck", Vec::new(), wanted)?;
        let id = |job: &Value| job.as_map().and_then(|job| job.get("job")).map(python::str);
        jobs(&found).iter().filter_map(id).map(Value::Str).collect()
    };
    let gone = removed(s, ids)?;
    let text = format!("removed {} job(s)", gone.len());
    let mut changes = Map::new();
    if !gone.is_empty() {
        changes.set("removed", gone);
    }
    Ok(StateOutcome::good(text).changes(changes))
}
