//! The master/minion protocol of sysinspect: frames of JSON over TCP.
//!
//! Bytes in, values out. [`frame`] cuts the stream, [`First`] tells the dialect of a connection
//! from its first frame, [`MinionMessage`] and [`MasterMessage`] read and write the frames.
//!
//! Three dialects are spoken ([`Dialect`]): the one of the protocol description, the one of the
//! programs of its time (E1), and the one of the programs up to the secure transport (E2, E3).
//! Frames of the secure transport (E4) are recognised, so that they can be answered.
//!
//! Limits: a frame has at most [`frame::MAX_FRAME`] bytes, which is checked before anything is
//! kept; JSON nests at most 128 deep (`serde_json`'s own limit); of a key that comes twice inside
//! a payload the last one counts, a message or target with such a key is refused.

mod dialect;
pub mod frame;
mod id;
mod json;
mod master;
mod minion;
mod target;

pub use dialect::{Dialect, First, unsupported_version};
pub use frame::{Decoder, FrameError, MAX_FRAME};
pub use id::MachineId;
pub use json::payload_value;
pub use master::MasterMessage;
pub use minion::MinionMessage;
pub use target::Target;

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $text:literal)*) => {
        /// What a message is: its key `r`. The list is closed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// All types.
            pub const ALL: &[Kind] = &[$(Kind::$name),*];

            /// The word on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$name => $text,)*
                }
            }

            fn parse(text: &str) -> Option<Kind> {
                match text {
                    $($text => Some(Kind::$name),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// Registration.
    Add "add"
    /// Un-registration.
    Rm "rm"
    /// Answer to a command.
    Rsp "rsp"
    /// Command.
    Cmd "cmd"
    /// Traits: asked for, pushed, or answered.
    Tr "tr"
    /// First message of a minion that believes it is registered.
    Ehlo "ehlo"
    /// Connect again.
    Retry "retry"
    /// Ping.
    Pi "pi"
    /// Pong.
    Po "po"
    /// Unknown agent.
    Undef "undef"
    /// A minion leaves (from 2024-12).
    Bye "b"
    /// The master has seen it leave.
    ByeAck "ba"
    /// Result of one action (from 2025-02).
    Evt "evt"
    /// A model has been finished (from 2025-04).
    Mvt "mvt"
    /// Sensor files asked for (from 2026-02).
    Ssr "ssr"
    /// Sensor files listed.
    Ssp "ssp"
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A return code: the key `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 0: none, or to be ignored.
    Undef,
    /// 1: done.
    Success,
    /// 2: failed.
    GeneralFailure,
    /// 3: the minion has to register first.
    NotRegistered,
    /// 4: the minion is registered already.
    AlreadyRegistered,
    /// 5: another connection of this minion is alive.
    AlreadyConnected,
    /// Any other number, kept as it came.
    Unknown(u64),
}

impl Code {
    /// The number on the wire.
    pub fn number(self) -> u64 {
        match self {
            Code::Undef => 0,
            Code::Success => 1,
            Code::GeneralFailure => 2,
            Code::NotRegistered => 3,
            Code::AlreadyRegistered => 4,
            Code::AlreadyConnected => 5,
            Code::Unknown(number) => number,
        }
    }
}

impl From<u64> for Code {
    fn from(number: u64) -> Code {
        match number {
            0 => Code::Undef,
            1 => Code::Success,
            2 => Code::GeneralFailure,
            3 => Code::NotRegistered,
            4 => Code::AlreadyRegistered,
            5 => Code::AlreadyConnected,
            other => Code::Unknown(other),
        }
    }
}

/// Why a frame is no message. Real programs drop such a frame and keep the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// No JSON object of the expected shape; the text says where.
    Malformed(String),
    /// The type is not in the list.
    UnknownType(String),
    /// The minion's id is not 1 to 64 of `0-9 A-Z a-z _ -`.
    BadId,
    /// The payload is not of the form that the dialect has.
    BadPayload(&'static str),
    /// A target has a part of a wrong form.
    BadTarget(&'static str),
    /// A first frame from which no dialect can be told.
    NoDialect,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DecodeError::Malformed(why) => write!(f, "not a sysinspect message: {why}"),
            DecodeError::UnknownType(name) => {
                let types: Vec<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
                let shown: String = name.chars().take(32).collect();
                write!(f, "unknown type {shown:?}; one of {}", types.join(", "))
            }
            DecodeError::BadId => f.write_str(
                "the machine id is not acceptable: 1 to 64 letters, digits, hyphens and underlines",
            ),
            DecodeError::BadPayload(why) => write!(f, "the payload (key d) is not right: {why}"),
            DecodeError::BadTarget(why) => write!(f, "a target (key t) is not right: {why}"),
            DecodeError::NoDialect => f.write_str(
                "no dialect has such a first message: without the key sid the payload is a text",
            ),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Why a message cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The dialect has room for one target with at most one id, and none for traits by glob.
    Target,
    /// The frame would exceed the limit.
    Frame(FrameError),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            EncodeError::Target => f.write_str(
                "this dialect takes one target with one id and a traits query; send one message \
                 to each minion",
            ),
            EncodeError::Frame(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EncodeError {}

#[cfg(test)]
mod tests;
