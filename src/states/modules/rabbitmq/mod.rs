//! `rabbitmq_user`, `rabbitmq_vhost`, `rabbitmq_policy`, `rabbitmq_plugin`, `rabbitmq_cluster` and `rabbitmq_upstream`:
//! what is in a RabbitMQ node (`salt/states/rabbitmq_*.py`).

mod cluster;
mod plugin;
mod policy;
mod upstream;
mod user;
mod vhost;

pub(super) use cluster::CLUSTER;
pub(super) use plugin::PLUGIN;
pub(super) use policy::POLICY;
pub(super) use upstream::UPSTREAM;
pub(super) use user::USER;
pub(super) use vhost::VHOST;

use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

/// Calls a function of `rabbitmq` as the user of the state.
fn rabbit(s: &mut State<'_, '_>, fun: &str, args: impl Into<Vec<Value>>) -> Result<Value> {
    let kwargs = map! {"runas" => s.arg("runas").clone()};
    s.salt_with(&format!("rabbitmq.{fun}"), args, kwargs)
}

/// What an error of rabbitmqctl makes of a state; other errors go on.
fn failed(fault: CallError) -> Result {
    match fault {
        CallError::Command(text) => Ok(StateOutcome::bad(format!("Error: {text}"))),
        other => Err(other),
    }
}

/// The text under a word that a function returned.
fn said(returned: &Value, word: &str) -> String {
    let found = returned.as_map().and_then(|map| map.get(word));
    found.map(python::str).unwrap_or_default()
}

/// A value in a map of maps.
fn below<'a>(all: &'a Value, key: &str) -> Option<&'a Map> {
    all.as_map()?.get(key)?.as_map()
}
