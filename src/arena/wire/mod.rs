//! Messages of ARENA between runtimes, their managers, users and the orchestrator: JSON over MQTT (reference `arena-protocol.md`;
//! the draft is seed 003).
//!
//! Parsing is liberal ([`Message::parse`]), writing is exact ([`Message::to_json`]). Nothing here does IO. A message
//! that cannot be understood becomes a [`Fault`], the content of the error message about it.

mod answer;
mod bytes;
mod channel;
mod details;
mod fault;
mod fields;
mod message;
mod parse;
mod record;
mod request;
mod words;
mod write;

pub use fault::{Fault, Trouble};
pub use halite_config::gateways::arena::{
    BadName, ChannelPath, ModulePath, Place, Policy, Scheme, Stream, Topic, Topics, Uuid,
};
pub use message::{
    Answer, Body, Dialect, ErrorReport, Keepalive, Message, ModuleExit, ModuleRequest, Parent,
    Verdict,
};
pub use record::{Channel, Child, ExitStatus, Manager, Mode, Module, Runtime, RuntimeState, State};

/// JSON in messages; objects keep the order of their fields.
pub type Json = serde_json::Value;
/// A JSON object.
pub type Object = serde_json::Map<String, Json>;

/// Size limit of a message, in bytes.
pub const MAX_MESSAGE: usize = 256 << 10;
/// Default interval between keepalives, in seconds (reference, section 4.1).
pub const KEEPALIVE: u64 = 60;
/// Apis of a module or runtime that names none (seed 003).
pub const DEFAULT_APIS: [&str; 2] = ["wasm", "wasi"];

#[cfg(test)]
mod tests;
