//! `schedule`: the minion's own scheduled jobs (`salt/modules/schedule.py`). The daemon owns the schedule; functions
//! send it events on the minion's bus and wait for its answers.

mod change;
mod control;
mod item;
mod show;

use super::declare::{Arg, Function, Lit, Module, opt, req};
use super::{Call, python};
use crate::local;
use halite_sys::daemon::write_atomic;
use halite_wire::{Map, Value, yaml};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout for the daemon's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

const NAME: &[Arg] = &[req("name")];
const TARGET: &[Arg] = &[req("name"), req("target")];

pub(super) const MODULE: Module = Module {
    name: "schedule",
    functions: &[
        Function::new(
            "list",
            show::list,
            "The scheduled jobs, as YAML unless return_yaml is false.",
        )
        .inner("list_")
        .args(&[
            opt("show_all", Lit::Bool(false)),
            opt("show_disabled", Lit::Bool(true)),
            opt("where", Lit::Nil),
            opt("return_yaml", Lit::Bool(true)),
            opt("offline", Lit::Bool(false)),
        ]),
        Function::new(
            "is_enabled",
            show::is_enabled,
            "Whether the schedule is enabled, or the definition of one of its jobs.",
        )
        .args(&[opt("name", Lit::Nil)]),
        Function::new(
            "show_next_fire_time",
            show::show_next_fire_time,
            "When a job runs next.",
        )
        .args(NAME)
        .keywords(),
        Function::new(
            "job_status",
            show::job_status,
            "A job's definition with its last and next run.",
        )
        .args(&[req("name"), opt("time_fmt", Lit::Str("%Y-%m-%dT%H:%M:%S"))]),
        Function::new(
            "build_schedule_item",
            item::build_schedule_item,
            "The item that schedule.add would add.",
        )
        .args(NAME)
        .keywords(),
        Function::new("add", change::add, "Adds a job to the schedule.")
            .args(NAME)
            .keywords(),
        Function::new("modify", change::modify, "Changes a scheduled job.")
            .args(NAME)
            .keywords(),
        Function::new("delete", change::delete, "Removes a job from the schedule.")
            .args(NAME)
            .keywords(),
        Function::new(
            "purge",
            change::purge,
            "Removes all jobs from the schedule.",
        )
        .keywords(),
        Function::new("enable_job", control::enable_job, "Enables a job.")
            .args(NAME)
            .keywords(),
        Function::new("disable_job", control::disable_job, "Disables a job.")
            .args(NAME)
            .keywords(),
        Function::new("enable", control::enable, "Enables the schedule.").keywords(),
        Function::new("disable", control::disable, "Disables the schedule.").keywords(),
        Function::new("run_job", control::run_job, "Runs a job immediately.")
            .args(&[req("name"), opt("force", Lit::Bool(false))]),
        Function::new("save", control::save, "Saves the schedule.").keywords(),
        Function::new(
            "reload",
            control::reload,
            "Reloads the schedule from the pillar and schedule.conf.",
        )
        .inner("reload_"),
        Function::new(
            "postpone_job",
            control::postpone_job,
            "Runs a job at another time than the given one.",
        )
        .args(&[req("name"), req("current_time"), req("new_time")])
        .keywords(),
        Function::new(
            "skip_job",
            control::skip_job,
            "Skips a job at the given time.",
        )
        .args(&[req("name"), req("current_time")])
        .keywords(),
        Function::new(
            "copy",
            |c| change::send(c, false),
            "Copies a scheduled job of this minion to other minions.",
        )
        .args(TARGET)
        .keywords(),
        Function::new(
            "move",
            |c| change::send(c, true),
            "Moves a scheduled job of this minion to other minions.",
        )
        .args(TARGET)
        .keywords(),
    ],
};

/// The usual result.
struct ScheduleReply {
    comment: Value,
    result: bool,
    changes: Option<Map>,
    /// Key order: `changes` before `result`.
    changes_first: bool,
}

impl ScheduleReply {
    /// With an empty map of changes.
    fn new(comment: impl Into<Value>, result: bool) -> ScheduleReply {
        ScheduleReply {
            comment: comment.into(),
            result,
            changes: Some(Map::new()),
            changes_first: false,
        }
    }

    /// Like [`ScheduleReply::new`], for functions whose stock result has the changes before the result.
    fn changing(comment: impl Into<Value>, result: bool) -> ScheduleReply {
        ScheduleReply {
            changes_first: true,
            ..ScheduleReply::new(comment, result)
        }
    }

    /// Without changes.
    fn without_changes(comment: impl Into<Value>, result: bool) -> ScheduleReply {
        ScheduleReply {
            changes: None,
            ..ScheduleReply::new(comment, result)
        }
    }

    fn with(mut self, name: &str, change: impl Into<Value>) -> ScheduleReply {
        self.changes.get_or_insert_default().set(name, change);
        self
    }
}

impl From<ScheduleReply> for Value {
    fn from(said: ScheduleReply) -> Value {
        let mut out = halite_wire::map! {"comment" => said.comment};
        let changes = said.changes.map(Value::from);
        let parts = if said.changes_first {
            [("changes", changes), ("result", Some(said.result.into()))]
        } else {
            [("result", Some(said.result.into())), ("changes", changes)]
        };
        for (key, value) in parts {
            if let Some(value) = value {
                out.set(key, value);
            }
        }
        out.into()
    }
}

/// Sends a request to the daemon; `None` if it does not run or answer.
fn request(call: &Call<'_>, data: &Map, answer: &str) -> Option<Map> {
    let tag = format!("/salt/minion/minion_schedule_{answer}");
    let answer = local::fire_and_wait(call.ctx, "manage_schedule", data, &tag, ANSWER_TIMEOUT);
    answer
        .ok()
        .filter(|a| a.get("complete").is_some_and(Value::truthy))
}

/// The schedule after a change, from the daemon.
fn changed(call: &Call<'_>, data: &Map, answer: &str) -> Option<Map> {
    request(call, data, answer)?.remove("schedule")?.into_map()
}

/// The job's name.
fn name(call: &Call<'_>) -> String {
    match call.arg("name") {
        Value::Nil => String::new(),
        other => python::str(other),
    }
}

/// Whether a keyword is true.
fn keyword(call: &Call<'_>, key: &str) -> bool {
    call.bound.kwargs.get(key).is_some_and(Value::truthy)
}

/// `persist`, true by default.
fn persist(call: &Call<'_>) -> Value {
    let given = call.bound.kwargs.get("persist").cloned();
    given.unwrap_or(Value::Bool(true))
}

/// `_schedule.conf` beside the configuration.
fn file(call: &Call<'_>) -> PathBuf {
    let text = |key: &str| call.ctx.opts.str(key).unwrap_or_default();
    let dir = Path::new(text("conf_file"))
        .parent()
        .unwrap_or(Path::new("/"));
    let include = Path::new(text("default_include")).parent();
    dir.join(include.unwrap_or(Path::new("minion.d")))
        .join("_schedule.conf")
}

/// Its content.
fn saved(call: &Call<'_>) -> Map {
    let text = std::fs::read_to_string(file(call)).unwrap_or_default();
    let read = yaml::parse(&text).ok().and_then(Value::into_map);
    let schedule = read.and_then(|mut map| map.remove("schedule"));
    schedule.and_then(Value::into_map).unwrap_or_default()
}

/// Writes it, for a minion that does not run.
fn save(call: &Call<'_>, schedule: &Map) {
    let path = file(call);
    let text = yaml::emit(
        &halite_wire::map! {"schedule" => schedule.clone()}.into(),
        false,
    );
    let dir = path.parent().unwrap_or(Path::new("/"));
    let written =
        std::fs::create_dir_all(dir).and_then(|()| write_atomic(&path, text.as_bytes(), 0o600));
    if let Err(e) = written {
        log::error!(
            "Failed to persist the updated schedule: {}: {e}",
            path.display()
        );
    }
}

/// Fires without waiting; whether the daemon runs.
fn fire(call: &Call<'_>, data: &Map) -> bool {
    local::fire(call.ctx, "manage_schedule", data)
}

#[cfg(test)]
mod tests;
