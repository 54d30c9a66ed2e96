//! Returners for events in Python files of users (`_returners` with `event_return(events)`), and those of an installed Salt.

use super::sink::Sink;
use halite_config::{MasterConfig, Returner};
use halite_ipc::Event;
use halite_modules::execution::{Context, python_modules};
use halite_python::{JobHost, files};
use halite_returners::{Store, StoreError};
use halite_store::jobs::JobUpdate;
use halite_wire::{Map, Value, msgpack};
use std::sync::Arc;
use std::time::Duration;

const KIND: &str = "returners";
/// How long a returner may take for a batch of events.
const LIMIT: Duration = Duration::from_secs(60);

/// Sinks of the returners in Python. A file that is not there yet may come.
pub fn sinks(config: &MasterConfig) -> Vec<Sink> {
    let own = Context::of_master(config);
    let sink = |name: &String| {
        let store = PythonEvents {
            ctx: Context {
                python: JobHost::with_limit_of_each(LIMIT),
                ..own.clone()
            },
            function: format!("{name}.event_return"),
        };
        // The role ends with the process.
        Sink::with_store(String::leak(name.clone()), Box::new(store))
    };
    config.other_event_returners().map(sink).collect()
}

/// Returners that are neither halite's nor in a Python file.
pub fn faults(config: &MasterConfig) -> Vec<String> {
    let opts = Arc::new(config.as_map());
    let is_there = |name: &str| files::is_possible(&opts, KIND, name, false);
    let ours: Vec<_> = Returner::ALL
        .into_iter()
        .filter(|returner| returner.keeps_events())
        .map(Returner::name)
        .collect();
    config.other_event_returners()
        .filter(|name| !is_there(name))
        .map(|name| {
            format!(
                "event_return: '{name}' cannot store events here and gets none; use {}, or a Python file in salt://_returners",
                ours.join(", ")
            )
        })
        .collect()
}

struct PythonEvents {
    ctx: Context,
    function: String,
}

impl Store for PythonEvents {
    fn jobs(&mut self, _: &[JobUpdate]) -> Result<(), StoreError> {
        Err(StoreError::Refused(
            "this returner stores only events".into(),
        ))
    }

    /// If the function fails, that is logged and its events are lost, as in stock: nobody knows which of them it has stored.
    fn events(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let rows: Vec<Value> = events.iter().filter_map(|event| row(event)).collect();
        let args = vec![Value::Array(rows)];
        let done = python_modules::use_function(&self.ctx, KIND, &self.function, args, Map::new());
        if let Err(e) = done {
            let lost = events.len();
            let place = "returner_dirs or salt://_returners";
            let why = python_modules::missing(&self.ctx, KIND, &self.function, place);
            let why = why.unwrap_or_else(|| e.message().into());
            log::error!("{}: {lost} events are lost: {why}", self.function);
        }
        Ok(())
    }
}

/// An event as stock passes it.
fn row(event: &Event) -> Option<Value> {
    let data = msgpack::decode(&event.payload).ok()?;
    Some(halite_wire::map! {"tag" => event.tag.as_str(), "data" => data}.into())
}
