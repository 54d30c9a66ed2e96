//! Errors of WASI functions.

use std::fmt;

/// The error numbers of preview 1 in use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Errno {
    /// The mode of the channel does not allow it.
    Access = 2,
    /// Nothing is available now, and the file is non-blocking.
    Again = 6,
    /// No such open file, or not open for this operation.
    BadFile = 8,
    /// The file must not exist, but channels always do.
    Exists = 20,
    /// A pointer is outside of the memory.
    Fault = 21,
    /// Invalid text.
    IllegalSequence = 25,
    /// Wrong type or out of range.
    Invalid = 28,
    /// It is a directory.
    IsFolder = 31,
    /// Too many files are open.
    TooManyFiles = 33,
    /// The message is larger than allowed.
    MessageSize = 35,
    /// The path is too long.
    NameTooLong = 37,
    /// No such channel.
    NoEntry = 44,
    /// The function is not supported.
    NoSystem = 52,
    /// It is not a directory.
    NotFolder = 54,
    /// A number does not fit.
    Overflow = 61,
    /// Channels and streams have no position.
    NoSeek = 70,
    /// The path leads out of the module's directories.
    NotCapable = 76,
}

/// Why a WASI function returns an error to the module, or does not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The module gets an error number.
    Errno(Errno),
    /// The module was told to end while it waited.
    Stopped,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault::Errno(errno)
    }
}

/// Ends a module that was told to.
#[derive(Debug)]
pub(in crate::runtime::engine) struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the module was told to end")
    }
}

impl wasmi::errors::HostError for Stopped {}
