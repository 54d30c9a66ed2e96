//! `docker_container`, `docker_image`, `docker_network` and `docker_volume`: what a Docker engine holds
//! (`salt/states/docker_*.py`).

mod container;
mod declared;
mod image;
mod network;
mod once;
mod replace;
mod volume;

pub(super) use container::MODULE as CONTAINER;
pub(super) use image::MODULE as IMAGE;
pub(super) use network::MODULE as NETWORK;
pub(super) use volume::MODULE as VOLUME;

use crate::declare::{Result, State, StateFunction, StateOutcome};
use halite_modules::execution::docker::{self, Engine};
use halite_modules::execution::{CallError, python};
use halite_wire::Value;

/// Runs a state; without an engine it fails with what is to be done about that.
fn with_engine(
    s: &mut State<'_, '_>,
    run: impl FnOnce(&mut State<'_, '_>, &Engine) -> Result,
) -> Result {
    let outcome = Engine::open(s.call).and_then(|engine| run(s, &engine));
    match outcome {
        Err(fault) if docker::is_unreachable(&fault) => Ok(StateOutcome::bad(fault.message())),
        other => other,
    }
}

/// The outcome for a fault that stock tells in a comment.
fn told(fault: CallError) -> Result {
    match fault {
        CallError::Command(text) | CallError::Invocation(text) => Ok(StateOutcome::bad(text)),
        other => Err(other),
    }
}

/// The words of a fault that stock tells in a comment.
fn words(fault: CallError) -> Result<String> {
    match fault {
        CallError::Command(text) | CallError::Invocation(text) => Ok(text),
        other => Err(other),
    }
}

/// Runs the watched function again, if that can be.
fn watched(s: &mut State<'_, '_>, functions: &[(&str, &'static StateFunction, bool)]) -> Result {
    let sfun = s.low.str("sfun").unwrap_or_default().to_owned();
    let found = functions.iter().find(|(name, _, _)| *name == sfun);
    let Some((_, function, forced)) = found else {
        return Ok(StateOutcome::bad(format!(
            "watch requisite is not implemented for {sfun}"
        )));
    };
    let mut low = s.low.clone();
    low.set("fun", sfun.as_str());
    if *forced {
        low.set("force", true);
    }
    s.run_declared(function, &low)
}

/// Texts of a list.
fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(python::str).collect()
}

/// A list of texts.
fn values(texts: impl IntoIterator<Item = String>) -> Vec<Value> {
    texts.into_iter().map(Value::from).collect()
}
