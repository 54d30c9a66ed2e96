//! Builds a scheduled job from keywords (`build_schedule_item`).

use super::super::Call;
use super::super::declare::Result;
use super::{ScheduleReply, name};
use halite_schedule::Moment;
use halite_wire::{Map, Value};

const UNITS: &[&str] = &["seconds", "minutes", "hours", "days"];
/// Keywords copied unchanged.
const COPIED_KEYS: &[&str] = &[
    "range",
    "when",
    "once",
    "once_fmt",
    "cron",
    "returner",
    "after",
    "return_config",
    "return_kwargs",
    "until",
    "run_on_start",
    "skip_during_range",
];

pub(super) fn build_schedule_item(call: &mut Call<'_>) -> Result {
    let name = name(call);
    if name.is_empty() {
        return Ok(ScheduleReply::without_changes("Job name is required.", false).into());
    }
    if let Some(why) = conflict(&call.bound.kwargs, "or") {
        return Ok(ScheduleReply::without_changes(why, false).into());
    }
    Ok(build(&name, &call.bound.kwargs)?.map_or_else(
        |why| ScheduleReply::without_changes(why, false).into(),
        Value::Map,
    ))
}

/// Conflicting time options; `last` is the calling function's wording.
pub(super) fn conflict(kwargs: &Map, last: &str) -> Option<String> {
    let has = |key: &str| kwargs.contains(key);
    if UNITS.iter().any(|unit| has(unit)) && (has("when") || has("cron")) {
        let how = match last {
            "modify" => {
                "Error: Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" option."
            }
            "add" => {
                "Error: Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options."
            }
            _ => {
                "Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options."
            }
        };
        return Some(how.to_owned());
    }
    let both = has("when") && has("cron");
    both.then(|| "Unable to use \"when\" and \"cron\" options together.  Ignoring.".to_owned())
}

/// Builds the job; the inner error is a comment for the caller.
///
/// # Errors
/// `KeyError` without a function.
pub(super) fn build(
    name: &str,
    kwargs: &Map,
) -> Result<Result<Map, String>, super::super::CallError> {
    let function = kwargs
        .get("function")
        .ok_or_else(|| super::super::CallError::raised("KeyError", "'function'"))?;
    let mut job = halite_wire::map! {"function" => function.clone()};
    let copy = |job: &mut Map, key: &str| {
        if let Some(value) = kwargs.get(key) {
            job.set(key, value.clone());
        }
    };
    for key in UNITS.iter().chain(&["return_job", "metadata"]) {
        copy(&mut job, key);
    }
    match kwargs.get("job_args") {
        Some(args @ Value::Array(_)) => job.set("args", args.clone()),
        Some(_) => {
            return Ok(Err(
                "job_args is not a list. please correct and try again.".to_owned()
            ));
        }
        None => {}
    }
    match kwargs.get("job_kwargs") {
        Some(args @ Value::Map(_)) => job.set("kwargs", args.clone()),
        Some(_) => {
            return Ok(Err(
                "job_kwargs is not a dict. please correct and try again.".to_owned(),
            ));
        }
        None => {}
    }
    let or = |key: &str, other: Value| kwargs.get(key).cloned().unwrap_or(other);
    job.set("maxrunning", or("maxrunning", 1.into()));
    job.set("name", name);
    job.set("enabled", or("enabled", true.into()));
    job.set("jid_include", or("jid_include", true.into()));
    copy(&mut job, "splay");
    if let Some(when) = kwargs.get("when") {
        let list = match when {
            Value::Array(list) => list.clone(),
            one => vec![one.clone()],
        };
        for one in &list {
            if one.as_str().is_none_or(|text| Moment::parse(text).is_err()) {
                let shown = super::super::python::str(one);
                return Ok(Err(format!(
                    "Schedule item {shown} for \"when\" in invalid."
                )));
            }
        }
    }
    for key in COPIED_KEYS {
        copy(&mut job, key);
    }
    Ok(Ok(job))
}
