//! What runner and wheel functions share: arguments, errors, events and the record in the job cache.

mod args;
mod record;

pub use args::{Args, ArgsError};
pub(crate) use args::{as_text, usage};
pub(crate) use record::{RunEvents, keep};

use crate::local::ClientError;
use std::fmt;

/// Why a function failed.
#[derive(Debug)]
pub enum RunError {
    /// Wrong arguments.
    Args(ArgsError),
    /// The master could not be asked.
    Client(ClientError),
    /// A store could not be read.
    Io(std::io::Error),
    /// What was asked for does not exist.
    Unknown(String),
    /// Anything else, by the name of Salt's exception.
    Raised(String, String),
}

impl RunError {
    /// The Python exception that stands for it in events.
    pub fn class(&self) -> &str {
        match self {
            RunError::Args(e) => e.class(),
            RunError::Client(_) => "SaltClientError",
            RunError::Io(_) => "OSError",
            RunError::Unknown(_) => "CommandExecutionError",
            RunError::Raised(class, _) => class,
        }
    }

    /// What an event carries in `return`: the first and the last line of stock's traceback
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

/// What stands for a name that is not in the table (`salt/utils/lazy.py verify_fun`).
pub fn not_available(name: &str) -> RunError {
    RunError::Unknown(format!("'{name}' is not available."))
}
