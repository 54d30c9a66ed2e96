//! The master/minion protocol of sysinspect: frames of JSON over TCP.
//!
//! Bytes in, values out. [`frame`] splits the stream, [`First`] determines the dialect of a connection from its first
//! frame, [`MinionMessage`] and [`MasterMessage`] decode and encode the frames.
//!
//! Three dialects are supported ([`Dialect`]): the one of the protocol description, the one of the programs of its
//! time (E1), and the one of the programs up to the secure transport (E2, E3). Frames of the secure transport (E4) are
//! recognised, so that they can be answered.
//!
//! Limits: a frame has at most [`frame::MAX_FRAME`] bytes, which is checked before anything is stored; JSON is parsed within
//! [`halite_wire::budget::Budget::fixed`]. If a key is repeated inside a payload the last one counts; a message or
//! target with a repeated key is refused.

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
        /// The type of a message: its key `r`. The list is closed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MessageKind {
            $($(#[$doc])* $name,)*
        }

        impl MessageKind {
            /// All types.
            pub const ALL: &[MessageKind] = &[$(MessageKind::$name),*];

            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(MessageKind::$name => $text,)*
                }
            }

            fn parse(text: &str) -> Option<MessageKind> {
                match text {
                    $($text => Some(MessageKind::$name),)*
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
    /// Traits: a request, new values, or the answer.
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
    /// The master confirms that a minion leaves.
    ByeAck "ba"
    /// Result of one action (from 2025-02).
    Evt "evt"
    /// A model has finished (from 2025-04).
    Mvt "mvt"
    /// Request for sensor files (from 2026-02).
    Ssr "ssr"
    /// List of sensor files.
    Ssp "ssp"
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A return code: the key `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// 0: none, or to be ignored.
    Undef,
    /// 1: success.
    Success,
    /// 2: failure.
    GeneralFailure,
    /// 3: the minion has to register first.
    NotRegistered,
    /// 4: the minion is registered already.
    AlreadyRegistered,
    /// 5: another connection of this minion is alive.
    AlreadyConnected,
    /// Any other number.
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

/// Why a frame cannot be decoded. Real programs drop such a frame and keep the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Not a JSON object of the expected shape; the text says where.
    Malformed(String),
    /// The type is not in the list.
    UnknownType(String),
    /// The minion's id is not 1 to 64 of `0-9 A-Z a-z _ -`.
    BadId,
    /// The payload does not have the form of the dialect.
    BadPayload(&'static str),
    /// A part of a target has a wrong form.
    BadTarget(&'static str),
    /// The first frame fits no dialect.
    NoDialect,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DecodeError::Malformed(why) => write!(f, "not a sysinspect message: {why}"),
            DecodeError::UnknownType(name) => {
                let types: Vec<&str> = MessageKind::ALL.iter().map(|k| k.name()).collect();
                let shown: String = name.chars().take(32).collect();
                write!(f, "unknown type {shown:?}; one of {}", types.join(", "))
            }
            DecodeError::BadId => f.write_str(
                "the machine id is invalid: it must be 1 to 64 letters, digits, hyphens and underscores",
            ),
            DecodeError::BadPayload(why) => write!(f, "invalid payload (key d): {why}"),
            DecodeError::BadTarget(why) => write!(f, "invalid target (key t): {why}"),
            DecodeError::NoDialect => f.write_str(
                "no dialect has such a first message: without the key sid the payload is a text",
            ),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Why a message cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The dialect allows one target with at most one id, and no globs for traits.
    Target,
    /// The frame is over the limit.
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
