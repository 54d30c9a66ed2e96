//! The context of everything that runs on a minion, and its errors.

use halite_channel::link::{Link, LinkError};
use halite_config::MasterConfig;
use halite_wire::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// What execution functions know about their minion.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The minion id.
    pub id: String,
    /// Its grains.
    pub grains: Arc<Map>,
    /// Its pillar.
    pub pillar: Arc<Map>,
    /// The minion's configuration.
    pub opts: Arc<Map>,
    /// `cachedir`; `proc/` is below it.
    pub cachedir: PathBuf,
    /// The publish load if run by a job, for `__pub_*`.
    pub job: Option<Map>,
    /// The connection to the master.
    pub master: Link,
    /// The process for users' Python code, started when it is first needed.
    pub python: halite_python::JobHost,
}

impl Context {
    /// A master's own, for what runs on its host: its configuration, no grains and no pillar.
    pub fn of_master(config: &MasterConfig) -> Context {
        Context {
            id: config.id.clone(),
            opts: Arc::new(config.as_map()),
            cachedir: config.cachedir.clone(),
            ..Context::default()
        }
    }
}

/// The outcome of a call: the fields of a `_return` (reference `salt-protocol.md` 8.1).
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutcome {
    /// `return`.
    pub ret: Value,
    /// `retcode`.
    pub retcode: i64,
    /// `success`.
    pub success: bool,
    /// `out`, the requested outputter.
    pub out: Option<String>,
    /// The error, for `halite-call`, which words errors differently.
    pub fault: Option<CallError>,
}

impl CallOutcome {
    /// Whether the function returned a value, even one that means failure.
    pub fn returned_value(&self) -> bool {
        self.fault.is_none() && self.out.as_deref() != Some("nested")
    }
}

/// Why a function returned no value, by the exception stock raises.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// There is no such function.
    Missing(String),
    /// `CommandNotFoundError`: a required program is not installed.
    CommandNotFound(String),
    /// `CommandExecutionError`.
    Command(String),
    /// `SaltInvocationError`.
    Invocation(String),
    /// `TypeError`: wrong arguments.
    Type(String),
    /// Any other exception: its Python class name and message.
    Raised(String, String),
    /// An exception of users' Python code: class, message, and the traceback's lines.
    Traced(String, String, String),
}

impl CallError {
    /// The error with the lines of its traceback, if it has any, for a log.
    pub fn traceback(&self) -> String {
        match self {
            CallError::Traced(class, text, trace) => {
                format!("Traceback (most recent call last):\n{trace}{class}: {text}")
            }
            other => other.message().to_owned(),
        }
    }

    /// An exception by its Python class name.
    pub fn raised(class: &str, message: impl Into<String>) -> CallError {
        CallError::Raised(class.to_owned(), message.into())
    }

    /// The exception's class, with its module unless that is Python's own.
    pub fn class(&self) -> &str {
        match self {
            CallError::Missing(_) => "KeyError",
            CallError::CommandNotFound(_) => "salt.exceptions.CommandNotFoundError",
            CallError::Command(_) => "salt.exceptions.CommandExecutionError",
            CallError::Invocation(_) => "salt.exceptions.SaltInvocationError",
            CallError::Type(_) => "TypeError",
            CallError::Raised(class, _) | CallError::Traced(class, ..) => class,
        }
    }

    /// `str(exception)`.
    pub fn message(&self) -> &str {
        match self {
            CallError::Missing(m)
            | CallError::CommandNotFound(m)
            | CallError::Command(m)
            | CallError::Invocation(m)
            | CallError::Type(m)
            | CallError::Raised(_, m)
            | CallError::Traced(_, m, _) => m,
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
