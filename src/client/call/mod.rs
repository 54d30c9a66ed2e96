//! Common parts of runner and wheel functions: arguments, errors, events and the record in the job cache.

mod record;

pub use halite_master::args::{Args, ArgsError};
pub(crate) use halite_master::args::{as_text, usage};
pub(crate) use record::{RunEvents, keep};

use crate::local::ClientError;
use halite_config::MasterConfig;
use halite_ipc::{Event, Framing, Publisher};
use halite_wire::Map;
use halite_wire::msgpack::{self, Profile};
use std::fmt;

/// Why a function failed.
#[derive(Debug)]
pub enum RunError {
    /// The arguments are wrong.
    Args(ArgsError),
    /// The request to the master failed.
    Client(ClientError),
    /// A store is not readable.
    Io(std::io::Error),
    /// The requested object does not exist.
    Unknown(String),
    /// Any other error, with the name of Salt's exception.
    Raised(String, String),
}

impl RunError {
    /// The corresponding Python exception in events.
    pub fn class(&self) -> &str {
        match self {
            RunError::Args(e) => e.class(),
            RunError::Client(_) => "SaltClientError",
            RunError::Io(_) => "OSError",
            RunError::Unknown(_) => "CommandExecutionError",
            RunError::Raised(class, _) => class,
        }
    }

    /// The text in `return` of an event: the first and the last line of stock's traceback
    /// (`salt/client/mixins.py SyncClientMixin.low`).
    pub fn event_text(&self, client: &str, function: &str) -> String {
        format!(
            "Exception occurred in {client} {function}: Traceback (most recent call last):\n{}: {self}\n",
            self.class()
        )
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RunError::Args(e) => e.fmt(f),
            RunError::Client(e) => e.fmt(f),
            RunError::Io(e) => e.fmt(f),
            RunError::Unknown(what) => f.write_str(what),
            RunError::Raised(_, message) => f.write_str(message),
        }
    }
}

impl std::error::Error for RunError {}

impl From<ArgsError> for RunError {
    fn from(e: ArgsError) -> RunError {
        RunError::Args(e)
    }
}

impl From<ClientError> for RunError {
    fn from(e: ClientError) -> RunError {
        RunError::Client(e)
    }
}

impl From<std::io::Error> for RunError {
    fn from(e: std::io::Error) -> RunError {
        RunError::Io(e)
    }
}

/// The error for an unknown function (`salt/utils/lazy.py verify_fun`).
pub fn not_available(name: &str) -> RunError {
    RunError::Unknown(format!("'{name}' is not available."))
}

/// Fires an event with a time stamp on the master's bus.
///
/// # Errors
/// The master does not run.
pub fn fire(config: &MasterConfig, tag: String, mut data: Map) -> Result<(), RunError> {
    data.set(
        "_stamp",
        halite_ipc::stamp_now(config.salt_series.stamp_style()),
    );
    let path = config.event_pull();
    let payload = msgpack::encode_map(&data, Profile::Local);
    Publisher::connect(&path, Framing::Prefixed)
        .and_then(|mut p| p.fire(&Event { tag, payload }))
        .map_err(|e| RunError::Unknown(format!("{}: {e}; is the master running?", path.display())))
}
