//! Starting, stopping and removing containers.

use super::super::{Call, CallError, python};
use super::containers::{
    State, as_map, find, inspect, keywords, named, remove, segment, state, unknown,
};
use super::engine::{Engine, LONG, Reply, USUAL, query};
use super::http::Patience;
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};
use std::time::Duration;

/// The result of a change of state.
fn changed(old: State, new: State, comment: Option<String>, good: bool) -> Map {
    let mut ret = map! {
        "result" => good,
        "state" => map! {"old" => old.word(), "new" => new.word()},
    };
    if let Some(comment) = comment {
        ret.set("comment", comment);
    }
    ret
}

/// Does something to a container and tells what it was and is.
fn change(engine: &Engine, name: &str, old: State, wanted: State, done: Reply) -> Result<Map> {
    if let Err(refusal) = done {
        return Err(refusal.into());
    }
    let new = state(engine, name)?;
    Ok(changed(old, new, None, new == wanted))
}

fn post(engine: &Engine, name: &str, action: &str) -> Result<Reply> {
    engine.post(&format!("/containers/{}/{action}", segment(name)?), None)
}

/// Starts a container.
///
/// # Errors
/// There is none, or the engine refuses.
pub fn start_named(engine: &Engine, name: &str) -> Result<Map> {
    let old = state(engine, name)?;
    match old {
        State::Paused => Ok(changed(
            old,
            old,
            Some(format!("Container '{name}' is paused, cannot start")),
            false,
        )),
        State::Running => Ok(changed(
            old,
            old,
            Some(format!("Container '{name}' already running")),
            false,
        )),
        State::Stopped => {
            let done = post(engine, name, "start")?;
            change(engine, name, old, State::Running, done)
        }
    }
}

/// Stops a container after at most these seconds; its own setting or 10, if none are given.
///
/// # Errors
/// There is none, or the engine refuses.
pub fn stop_named(engine: &Engine, name: &str, timeout: Option<u64>, unpause: bool) -> Result<Map> {
    let info = inspect(engine, name)?;
    let old = State::of(&info);
    match old {
        State::Stopped => {
            return Ok(changed(
                old,
                old,
                Some(format!("Container '{name}' already stopped")),
                false,
            ));
        }
        State::Paused if !unpause => {
            return Ok(changed(
                old,
                old,
                Some(format!(
                    "Container '{name}' is paused, run with unpause=True to unpause before stopping"
                )),
                false,
            ));
        }
        State::Paused => {
            post(engine, name, "unpause")??;
        }
        State::Running => {}
    }
    let own = info.get("Config").and_then(Value::as_map);
    let own = own
        .and_then(|c| c.int("StopTimeout"))
        .and_then(|n| u64::try_from(n).ok());
    let seconds = timeout.or(own).unwrap_or(10);
    let path = format!("/containers/{}/stop?t={seconds}", segment(name)?);
    let patience = Patience::Total(USUAL + Duration::from_secs(seconds.min(86_400)));
    let done = engine.post_within(&path, None, patience)?;
    change(engine, name, old, State::Stopped, done)
}

/// Sends a signal.
///
/// # Errors
/// There is no such container or signal.
pub fn signal_named(engine: &Engine, name: &str, signal: &str) -> Result<()> {
    let path = format!(
        "/containers/{}/kill?{}",
        segment(name)?,
        query(&[("signal", signal.to_owned())])
    );
    engine.post(&path, None)??;
    Ok(())
}

/// A number of seconds.
fn seconds(value: &Value) -> Result<Option<u64>> {
    if value.is_nil() {
        return Ok(None);
    }
    let number = u64::try_from(python::int(value)?);
    number
        .map(Some)
        .map_err(|_| CallError::Invocation("timeout must be 0 or more".to_owned()))
}

pub(super) fn start(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    Ok(start_named(&engine, &named(call))?.into())
}

pub(super) fn stop(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let mut options = keywords(call);
    let unpause = options.remove("unpause").is_some_and(|v| v.truthy());
    unknown(&options)?;
    let timeout = seconds(call.arg("timeout"))?;
    Ok(stop_named(&engine, &named(call), timeout, unpause)?.into())
}

pub(super) fn restart(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let timeout = seconds(call.arg("timeout"))?.unwrap_or(10);
    let old = state(&engine, &name)?;
    let path = format!("/containers/{}/restart?t={timeout}", segment(&name)?);
    let patience = Patience::Total(USUAL + Duration::from_secs(timeout.min(86_400)));
    let done = engine.post_within(&path, None, patience)?;
    let mut ret = change(&engine, &name, old, State::Running, done)?;
    if ret.get("result").is_some_and(Value::truthy) {
        ret.set("restarted", true);
    }
    Ok(ret.into())
}

pub(super) fn kill(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let old = state(&engine, &name)?;
    if old == State::Stopped {
        let comment = format!("Container '{name}' already stopped");
        return Ok(changed(old, old, Some(comment), false).into());
    }
    let done = post(&engine, &name, "kill")?;
    Ok(change(&engine, &name, old, State::Stopped, done)?.into())
}

pub(super) fn signal(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let signal = call.text("signal").unwrap_or_default();
    signal_named(&engine, &named(call), &signal)?;
    Ok(true.into())
}

pub(super) fn pause(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let old = state(&engine, &name)?;
    let comment = match old {
        State::Stopped => format!("Container '{name}' is stopped, cannot pause"),
        State::Paused => format!("Container '{name}' already paused"),
        State::Running => {
            let done = post(&engine, &name, "pause")?;
            return Ok(change(&engine, &name, old, State::Paused, done)?.into());
        }
    };
    Ok(changed(old, old, Some(comment), false).into())
}

pub(super) fn unpause(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let old = state(&engine, &name)?;
    let comment = match old {
        State::Stopped => format!("Container '{name}' is stopped, cannot unpause"),
        State::Running => format!("Container '{name}' already running"),
        State::Paused => {
            let done = post(&engine, &name, "unpause")?;
            return Ok(change(&engine, &name, old, State::Running, done)?.into());
        }
    };
    Ok(changed(old, old, Some(comment), false).into())
}

pub(super) fn rm(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let (force, volumes) = (call.flag("force"), call.flag("volumes"));
    let mut options = keywords(call);
    let stop = options.remove("stop").is_some_and(|v| v.truthy());
    let timeout = seconds(&options.remove("timeout").unwrap_or_default())?;
    unknown(&options)?;
    let state = state(&engine, &name)?;
    if state == State::Running && !(force || stop) {
        return Err(CallError::Command(format!(
            "Container '{name}' is running, use force=True to forcibly remove this container"
        )));
    }
    if stop && !force {
        stop_named(&engine, &name, timeout, true)?;
    }
    Ok(remove(&engine, &name, force, volumes)?.into())
}

pub(super) fn rename(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    inspect(&engine, &name)?;
    rename_to(&engine, &name, &call.text("new_name").unwrap_or_default())?;
    Ok(true.into())
}

/// Gives a container another name.
///
/// # Errors
/// The engine refuses.
pub fn rename_to(engine: &Engine, name: &str, new: &str) -> Result<()> {
    let query = query(&[("name", new.to_owned())]);
    engine.post(
        &format!("/containers/{}/rename?{query}", segment(name)?),
        None,
    )??;
    Ok(())
}

pub(super) fn wait(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let name = named(call);
    let Some(info) = find(&engine, &name)? else {
        let good = call.flag("ignore_already_stopped");
        let comment = format!("Container '{name}' absent");
        return Ok(map! {"result" => good, "comment" => comment}.into());
    };
    let old = State::of(&info);
    let was_stopped = old == State::Stopped;
    let path = format!("/containers/{}/wait", segment(&name)?);
    let said = engine.post_within(&path, None, Patience::Each(LONG))??;
    let new = state(&engine, &name)?;
    let status = as_map(said);
    let code = status.get("StatusCode").cloned().unwrap_or_default();
    let mut good = call.flag("ignore_already_stopped") || !was_stopped;
    let comment = was_stopped.then(|| format!("Container '{name}' already stopped"));
    if call.flag("fail_on_exit_status") && good {
        good = code.as_int() == Some(0);
    }
    let mut ret = changed(old, new, None, good);
    ret.set("exit_status", status);
    if let Some(comment) = comment {
        ret.set("comment", comment);
    }
    Ok(ret.into())
}
