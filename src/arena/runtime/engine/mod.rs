//! Execution of one WASM module: an interpreter, WASI preview 1, and channels as files. Independent of MQTT:
//! everything that a module publishes, writes or requests goes through [`Host`].
//!
//! Each module has its own thread. It runs in slices of fuel, so that [`Running::stop`] ends a busy loop within a few
//! milliseconds; a blocking read waits on a condition variable and is woken.

mod channels;
mod inbox;
mod interp;
mod limits;
mod output;
mod scan;
mod wasi;

pub use interp::attempt;

use crate::wire::{Channel, ExitStatus, Stream, Uuid};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Resource limits of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory.
    pub memory: u64,
    /// Elements of all tables.
    pub table_elements: u64,
    /// Files and channels open at once.
    pub open_files: usize,
    /// Unread messages, on all channels and standard input; beyond that the oldest is dropped and counted. Their total
    /// size is limited by `memory`.
    pub waiting_messages: usize,
    /// Bytes of the largest message, in either direction.
    pub message: usize,
    /// Messages published per second, subscriptions included; more wait. 0 is no limit.
    pub messages_per_second: u32,
    /// Bytes of standard output and error per second; more wait. Each piece passed on counts 128 bytes more. 0 is no
    /// limit.
    pub output_per_second: u32,
    /// Bytes of the module itself.
    pub code: usize,
}

/// A module to run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its id.
    pub uuid: Uuid,
    /// WASM as bytes.
    pub code: Vec<u8>,
    /// `argv`, without the name of the program itself.
    pub argv: Vec<String>,
    /// Name of the program, `argv[0]`.
    pub program: String,
    /// `NAME=value` each.
    pub env: Vec<String>,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// Whether it has standard input (`stdio:in`); otherwise reads return end of file.
    pub stdin: bool,
    /// Its resource limits.
    pub limits: Limits,
}

/// Services for modules, implemented by the program that runs them. Called from the threads of modules; must not block
/// for long.
pub trait Host: Send + Sync {
    /// Whether modules may use a topic; opening a channel with another one fails.
    fn allows(&self, topic: &str) -> bool;
    /// A module publishes on a channel: the full topic. `false` if there is no room now; the call is repeated a little
    /// later.
    fn publish(&self, module: &Uuid, topic: &str, payload: &[u8]) -> bool;
    /// A module has opened a channel for reading: the full topic.
    fn subscribe(&self, module: &Uuid, topic: &str);
    /// A module has closed it, or has ended.
    fn unsubscribe(&self, module: &Uuid, topic: &str);
    /// A module wrote to a standard stream: whole lines, or the output of a short time.
    fn output(&self, module: &Uuid, stream: Stream, data: &[u8]);
    /// A module has ended. Called exactly once, after all other calls.
    fn ended(&self, module: &Uuid, end: End);
}

/// How a module ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// By itself, deleted, crashed, or over a limit.
    pub status: ExitStatus,
    /// Its exit code, if it has one.
    pub code: Option<i32>,
    /// The reason as readable text; empty for a normal end.
    pub reason: String,
}

/// Resources used by a module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Time that the interpreter ran it.
    pub cpu: Duration,
    /// Bytes of linear memory.
    pub memory: u64,
    /// When it last read or wrote a channel.
    pub active: Option<SystemTime>,
    /// Messages dropped because there was no room.
    pub dropped: u64,
}

/// A running module. Dropping it tells the module to end.
pub trait Running: Send + Sync {
    /// Tells it to end, which it does within 100 ms in any case.
    fn stop(&self);
    /// Delivers a message on a topic that it has subscribed to. Empty messages are ignored: reading one would look
    /// like the end of a file.
    fn deliver(&self, topic: &str, payload: &Bytes);
    /// Appends to its standard input; an empty message ends it.
    fn input(&self, data: &Bytes);
    /// Waits until this much input fits without dropping anything else, or the module no longer reads it. Input beyond
    /// the limits of a message and of memory never fits.
    fn wait_for_room(&self, bytes: usize);
    /// The resources used so far.
    fn figures(&self) -> Figures;
}

/// An engine that executes modules.
pub trait Engine: Send + Sync {
    /// The apis that it offers, as sent in registrations: `wasm`, `wasi`, `wasi:snapshot_preview1`, `channels`, ...
    fn apis(&self) -> &[&'static str];

    /// Checks a module and starts it.
    ///
    /// # Errors
    /// It is not a module, imports something unknown, or has no start function; the reason is readable text.
    fn start(&self, spec: Spec, host: Arc<dyn Host>) -> Result<Box<dyn Running>, String>;
}

/// The built-in interpreter.
pub fn interpreter() -> Arc<dyn Engine> {
    Arc::new(interp::Interpreter::new())
}

#[cfg(test)]
mod tests;
