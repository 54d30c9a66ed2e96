//! Fatal errors of the minion and of `halite-call`.

use super::signin::Failure;
use halite_transport::sockets;
use std::fmt;
use std::path::Path;

/// An error that ends the program.
#[derive(Clone, Debug, PartialEq)]
pub struct MinionError {
    /// Exit status.
    pub status: i32,
    /// What happened, and the remedy.
    pub message: String,
}

impl MinionError {
    /// An error with its exit status.
    pub fn new(status: i32, message: impl Into<String>) -> MinionError {
        MinionError {
            status,
            message: message.into(),
        }
    }

    /// An error about a file or directory.
    pub fn io(what: &str, path: &Path, error: &std::io::Error) -> MinionError {
        MinionError::new(1, format!("{what} {}: {error}", path.display()))
    }
}

impl fmt::Display for MinionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for MinionError {}

impl From<Failure> for MinionError {
    fn from(failure: Failure) -> MinionError {
        MinionError::new(failure.status, failure.message)
    }
}

impl From<sockets::Error> for MinionError {
    fn from(e: sockets::Error) -> MinionError {
        MinionError::new(1, format!("ZeroMQ: {e}"))
    }
}

impl From<std::io::Error> for MinionError {
    fn from(e: std::io::Error) -> MinionError {
        MinionError::new(1, e.to_string())
    }
}
