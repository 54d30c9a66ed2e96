//! Adding, changing and removing scheduled jobs.

use super::super::declare::Result;
use super::super::{Call, CallError};
use super::item::{build, conflict};
use super::show::{ListFilter, jobs};
use super::{ScheduleReply, changed, fire, keyword, name, persist, save};
use halite_wire::{Map, Value};

pub(super) fn add(call: &mut Call<'_>) -> Result {
    let name = name(call);
    let offline = keyword(call, "offline");
    let mut schedule = jobs(
        call,
        ListFilter {
            offline,
            ..ListFilter::all()
        },
    );
    let say = |comment: String, result| Ok(ScheduleReply::new(comment, result).into());
    if schedule.contains(&name) {
        return say(format!("Job {name} already exists in schedule."), false);
    }
    let kwargs = &call.bound.kwargs;
    if let Some(why) = conflict(kwargs, "add") {
        return say(why, false);
    }
    if name.is_empty() {
        return Ok(ScheduleReply::without_changes("Job name is required.", false).into());
    }
    let job = match build(&name, kwargs)? {
        Ok(job) => job,
        Err(why) => return Ok(ScheduleReply::without_changes(why, false).into()),
    };
    if keyword(call, "test") {
        return say(format!("Job: {name} would be added to schedule."), true);
    }
    let done = format!("Added job: {name} to schedule.");
    if offline {
        schedule.set(&name, job);
        save(call, &schedule);
        return Ok(ScheduleReply::new(done, true).with(&name, "added").into());
    }
    let mut one = Map::new();
    one.set(&name, job);
    let data = halite_wire::map! {
        "name" => name.as_str(), "schedule" => one, "func" => "add", "persist" => persist(call),
    };
    match changed(call, &data, "add_complete") {
        Some(now) if now.contains(&name) => {
            Ok(ScheduleReply::new(done, true).with(&name, "added").into())
        }
        _ => say(format!("Failed to add job {name} to schedule."), false),
    }
}

pub(super) fn modify(call: &mut Call<'_>) -> Result {
    let name = name(call);
    let mut kwargs = call.bound.kwargs.clone();
    if let Some(why) = conflict(&kwargs, "modify") {
        return Ok(ScheduleReply::changing(why, false).into());
    }
    let offline = keyword(call, "offline");
    let mut schedule = jobs(
        call,
        ListFilter {
            offline,
            ..ListFilter::all()
        },
    );
    let Some(current) = schedule.get(&name).and_then(Value::as_map).cloned() else {
        let why = format!("Job {name} does not exist in schedule.");
        return Ok(ScheduleReply::changing(why, false).into());
    };
    if !kwargs.contains("function") {
        kwargs.set(
            "function",
            current.get("function").cloned().unwrap_or_default(),
        );
    }
    let job = match build(&name, &kwargs)? {
        Ok(job) => job,
        Err(why) => return Ok(ScheduleReply::without_changes(why, false).into()),
    };
    if is_equal(&job, &current) {
        return Ok(ScheduleReply::changing(format!("Job {name} in correct state"), true).into());
    }
    let change = halite_wire::map! {"old" => current.clone(), "new" => job.clone()};
    let say = |comment: String, result| {
        let reply = ScheduleReply::changing(comment, result).with(&name, change.clone());
        Ok(reply.into())
    };
    if keyword(call, "test") {
        return say(format!("Job: {name} would be modified in schedule."), true);
    }
    let done = format!("Modified job: {name} in schedule.");
    if offline {
        let mut merged = current;
        for (key, value) in job.0 {
            merged.set(key.as_str().unwrap_or_default(), value);
        }
        schedule.set(&name, merged);
        save(call, &schedule);
        return say(done, true);
    }
    let mut data = halite_wire::map! {
        "name" => name.as_str(), "schedule" => job, "func" => "modify", "persist" => persist(call),
    };
    if !jobs(call, ListFilter::of("opts")).contains(&name) {
        data.set("where", "pillar");
        data.set("persist", false);
    }
    if fire(call, &data) {
        say(done, true)
    } else {
        say(format!("Failed to modify job {name} in schedule."), false)
    }
}

/// Equality of Python dicts, regardless of order.
fn is_equal(a: &Map, b: &Map) -> bool {
    a.len() == b.len()
        && a.iter()
            .all(|(k, v)| k.as_str().and_then(|k| b.get(k)) == Some(v))
}

pub(super) fn delete(call: &mut Call<'_>) -> Result {
    let name = name(call);
    if keyword(call, "test") {
        let would = format!("Job: {name} would be deleted from schedule.");
        return Ok(ScheduleReply::new(would, true).into());
    }
    let done = || {
        let reply = ScheduleReply::new(format!("Deleted Job {name} from schedule."), true);
        Ok(reply.with(&name, "removed").into())
    };
    if keyword(call, "offline") {
        let wanted = ListFilter {
            offline: true,
            ..ListFilter::all()
        };
        let mut schedule = jobs(call, wanted);
        if schedule.remove(&name).is_none() {
            return Err(CallError::raised("KeyError", format!("'{name}'")));
        }
        save(call, &schedule);
        return done();
    }
    match remove(call, &name, persist(call)) {
        None => Ok(ScheduleReply::new(format!("Job {name} does not exist."), false).into()),
        Some(true) => done(),
        Some(false) => {
            let why = format!("Failed to delete job {name} from schedule.");
            Ok(ScheduleReply::new(why, false).into())
        }
    }
}

/// Has the daemon remove a job; `None` if it does not exist.
fn remove(call: &Call<'_>, name: &str, persist: Value) -> Option<bool> {
    let mut data = halite_wire::map! {"name" => name, "func" => "delete", "persist" => persist};
    if !jobs(call, ListFilter::of("opts")).contains(name) {
        if !jobs(call, ListFilter::of("pillar")).contains(name) {
            return None;
        }
        data.set("where", "pillar");
        data.set("persist", false);
    }
    let now = changed(call, &data, "delete_complete");
    Some(now.is_some_and(|now| !now.contains(name)))
}

pub(super) fn purge(call: &mut Call<'_>) -> Result {
    let offline = keyword(call, "offline");
    let mut schedule = jobs(
        call,
        ListFilter {
            offline,
            ..ListFilter::all()
        },
    );
    let names: Vec<String> = schedule
        .iter()
        .filter_map(|(k, _)| k.as_str())
        .filter(|k| *k != "enabled" && !k.starts_with("__"))
        .map(str::to_owned)
        .collect();
    let mut comments = Vec::new();
    let mut changes = Map::new();
    for name in names {
        if keyword(call, "test") {
            comments.push(format!("Job: {name} would be deleted from schedule."));
            continue;
        }
        let gone = if offline {
            schedule.remove(&name).is_some()
        } else {
            let data = halite_wire::map! {"name" => name.as_str(), "func" => "delete", "persist" => persist(call)};
            changed(call, &data, "delete_complete").is_some_and(|now| !now.contains(&name))
        };
        if gone {
            comments.push(format!("Deleted job: {name} from schedule."));
            changes.set(&name, "removed");
        } else {
            comments.push(format!("Failed to delete job {name} from schedule."));
        }
    }
    if offline {
        save(call, &schedule);
    }
    Ok(ScheduleReply {
        changes: Some(changes),
        ..ScheduleReply::changing(comments, true)
    }
    .into())
}

/// `copy`, or `move` if `away` is set.
pub(super) fn send(call: &mut Call<'_>, away: bool) -> Result {
    let name = name(call);
    let (done, would) = if away {
        ("Moved", "moved")
    } else {
        ("Copied", "copied")
    };
    if keyword(call, "test") {
        let comment = format!("Job: {name} would be {would} from schedule.");
        return Ok(ScheduleReply::without_changes(comment, true).into());
    }
    let found = ["opts", "pillar"].iter().find_map(|place| {
        let job = jobs(call, ListFilter::of(place)).remove(&name)?;
        job.into_map()
    });
    let Some(job) = found else {
        return Ok(
            ScheduleReply::without_changes(format!("Job {name} does not exist."), false).into(),
        );
    };
    // Stock sends the keys as text without the name, which `schedule.add` then misses.
    let mut kwargs = Map::new();
    for (key, value) in job.0 {
        match key.as_str().unwrap_or_default() {
            "name" => {}
            "args" => kwargs.set("job_args", value),
            "kwargs" => kwargs.set("job_kwargs", value),
            key => kwargs.set(key, value),
        }
    }
    kwargs.set("__kwarg__", true);
    let args = vec![Value::from(name.as_str()), kwargs.into()];
    let target = call.arg("target").clone();
    let publish = vec![target, "schedule.add".into(), args.into()];
    let answer = call.salt("publish.publish", publish, Map::new())?;
    let answers = answer.as_map().cloned().unwrap_or_default();
    if answers.is_empty() {
        let why = "no servers answered the published schedule.add command";
        return Ok(ScheduleReply::without_changes(why, true).into());
    }
    let is_bad = |ret: &Value| match ret.as_map().and_then(|m| m.get("result")) {
        Some(result) => !result.truthy(),
        None => !ret.truthy(),
    };
    let ids = |bad: bool| -> Vec<String> {
        let picked = answers.iter().filter(|(_, ret)| !bad || is_bad(ret));
        picked
            .filter_map(|(id, _)| id.as_str().map(str::to_owned))
            .collect()
    };
    let errors = ids(true);
    let comment = match (errors.is_empty(), away) {
        (false, _) => "the following minions return False".to_owned(),
        (true, true) => {
            remove(call, &name, true.into());
            format!("{done} Job {name} from schedule.")
        }
        (true, false) => format!("{done} Job {name} from schedule to minion(s)."),
    };
    let minions = if errors.is_empty() {
        ids(false)
    } else {
        errors
    };
    Ok(halite_wire::map! {"comment" => comment, "result" => true, "minions" => minions}.into())
}
