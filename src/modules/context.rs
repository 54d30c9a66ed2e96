//! What everything that runs on a minion is given, and how it fails.

use halite_channel::link::{Link, LinkError};
use halite_wire::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// What functions know about the minion they run on.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The minion id.
    pub id: String,
    /// Its grains.
    pub grains: Arc<Map>,
    /// Its pillar.
    pub pillar: Arc<Map>,
    /// The minion's configuration.
    pub opts: Map,
    /// `cachedir`; `proc/` is below it.
    pub cachedir: PathBuf,
    /// The publish load when a job runs, for `__pub_*`.
    pub job: Option<Map>,
    /// The way to the master.
    pub master: Link,
}

/// What came of a call: the fields of a `_return` (reference `salt-protocol.md` 8.1).
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    /// `return`.
    pub ret: Value,
    /// `retcode`.
    pub retcode: i64,
    /// `success`.
    pub success: bool,
    /// `out`, the outputter asked for.
    pub out: Option<String>,
    /// Why the call failed, for `halite-call`, which words errors differently.
    pub fault: Option<CallError>,
    /// By what else than this program it was run (`legacy_salt`).
    pub by: Option<String>,
}

impl CallOutcome {
    /// Whether the function gave a value, be it one that means a failure.
    pub fn returned_value(&self) -> bool {
        self.fault.is_none() && self.out.is_none()
    }
}

/// Why a function gave no value, by the exception that stock Salt raises there.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// There is no such function.
    Missing(String),
    /// `CommandNotFoundError`: a program is not installed.
    CommandNotFound(String),
    /// `CommandExecutionError`.
    Command(String),
    /// `SaltInvocationError`.
    Invocation(String),
    /// `TypeError`: the arguments do not fit.
    Type(String),
    /// Any other exception, by its Python name.
    Raised(String, String),
}

impl CallError {
    /// An exception by its Python class name.
    pub fn raised(class: &str, message: impl Into<String>) -> CallError {
        CallError::Raised(class.to_owned(), message.into())
    }

    /// `str(exception)`.
    pub fn message(&self) -> &str {
        match self {
            CallError::Missing(m)
            | CallError::CommandNotFound(m)
            | CallError::Command(m)
            | CallError::Invocation(m)
            | CallError::Type(m)
            | CallError::Raised(_, m) => m,
        }
    }
}

impl From<LinkError> for CallError {
    fn from(e: LinkError) -> CallError {
        match e {
            LinkError::Silence => CallError::raised("SaltReqTimeoutError", e.to_string()),
            other => CallError::raised("SaltClientError", other.to_string()),
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for CallError {}
