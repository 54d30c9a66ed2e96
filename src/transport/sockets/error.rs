//! Errors of libzmq.

use halite_sys::exit::ExitError;
use std::fmt;
use std::io;

/// An error code of libzmq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(zmq::Error);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

impl From<zmq::Error> for Error {
    fn from(e: zmq::Error) -> Error {
        Error(e)
    }
}

impl From<Error> for ExitError {
    fn from(e: Error) -> ExitError {
        ExitError::new(1, format!("ZeroMQ: {e}"))
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> io::Error {
        e.0.into()
    }
}
