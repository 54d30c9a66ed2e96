//! Errors that end a program or a role.

use std::fmt;
use std::io;
use std::path::Path;

/// Exit status if the account of an option or of `--user` does not exist or cannot be taken on (`EX_NOUSER`), as in Salt.
pub const EXIT_NO_USER: i32 = 67;

/// An error with the exit status that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExitError {
    /// Exit status.
    pub status: i32,
    /// For the operator: what happened, and the remedy.
    pub message: String,
}

impl ExitError {
    /// An error with a status.
    pub fn new(status: i32, message: impl Into<String>) -> ExitError {
        ExitError {
            status,
            message: message.into(),
        }
    }

    /// An error about a file or directory, with status 1.
    pub fn io(what: &str, path: &Path, error: &io::Error) -> ExitError {
        ExitError::new(1, format!("{what} {}: {error}", path.display()))
    }
}

impl fmt::Display for ExitError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExitError {}

impl From<io::Error> for ExitError {
    fn from(e: io::Error) -> ExitError {
        ExitError::new(1, e.to_string())
    }
}
