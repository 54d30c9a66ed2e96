//! States that run on the master, used by `state.orchestrate` (`salt/states/saltmod.py`, and Salt's `test`
//! states).
//!
//! There is one table of functions; others do not exist. State modules that would change the master's host
//! itself (`file`, `pkg`, ...) are not included.

mod job;
mod local;
pub mod pause;
mod wait;

use halite_config::MasterConfig;
use halite_ipc::{Event, Framing, Publisher};
use halite_render::state::run::StateModules;
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
    /// Calls a runner function.
    pub runner: CallFn<'a>,
    /// Calls a wheel function.
    pub wheel: CallFn<'a>,
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
    StateFunction {
        name: "test.nop",
        needs: &[],
        call: |_, low, _| local::test_result(low, false, Some(true), "Success!"),
    },
    StateFunction {
        name: "test.succeed_without_changes",
        needs: &[],
        call: |_, low, _| local::test_result(low, false, Some(true), "Success!"),
    },
    StateFunction {
        name: "test.succeed_with_changes",
        needs: &[],
        call: |_, low, test| {
            if test {
                local::test_result(low, true, None, local::WOULD_SUCCEED)
            } else {
                local::test_result(low, true, Some(true), "Success!")
            }
        },
    },
    StateFunction {
        name: "test.fail_without_changes",
        needs: &[],
        call: |_, low, _| local::test_result(low, false, Some(false), "Failure!"),
    },
    StateFunction {
        name: "test.fail_with_changes",
        needs: &[],
        call: |_, low, _| local::test_result(low, true, Some(false), "Failure!"),
    },
    StateFunction {
        name: "test.configurable_test_state",
        needs: &[],
        call: local::configurable,
    },
    StateFunction {
        name: "test.show_notification",
        needs: &["text"],
        call: |_, low, _| result(low, true, low.str("text").unwrap_or_default()),
    },
    StateFunction {
        name: "test.mod_watch",
        needs: &[],
        call: |_, low, _| local::test_result(low, true, Some(true), "Watch statement fired."),
    },
];

/// State modules that react to `watch`.
pub const WATCHING: &[&str] = &["test"];

/// The names of all functions.
pub fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|row| row.name)
}

fn row(low: &Map) -> Option<&'static StateFunction> {
    let (module, function) = (low.str("state")?, low.str("fun")?);
    FUNCTIONS
        .iter()
        .find(|row| row.name.split_once('.') == Some((module, function)))
}

impl StateModules for MasterStates<'_> {
    fn has(&self, function: &str) -> bool {
        FUNCTIONS.iter().any(|row| row.name == function)
    }

    fn missing_argument(&self, low: &Map) -> Option<String> {
        let row = row(low)?;
        let missing = row.needs.iter().find(|name| !low.contains(name))?;
        Some(format!(
            "Missing parameter {missing} for state {}",
            row.name
        ))
    }

    fn call(&self, low: &Map, test: bool) -> Map {
        match row(low) {
            Some(row) => (row.call)(self, low, test),
            None => result(low, false, "unknown state function"),
        }
    }

    /// Commands are run on the master's host, as in Salt.
    fn condition_holds(&self, low: &Map, condition: &Value) -> Result<bool, String> {
        Ok(match condition {
            Value::Bool(yes) => *yes,
            Value::Str(command) => local::succeeds(command),
            _ => {
                log::warn!(
                    "{}: conditions of an orchestration must be commands; {condition:?} counts as false",
                    low.str("__id__").unwrap_or_default()
                );
                false
            }
        })
    }

    fn exists(&self, path: &str) -> bool {
        std::path::Path::new(path).exists()
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
    fn fire_args(&self, mut data: Map) {
        data.set(
            "_stamp",
            halite_ipc::stamp_now(self.config.salt_series.stamp_style()),
        );
        let path = self.config.event_pull();
        let payload = halite_wire::msgpack::encode_map(&data, halite_wire::msgpack::Profile::Local);
        let tag = format!("salt/run/{}/args", self.jid);
        let sent = Publisher::connect(path, Framing::Prefixed)
            .map(|p| p.with_timeout(Duration::from_secs(2)))
            .and_then(|mut p| p.fire(&Event { tag, payload }));
        if let Err(e) = sent {
            log::debug!("no event bus: {e}");
        }
    }
}

/// A result without changes.
fn result(low: &Map, result: impl Into<Value>, comment: &str) -> Map {
    halite_wire::map! {
        "name" => low.get("name").cloned(), "changes" => Map::new(), "result" => result.into(),
        "comment" => comment,
    }
}
