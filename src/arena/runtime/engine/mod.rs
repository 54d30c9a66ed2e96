//! Execution of one WASM module: an interpreter, WASI preview 1, and channels as files. Knows no MQTT: what a module publishes, writes
//! and asks for goes through [`Host`].
//!
//! Each module has a thread of its own. It runs in slices of fuel, so that [`Running::stop`] ends a busy loop within some
//! milliseconds; a read that blocks waits on a condition and is woken.

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

/// What a module may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory.
    pub memory: u64,
    /// Elements of all tables.
    pub table_elements: u64,
    /// Files and channels that are open at once.
    pub open_files: usize,
    /// Messages that may wait to be read by it, on all channels and standard input; the oldest is dropped and counted. Together they
    /// have as many bytes as `memory` allows.
    pub waiting_messages: usize,
    /// Bytes of the largest message, in either direction.
    pub message: usize,
    /// Messages that it may publish in a second, subscriptions included; more wait. 0 is no limit.
    pub messages_per_second: u32,
    /// Bytes of standard output and error in a second; more wait. Each piece that is handed on counts 128 more. 0 is no limit.
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
    /// Name of the program: `argv[0]`.
    pub program: String,
    /// `NAME=value` each.
    pub env: Vec<String>,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// Whether it has standard input (`stdio:in`); else it ends at once.
    pub stdin: bool,
    /// What it may use.
    pub limits: Limits,
}

/// What modules need of whoever runs them. Called from the threads of modules; must not block for long.
pub trait Host: Send + Sync {
    /// Whether modules may use a topic; opening a channel of another one fails.
    fn allows(&self, topic: &str) -> bool;
    /// A module publishes on a channel: the full topic. `false`: there is no room now; it is asked again a little later.
    fn publish(&self, module: &Uuid, topic: &str, payload: &[u8]) -> bool;
    /// A module has opened a channel for reading: the full topic.
    fn subscribe(&self, module: &Uuid, topic: &str);
    /// It has closed it, or has ended.
    fn unsubscribe(&self, module: &Uuid, topic: &str);
    /// It wrote to a standard stream: whole lines, or what came within a short time.
    fn output(&self, module: &Uuid, stream: Stream, data: &[u8]);
    /// It has ended. Told exactly once, as the last of all.
    fn ended(&self, module: &Uuid, end: End);
}

/// How a module ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// By itself, told to, crashed, or over a limit.
    pub status: ExitStatus,
    /// Its exit code, where it has one.
    pub code: Option<i32>,
    /// Why, for people; empty for a normal end.
    pub reason: String,
}

/// What a module has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Time that the interpreter worked for it.
    pub cpu: Duration,
    /// Bytes of linear memory.
    pub memory: u64,
    /// When it last read or wrote a channel.
    pub active: Option<SystemTime>,
    /// Messages that had no room.
    pub dropped: u64,
}

/// A module that runs. Dropping it tells the module to end.
pub trait Running: Send + Sync {
    /// Tells it to end; it does, within 100 ms, whatever it does.
    fn stop(&self);
    /// A message came in on a topic that it has subscribed to. Empty ones are passed over: read, they would look like the end of a
    /// file.
    fn deliver(&self, topic: &str, payload: &Bytes);
    /// Something for its standard input; nothing is the end of it.
    fn input(&self, data: &Bytes);
    /// Waits until so much input has room without anything else being dropped for it, or is of no use to the module any more. More than
    /// its limits of a message and of memory allow never has room.
    fn wait_for_room(&self, octets: usize);
    /// What it has used so far.
    fn figures(&self) -> Figures;
}

/// Something that executes modules.
pub trait Engine: Send + Sync {
    /// What it offers, as registrations tell: `wasm`, `wasi`, `wasi:snapshot_preview1`, `channels`, ...
    fn apis(&self) -> &[&'static str];

    /// Checks a module and starts it.
    ///
    /// # Errors
    /// It is no module, needs what there is not, or has no start function: which, for people.
    fn start(&self, spec: Spec, host: Arc<dyn Host>) -> Result<Box<dyn Running>, String>;
}

/// The interpreter that is built in.
pub fn interpreter() -> Arc<dyn Engine> {
    Arc::new(interp::Interpreter::new())
}

#[cfg(test)]
mod tests;
