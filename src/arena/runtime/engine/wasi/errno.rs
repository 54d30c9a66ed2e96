//! What a function of WASI answers where it does not do what it was asked for.

use std::fmt;

/// Error numbers of preview 1, as far as they are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Errno {
    /// The mode of the channel does not allow it.
    Access = 2,
    /// Nothing is there now, and the file is not to wait.
    Again = 6,
    /// No such open file, or not open for this.
    BadFile = 8,
    /// It is to be made new, and channels are there already.
    Exists = 20,
    /// A pointer leads out of the memory.
    Fault = 21,
    /// No such text.
    IllegalSequence = 25,
    /// Mistyped or out of range.
    Invalid = 28,
    /// A folder is no file.
    IsFolder = 31,
    /// Too many files are open.
    TooManyFiles = 33,
    /// The message is larger than allowed.
    MessageSize = 35,
    /// The path is too long.
    NameTooLong = 37,
    /// No such channel.
    NoEntry = 44,
    /// There is no such function here.
    NoSystem = 52,
    /// A file is no folder.
    NotFolder = 54,
    /// A number does not fit.
    Overflow = 61,
    /// Channels and streams have no position.
    NoSeek = 70,
    /// The path leads out of what the module may see.
    NotCapable = 76,
}

/// Why a function of WASI does not return to the module, or returns an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The module learns an error number.
    Errno(Errno),
    /// The module has been told to end while it waited.
    Stopped,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault::Errno(errno)
    }
}

/// Ends a module that has been told to.
#[derive(Debug)]
pub(in crate::runtime::engine) struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the module was told to end")
    }
}

impl wasmi::errors::HostError for Stopped {}
