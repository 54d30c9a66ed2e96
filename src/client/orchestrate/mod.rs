//! States that run on the master, used by `state.orchestrate` (`salt/states/saltmod.py`): those of jobs, runners and
//! waits are here, and all that a minion has run on the master's host (`halite_states`).

mod job;
mod local;
pub mod pause;
mod wait;

use crate::call::RunEvents;
use halite_config::MasterConfig;
use halite_render::state::run::{Condition, StateModules};
use halite_states::MinionStates;
use halite_sys::signals::StopFlag;
use halite_wire::{Map, Value};
use std::time::Duration;

/// Result of a runner or wheel function: `return`, `success`, `jid`.
pub type CallResult = Map;

/// Calls a runner or wheel function by name with positional and keyword arguments.
pub type CallFn<'a> = &'a (dyn Fn(&str, Vec<Value>, Map) -> CallResult + Sync);

/// Context of the states of one orchestration.
pub struct MasterStates<'a> {
    /// The master's configuration.
    pub config: &'a MasterConfig,
    /// Cancels waits.
    pub stop: &'a StopFlag,
    /// The jid of the orchestration, used for its events.
    pub jid: String,
    /// The master's option `failhard`.
    pub failhard: bool,
    /// The events of the run.
    pub(crate) events: RunEvents,
    /// Calls a runner function.
    pub runner: CallFn<'a>,
    /// Calls a wheel function.
    pub wheel: CallFn<'a>,
    /// The states of the master's host.
    pub host: MinionStates,
}

struct StateFunction {
    name: &'static str,
    needs: &'static [&'static str],
    call: fn(&MasterStates, &Map, bool) -> Map,
}

const FUNCTIONS: &[StateFunction] = &[
    StateFunction {
        name: "salt.state",
        needs: &["tgt"],
        call: job::state,
    },
    StateFunction {
        name: "salt.function",
        needs: &["tgt"],
        call: job::function,
    },
    StateFunction {
        name: "salt.runner",
        needs: &[],
        call: local::runner,
    },
    StateFunction {
        name: "salt.parallel_runners",
        needs: &["runners"],
        call: local::parallel_runners,
    },
    StateFunction {
        name: "salt.wheel",
        needs: &[],
        call: local::wheel,
    },
    StateFunction {
        name: "salt.wait_for_event",
        needs: &["id_list"],
        call: wait::wait_for_event,
    },
];

fn row(low: &Map) -> Option<&'static StateFunction> {
    let (module, function) = (low.str("state")?, low.str("fun")?);
    FUNCTIONS
        .iter()
        .find(|row| row.name.split_once('.') == Some((module, function)))
}

impl StateModules for MasterStates<'_> {
    fn has(&self, function: &str) -> bool {
        FUNCTIONS.iter().any(|row| row.name == function) || self.host.has(function)
    }

    fn reason(&self, function: &str) -> Option<String> {
        self.host.reason(function)
    }

    fn missing_argument(&self, low: &Map) -> Option<String> {
        let Some(row) = row(low) else {
            return self.host.missing_argument(low);
        };
        let missing = row.needs.iter().find(|name| !low.contains(name))?;
        Some(format!(
            "Missing parameter {missing} for state {}",
            row.name
        ))
    }

    fn call(&self, low: &Map, test: bool) -> Map {
        match row(low) {
            Some(row) => (row.call)(self, low, test),
            None => self.host.call(low, test),
        }
    }

    fn runs_check_cmd(&self, low: &Map) -> bool {
        self.host.runs_check_cmd(low)
    }

    fn joins(&self, low: &Map) -> bool {
        self.host.joins(low)
    }

    fn joined(&self, low: &Map, others: &[&Map]) -> Option<Map> {
        self.host.joined(low, others)
    }

    fn condition(&self, low: &Map, condition: &Value) -> Result<Condition, String> {
        self.host.condition(low, condition)
    }

    fn exists(&self, path: &str) -> bool {
        self.host.exists(path)
    }

    fn finished(&self, low: &Map, result: &Map, number: usize) {
        self.host.finished(low, result, number);
        if let Some((tag, data)) = self.host.event(low, result) {
            self.events.fire_as(tag, data);
        }
    }

    fn may_continue(&self, low: &Map) -> bool {
        let id = low.str("__id__").unwrap_or_default();
        match self.jid.parse() {
            Ok(jid) => pause::may_continue(self.config, &jid, id, self.stop),
            Err(_) => !self.stop.is_set(),
        }
    }

    fn sleep(&self, time: Duration) {
        let end = std::time::Instant::now() + time;
        while std::time::Instant::now() < end && !self.stop.is_set() {
            std::thread::sleep(Duration::from_millis(50).min(time));
        }
    }
}

impl Drop for MasterStates<'_> {
    fn drop(&mut self) {
        if let Ok(jid) = self.jid.parse() {
            pause::remove(self.config, &jid);
        }
    }
}

impl MasterStates<'_> {
    /// Fires an event with the arguments of the next call (`salt/utils/event.py fire_args`).
    fn fire_args(&self, data: Map) {
        self.events
            .fire_as(format!("salt/run/{}/args", self.jid), data);
    }
}

/// A result without changes.
fn result(low: &Map, result: impl Into<Value>, comment: &str) -> Map {
    halite_wire::map! {
        "name" => low.get("name").cloned(), "changes" => Map::new(), "result" => result.into(),
        "comment" => comment,
    }
}
