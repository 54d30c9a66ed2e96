//! Tells the daemon about changes through events on the minion's bus.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use crate::local::{self, MODULES_REFRESHED, PILLAR_REFRESHED};
use halite_wire::{Map, Value};
use std::time::Duration;

/// How long `refresh_modules` waits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Fires an event without data; whether the daemon runs.
pub(super) fn fire_refresh(call: &mut Call<'_>, tag: &str) -> Result {
    Ok(local::fire(call.ctx, tag, &Map::new()).into())
}

pub(super) fn refresh_pillar(call: &mut Call<'_>) -> Result {
    let data = halite_wire::map! {"clean_cache" => call.arg("clean_cache").clone()};
    if !call.flag("wait") {
        return Ok(local::fire(call.ctx, "pillar_refresh", &data).into());
    }
    let seconds = python::int(call.arg("timeout"))?;
    let timeout = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    Ok(await_event(call, "pillar_refresh", &data, PILLAR_REFRESHED, timeout).into())
}

/// Whether the event was fired, as in stock; a missing answer is only logged.
fn await_event(call: &Call<'_>, tag: &str, data: &Map, answer: &str, timeout: Duration) -> bool {
    match local::fire_and_wait(call.ctx, tag, data, answer, timeout) {
        Ok(_) => true,
        Err(fired) => {
            if fired {
                log::warn!("no answer to {tag} within {} s", timeout.as_secs());
            }
            fired
        }
    }
}

pub(super) fn refresh_modules(call: &mut Call<'_>) -> Result {
    let at_once = call.bound.kwargs.get("async").is_none_or(Value::truthy);
    if at_once {
        return fire_refresh(call, "module_refresh");
    }
    let data = halite_wire::map! {"notify" => true};
    Ok(await_event(
        call,
        "module_refresh",
        &data,
        MODULES_REFRESHED,
        ANSWER_TIMEOUT,
    )
    .into())
}

pub(super) fn refresh_grains(call: &mut Call<'_>) -> Result {
    let mut pillar = true;
    let mut clean = Value::Bool(false);
    let mut wrong = Vec::new();
    for (key, value) in call.bound.kwargs.iter() {
        match key.as_str().unwrap_or_default() {
            "refresh_pillar" => pillar = value.truthy(),
            "clean_pillar_cache" => clean = value.clone(),
            hidden if hidden.starts_with("__") => {}
            name => wrong.push(format!("{name}={}", python::str(value))),
        }
    }
    if !wrong.is_empty() {
        let words = wrong.join(", ");
        return Err(CallError::Invocation(format!(
            "The following keyword arguments are not valid: {words}"
        )));
    }
    if pillar {
        local::fire(
            call.ctx,
            "pillar_refresh",
            &halite_wire::map! {"clean_cache" => clean},
        )
    } else {
        // Without a pillar to fetch, only grains are refreshed.
        local::fire(call.ctx, "grains_refresh", &Map::new())
    };
    Ok(true.into())
}
