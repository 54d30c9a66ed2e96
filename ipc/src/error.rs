//! What can go wrong between a program and the bus.

use crate::{EventError, FrameError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why an event could not be received or fired.
#[derive(Debug)]
pub enum Error {
    /// Could not connect to the socket at that path.
    Connect {
        /// The socket file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An established connection failed.
    Io(io::Error),
    /// The bus closed the connection, as a master does when it stops.
    Closed,
    /// The bus did not read the event in time; it may be overloaded or stopped.
    Timeout,
    /// The stream does not carry bus frames; the connection is unusable.
    Frame(FrameError),
    /// One event is malformed; the connection is still good.
    Event(EventError),
}

impl Error {
    pub(crate) fn connect(path: &Path, source: io::Error) -> Error {
        Error::Connect {
            path: path.to_owned(),
            source,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::Connect { path, source } => {
                write!(
                    f,
                    "cannot connect to the event bus at {}: {source}",
                    path.display()
                )?;
                match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        f.write_str(" (is the daemon running?)")
                    }
                    io::ErrorKind::PermissionDenied => f.write_str(
                        " (run as the daemon's user, or as a user its socket mode allows)",
                    ),
                    _ => Ok(()),
                }
            }
            Error::Io(e) => write!(f, "the connection to the event bus failed: {e}"),
            Error::Closed => f.write_str("the event bus closed the connection"),
            Error::Timeout => f.write_str("the event bus did not read the event in time"),
            Error::Frame(e) => write!(f, "the event bus sent an invalid frame: {e}"),
            Error::Event(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Connect { source, .. } | Error::Io(source) => Some(source),
            Error::Frame(e) => Some(e),
            Error::Event(e) => Some(e),
            Error::Closed | Error::Timeout => None,
        }
    }
}

impl From<FrameError> for Error {
    fn from(e: FrameError) -> Error {
        Error::Frame(e)
    }
}

impl From<EventError> for Error {
    fn from(e: EventError) -> Error {
        Error::Event(e)
    }
}
