//! Enabling, running and postponing scheduled jobs.

use super::super::Call;
use super::super::declare::Result;
use super::show::{ListFilter, jobs};
use super::{ScheduleReply, changed, fire, keyword, name, persist};
use crate::local;
use halite_schedule::strptime;
use halite_wire::{Map, Value, yaml};
use std::path::Path;

/// Where a job is configured, and the matching event data; `None` if it does not exist.
fn locate(call: &Call<'_>, data: &mut Map, name: &str) -> Option<()> {
    if jobs(call, ListFilter::of("opts")).contains(name) {
        return Some(());
    }
    if !jobs(call, ListFilter::of("pillar")).contains(name) {
        return None;
    }
    data.set("where", "pillar");
    if data.contains("persist") {
        data.set("persist", false);
    }
    Some(())
}

fn switch(call: &Call<'_>, enabled: bool) -> Result {
    let name = name(call);
    let (func, word, did) = if enabled {
        ("enable_job", "enable", "Enabled")
    } else {
        ("disable_job", "disable", "Disabled")
    };
    let test = if enabled {
        call.ctx.opts.get("test").is_some_and(Value::truthy)
    } else {
        keyword(call, "test")
    };
    if test {
        let would = format!("Job: {name} would be {word}d in schedule.");
        return Ok(ScheduleReply::new(would, true).into());
    }
    let mut data =
        halite_wire::map! {"name" => name.as_str(), "func" => func, "persist" => persist(call)};
    if locate(call, &mut data, &name).is_none() {
        return Ok(ScheduleReply::new(format!("Job {name} does not exist."), false).into());
    }
    let now = changed(call, &data, &format!("{word}d_job_complete"));
    let job = now.as_ref().and_then(|now| now.get(&name)?.as_map());
    if job.is_some_and(|job| job.get("enabled").is_none_or(Value::truthy) == enabled) {
        let reply = ScheduleReply::new(format!("{did} Job {name} in schedule."), true);
        return Ok(reply.with(&name, format!("{word}d")).into());
    }
    Ok(ScheduleReply::new(format!("Failed to {word} job {name} in schedule."), false).into())
}

pub(super) fn enable_job(call: &mut Call<'_>) -> Result {
    switch(call, true)
}

pub(super) fn disable_job(call: &mut Call<'_>) -> Result {
    switch(call, false)
}

fn switch_all(call: &Call<'_>, enabled: bool) -> Result {
    let (word, did) = if enabled {
        ("enable", "Enabled")
    } else {
        ("disable", "Disabled")
    };
    if keyword(call, "test") {
        return Ok(ScheduleReply::changing(format!("Schedule would be {word}d."), true).into());
    }
    let data = halite_wire::map! {"func" => word, "persist" => persist(call)};
    let now = changed(call, &data, &format!("{word}d_complete"));
    if now.is_some_and(|now| now.get("enabled").is_some_and(|e| e.truthy() == enabled)) {
        let reply = ScheduleReply::changing(format!("{did} schedule on minion."), true);
        return Ok(reply.with("schedule", format!("{word}d")).into());
    }
    Ok(ScheduleReply::changing(format!("Failed to {word} schedule on minion."), false).into())
}

pub(super) fn enable(call: &mut Call<'_>) -> Result {
    switch_all(call, true)
}

pub(super) fn disable(call: &mut Call<'_>) -> Result {
    switch_all(call, false)
}

pub(super) fn run_job(call: &mut Call<'_>) -> Result {
    let name = name(call);
    let schedule = jobs(call, ListFilter::all());
    let Some(job) = schedule.get(&name).and_then(Value::as_map) else {
        return Ok(
            ScheduleReply::without_changes(format!("Job {name} does not exist."), false).into(),
        );
    };
    let disabled = job.get("enabled").is_some_and(|e| !e.truthy());
    if disabled && !call.flag("force") {
        return Ok(ScheduleReply::without_changes(format!("Job {name} is disabled."), true).into());
    }
    let data = halite_wire::map! {"name" => name.as_str(), "func" => "run_job"};
    Ok(if fire(call, &data) {
        ScheduleReply::without_changes(format!("Scheduling Job {name} on minion."), true)
    } else {
        ScheduleReply::without_changes(format!("Failed to run job {name} on minion."), false)
    }
    .into())
}

pub(super) fn save(call: &mut Call<'_>) -> Result {
    if keyword(call, "test") {
        return Ok(ScheduleReply::without_changes("Schedule would be saved.", true).into());
    }
    let data = halite_wire::map! {"func" => "save_schedule"};
    Ok(match super::request(call, &data, "saved") {
        Some(_) => ScheduleReply::without_changes("Schedule (non-pillar items) saved.", true),
        None => ScheduleReply::without_changes("Failed to save schedule.", false),
    }
    .into())
}

pub(super) fn reload(call: &mut Call<'_>) -> Result {
    let mut comments: Vec<&str> = Vec::new();
    let mut result = true;
    if call.ctx.pillar.contains("schedule") {
        if local::fire(call.ctx, "pillar_refresh", &Map::new()) {
            comments.push("Reloaded schedule from pillar on minion.")
        } else {
            comments.push("Failed to reload schedule from pillar on minion.");
            result = false;
        }
    }
    let path = super::file(call).with_file_name("schedule.conf");
    if !Path::new(&path).is_file() {
        return Ok(comments_return(comments, result));
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let read = yaml::parse(&text).ok().and_then(Value::into_map);
    let wanted = read.filter(|map| map.get("schedule").is_some_and(Value::truthy));
    let (comment, good) = match wanted {
        None => (
            "Failed to reload schedule on minion.  Saved file is empty or invalid.",
            false,
        ),
        Some(schedule) => {
            let data = halite_wire::map! {"func" => "reload", "schedule" => schedule};
            if fire(call, &data) {
                ("Reloaded schedule on minion from schedule.conf.", true)
            } else {
                (
                    "Failed to reload schedule on minion from schedule.conf.",
                    false,
                )
            }
        }
    };
    comments.push(comment);
    Ok(comments_return(comments, result && good))
}

fn comments_return(comments: Vec<&str>, result: bool) -> Value {
    let comments: Vec<Value> = comments.into_iter().map(Value::from).collect();
    ScheduleReply::without_changes(comments, result).into()
}

pub(super) fn postpone_job(call: &mut Call<'_>) -> Result {
    let times = [
        ("current_time", "Job current time is required."),
        ("new_time", "Job new_time is required."),
    ];
    change_run_times(call, &times, "postpone", "Postponed Job")
}

pub(super) fn skip_job(call: &mut Call<'_>) -> Result {
    let times = [("current_time", "Job time is required.")];
    change_run_times(call, &times, "skip", "Added Skip Job")
}

/// `postpone_job` and `skip_job`; `times` are the arguments with their error messages if missing.
fn change_run_times(call: &Call<'_>, times: &[(&str, &str)], word: &str, did: &str) -> Result {
    let name = name(call);
    let say = |comment: &str, result| Ok(ScheduleReply::without_changes(comment, result).into());
    if name.is_empty() {
        return say("Job name is required.", false);
    }
    let form = call.bound.kwargs.str("time_fmt").filter(|f| !f.is_empty());
    let form = form.unwrap_or("%Y-%m-%dT%H:%M:%S");
    let mut data = halite_wire::map! {"name" => name.as_str(), "time_fmt" => form, "func" => format!("{word}_job")};
    for (at, (arg, missing)) in times.iter().enumerate() {
        let Some(time) = call.text(arg).filter(|t| !t.is_empty()) else {
            return say(missing, false);
        };
        if strptime(form, &time).is_err() {
            return say("Date string could not be parsed.", false);
        }
        data.set(if at == 0 { "time" } else { "new_time" }, time);
    }
    if call.ctx.opts.get("test").is_some_and(Value::truthy) {
        let would = if word == "skip" {
            "skipped"
        } else {
            "postponed"
        };
        return say(&format!("Job: {name} would be {would} in schedule."), true);
    }
    if locate(call, &mut data, &name).is_none() {
        return say(&format!("Job {name} does not exist."), false);
    }
    let now = changed(call, &data, &format!("{word}_job_complete"));
    let job = now.as_ref().and_then(|now| now.get(&name)?.as_map());
    if job.is_some_and(|job| job.get("enabled").is_none_or(Value::truthy)) {
        return say(&format!("{did} {name} in schedule."), true);
    }
    say(&format!("Failed to {word} job {name} in schedule."), false)
}
