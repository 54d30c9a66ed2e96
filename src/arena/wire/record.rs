//! Records of managers, runtimes and modules, as in `details` of the orchestrator's answers.

use super::{ChannelPath, Json, Object, Policy, Topic, Uuid};

/// State of a module (reference, section 5); records contain the letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// `A`: it runs, as far as we know.
    Alive,
    /// `D`: it has ended.
    Dead,
    /// `E`: it was told to end.
    Exiting,
    /// `K`: its runtime disconnected; it comes back with it.
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

/// A channel of a module: a path to open, and the topic behind it (reference, section 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The path that the module opens, or a prefix of it.
    pub path: ChannelPath,
    /// What the module may do with it.
    pub mode: Mode,
    /// The topic of `path`; the rest of the opened path is appended.
    pub topic: Topic,
    /// Unknown fields, such as `type` of the web client.
    pub extra: Object,
}

/// A runtime manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Manager {
    /// Its id.
    pub uuid: Uuid,
    /// Its display name, 255 characters at most.
    pub name: String,
    /// Whether it is connected.
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
    /// `max_nmodules`: how many modules it accepts; 0 is no limit (or, without any apis, that it runs none).
    pub max_modules: u32,
    /// The apis that it offers.
    pub apis: Vec<String>,
    /// `platform`: describes the host.
    pub platform: Json,
    /// `metadata`: for information only.
    pub metadata: Json,
    /// `ka_interval_sec` that it was sent, in seconds; 0 turns keepalives off.
    pub keepalive: u64,
    /// `parent`: its manager.
    pub manager: Option<Uuid>,
    /// Whether it is connected.
    pub state: RuntimeState,
    /// Unknown fields.
    pub extra: Object,
}

/// A module, as requested and placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Its id.
    pub uuid: Uuid,
    /// Its short name; not unique.
    pub name: String,
    /// `index`: running number, assigned by the orchestrator.
    pub index: u64,
    /// `parent`: the runtime that it is placed on; `None` while no runtime can take it.
    pub runtime: Option<Uuid>,
    /// Whether the orchestrator chose the runtime, and may choose another.
    pub scheduled: bool,
    /// `file`.
    pub file: String,
    /// `filetype` (`WA`, `PY`, `EXT`), if given.
    pub filetype: Option<String>,
    /// The apis that it needs.
    pub apis: Vec<String>,
    /// `args.argv`.
    pub argv: Vec<String>,
    /// `args.env`: `NAME=value` each.
    pub env: Vec<String>,
    /// Other keys of `args`, passed on to the runtime.
    pub args: Object,
    /// Whether `args` was a list in the request.
    pub listed: bool,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// What happens to it when its runtime disconnects.
    pub policy: Policy,
    /// Its state.
    pub state: State,
    /// Unknown fields of the request, passed on.
    pub extra: Object,
}

/// How a module ended, according to its notice (reference, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// `exited`: by itself.
    Exited,
    /// `deleted`: it was told to end.
    Deleted,
    /// `crashed`: it trapped, or could not be started.
    Crashed,
    /// `killed`: it exceeded a limit.
    Killed,
}

/// A module in a keepalive.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The module.
    pub uuid: Uuid,
    /// `active`: time of its last input or output on channels (RFC 3339); `None` if there was none (-1).
    pub active: Option<String>,
    /// `cpu_usage_percent`, of one core since the last keepalive.
    pub cpu_percent: f64,
    /// `mem_usage`, in bytes.
    pub memory: u64,
    /// Unknown fields, such as `network_rx_mb`.
    pub extra: Object,
}
