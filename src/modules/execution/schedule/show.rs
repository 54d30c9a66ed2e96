//! Functions that show the schedule.

use super::super::declare::Result;
use super::super::{Call, CallError};
use super::{name, request, saved};
use halite_schedule::strptime;
use halite_wire::{Map, Value, yaml};

/// Keys of a job to show.
const SHOWN_KEYS: &[&str] = &[
    "name",
    "maxrunning",
    "function",
    "splay",
    "range",
    "when",
    "once",
    "once_fmt",
    "returner",
    "jid_include",
    "args",
    "kwargs",
    "_seconds",
    "seconds",
    "minutes",
    "hours",
    "days",
    "enabled",
    "return_job",
    "metadata",
    "cron",
    "until",
    "after",
    "return_config",
    "return_kwargs",
    "run_on_start",
    "skip_during_range",
    "run_after_skip_range",
];

/// What to list.
#[derive(Clone, Copy, Default)]
pub(super) struct ListFilter<'a> {
    pub all: bool,
    pub hide_disabled: bool,
    pub place: Option<&'a str>,
    pub offline: bool,
}

impl ListFilter<'_> {
    /// Everything, including hidden jobs.
    pub(super) fn all() -> ListFilter<'static> {
        ListFilter {
            all: true,
            ..ListFilter::default()
        }
    }

    /// Everything from one place: `opts` or `pillar`.
    pub(super) fn of(place: &str) -> ListFilter<'_> {
        ListFilter {
            all: true,
            place: Some(place),
            ..ListFilter::default()
        }
    }
}

/// The jobs, with the keys to show.
pub(super) fn jobs(call: &Call<'_>, wanted: ListFilter<'_>) -> Map {
    let schedule = if wanted.offline {
        saved(call)
    } else {
        let data = halite_wire::map! {"func" => "list", "where" => wanted.place};
        let reply =
            request(call, &data, "list_complete").and_then(|mut reply| reply.remove("schedule"));
        reply.and_then(Value::into_map).unwrap_or_default()
    };
    let mut out = Map::new();
    for (key, value) in schedule.0 {
        let job = key.as_str().unwrap_or_default();
        let mut data = match value {
            Value::Map(data)
                if !["enabled", "skip_function", "skip_during_range"].contains(&job) =>
            {
                data
            }
            other => {
                out.set(job, other);
                continue;
            }
        };
        if job.starts_with("__") && !wanted.all {
            continue;
        }
        if !data.contains("enabled") {
            data.set("enabled", true);
        }
        data.0.retain(|(k, v)| {
            let shown = k
                .as_str()
                .is_some_and(|k| SHOWN_KEYS.contains(&k) && k != "_seconds");
            shown && !v.is_nil()
        });
        for (_, value) in &mut data.0 {
            match value.as_str() {
                Some("true") => *value = true.into(),
                Some("false") => *value = false.into(),
                _ => {}
            }
        }
        let enabled = data.get("enabled").is_some_and(Value::truthy);
        if enabled || !wanted.hide_disabled {
            out.set(job, data);
        }
    }
    out
}

pub(super) fn list(call: &mut Call<'_>) -> Result {
    let place = call.text("where");
    let wanted = ListFilter {
        all: call.flag("show_all"),
        hide_disabled: !call.flag("show_disabled"),
        place: place.as_deref(),
        offline: call.flag("offline"),
    };
    let mut schedule = jobs(call, wanted);
    if !call.flag("return_yaml") {
        return Ok(schedule.into());
    }
    let saved = saved(call);
    for (key, value) in &mut schedule.0 {
        if let Value::Map(data) = value {
            data.set("saved", saved.contains(key.as_str().unwrap_or_default()));
        }
    }
    let text = yaml::emit(&halite_wire::map! {"schedule" => schedule}.into(), true);
    Ok(text.into())
}

pub(super) fn is_enabled(call: &mut Call<'_>) -> Result {
    let schedule = jobs(call, ListFilter::default());
    let name = name(call);
    if name.is_empty() {
        let enabled = schedule.get("enabled").cloned();
        return Ok(enabled.unwrap_or(true.into()));
    }
    let job = schedule.get(&name).cloned();
    Ok(job.unwrap_or(Map::new().into()))
}

pub(super) fn show_next_fire_time(call: &mut Call<'_>) -> Result {
    let mut out = halite_wire::map! {"result" => true};
    let name = name(call);
    if name.is_empty() {
        out.set("comment", "Job name is required.");
        out.set("result", false);
    }
    let data = halite_wire::map! {"name" => name, "func" => "get_next_fire_time"};
    match request(call, &data, "next_fire_time_complete") {
        Some(mut reply) if reply.contains("next_fire_time") => {
            let next = reply.remove("next_fire_time").unwrap_or_default();
            out.set("next_fire_time", next);
        }
        _ => out.set("comment", "next fire time not available."),
    }
    Ok(out.into())
}

pub(super) fn job_status(call: &mut Call<'_>) -> Result {
    let data =
        halite_wire::map! {"func" => "job_status", "name" => name(call), "fire_event" => true};
    let reply =
        request(call, &data, "job_status_complete").and_then(|mut reply| reply.remove("data"));
    let Some(Value::Map(mut job)) = reply else {
        return Ok(Value::Nil);
    };
    let form = call.text("time_fmt").unwrap_or_default();
    for key in ["_next_fire_time", "_last_run", "_skipped_time"] {
        let at = job
            .str(key)
            .and_then(|text| strptime("%Y-%m-%dT%H:%M:%S", text).ok());
        if let Some(at) = at {
            let shown = jiff::fmt::strtime::format(&form, at);
            let shown = shown.map_err(|e| CallError::raised("ValueError", e.to_string()))?;
            job.set(key, shown);
        }
    }
    Ok(job.into())
}
