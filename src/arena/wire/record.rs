//! What the orchestrator knows of managers, runtimes and modules, as the `details` of its answers tell it.

use super::{ChannelPath, Json, Object, Policy, Topic, Uuid};

/// State of a module (reference, section 5); the letter is what records carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// `A`: it runs, as far as is known.
    Alive,
    /// `D`: it has ended.
    Dead,
    /// `E`: it has been told to end.
    Exiting,
    /// `K`: its runtime went away; it comes back with it.
    Killed,
    /// `Q`: it waits for a free place.
    Queued,
}

/// State of a runtime or manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuntimeState {
    /// `A`.
    Alive,
    /// `D`.
    Dead,
}

/// What a module may do with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `r`: subscribe.
    Read,
    /// `w`: publish.
    Write,
    /// `rw`: both.
    ReadWrite,
}

/// A channel of a module: a path that it opens, and the topic behind it (reference, section 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// What the module opens, or a path below it.
    pub path: ChannelPath,
    /// What it may do with it.
    pub mode: Mode,
    /// The topic of `path`; the rest of what is opened is appended.
    pub topic: Topic,
    /// Fields that nobody here knows, such as `type` of the web client.
    pub extra: Object,
}

/// A runtime manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Manager {
    /// Its id.
    pub uuid: Uuid,
    /// Its display name, 255 characters at most.
    pub name: String,
    /// Whether it is there.
    pub state: RuntimeState,
}

/// A runtime, as it registered.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// Its id.
    pub uuid: Uuid,
    /// Its display name, 255 characters at most; not unique, usable as an address.
    pub name: String,
    /// `runtime_type`.
    pub kind: String,
    /// `max_nmodules`: modules that it takes; 0 is no limit (or, with no apis at all, that it runs none).
    pub max_modules: u32,
    /// What it offers.
    pub apis: Vec<String>,
    /// `platform`: of what it runs on.
    pub platform: Json,
    /// `metadata`: for information only.
    pub metadata: Json,
    /// `ka_interval_sec` that it was told, in seconds; 0 is none.
    pub keepalive: u64,
    /// `parent`: its manager.
    pub manager: Option<Uuid>,
    /// Whether it is there.
    pub state: RuntimeState,
    /// Fields that nobody here knows.
    pub extra: Object,
}

/// A module, as it was asked for and placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Its id.
    pub uuid: Uuid,
    /// Its short name; not unique.
    pub name: String,
    /// `index`: running number, given by the orchestrator.
    pub index: u64,
    /// `parent`: the runtime that it is placed on; none while nobody could take it.
    pub runtime: Option<Uuid>,
    /// Whether the orchestrator chose the runtime, and may choose another.
    pub scheduled: bool,
    /// `file`.
    pub file: String,
    /// `filetype` (`WA`, `PY`, `EXT`), where it was given.
    pub filetype: Option<String>,
    /// What it needs.
    pub apis: Vec<String>,
    /// `args.argv`.
    pub argv: Vec<String>,
    /// `args.env`: `NAME=value` each.
    pub env: Vec<String>,
    /// Other keys of `args`, handed on to the runtime.
    pub args: Object,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// What becomes of it when its runtime is gone.
    pub policy: Policy,
    /// Its state.
    pub state: State,
    /// Fields of the request that nobody here knows, handed on.
    pub extra: Object,
}

/// How a module ended, as far as a notice tells it (reference, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// `exited`: by itself.
    Exited,
    /// `deleted`: it was told to.
    Deleted,
    /// `crashed`: it trapped, or could not be started.
    Crashed,
    /// `killed`: it went over a limit.
    Killed,
}

/// A module in a keepalive.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Which.
    pub uuid: Uuid,
    /// `active`: time of its last input or output on channels (RFC 3339); `None` if there was none (-1).
    pub active: Option<String>,
    /// `cpu_usage_percent`, of one core since the last keepalive.
    pub cpu_percent: f64,
    /// `mem_usage`, in bytes.
    pub memory: u64,
    /// Fields that nobody here knows, such as `network_rx_mb`.
    pub extra: Object,
}
