//! Messages: the envelope and its contents.

use super::{
    Channel, Child, ExitStatus, Json, Manager, Module, Object, Policy, Runtime, State, Uuid,
};

/// The vocabulary of a message. An answer uses that of its request (reference, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `req` and `resp`, as in seed 003.
    #[default]
    Draft,
    /// `arts_req` and `arts_resp`, before February 2023.
    Older,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Id of the request; an answer repeats it.
    pub object_id: String,
    /// The dialect of `type`.
    pub dialect: Dialect,
    /// `from`: the sender; few messages have it.
    pub from: Option<String>,
    /// The content.
    pub body: Body,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `create` runtime: a runtime registers, or comes back.
    Register(Box<Runtime>),
    /// `delete` runtime: it is gone; the last will of runtimes. On a control topic in the older dialect: it must shut
    /// down.
    Unregister(Uuid, Option<String>),
    /// `create` manager.
    RegisterManager(Manager),
    /// `delete` manager: it is gone, and all its runtimes.
    UnregisterManager(Uuid, Option<String>),
    /// `update` runtime.
    Keepalive(Box<Keepalive>),
    /// `create` module.
    Create(Box<ModuleRequest>),
    /// `create_batch`: all on one runtime.
    CreateBatch(Parent, Vec<ModuleRequest>),
    /// `delete` module: its uuid, or a unique name; `from` and `parent` may show that its own runtime sent it.
    Delete(String, Option<Parent>),
    /// `exited` module.
    Exited(ModuleExit),
    /// An answer to a request.
    Answer(Answer),
    /// `error`: about a peer's message.
    Error(ErrorReport),
}

/// The runtime that a request names, by uuid or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent(pub String);

/// The periodic message of a runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Keepalive {
    /// The runtime.
    pub uuid: Uuid,
    /// Its name, if present.
    pub name: Option<String>,
    /// Its apis, if present.
    pub apis: Option<Vec<String>>,
    /// Modules that run there.
    pub children: Option<Vec<Child>>,
    /// Whether the list has entries that name no module, as when a runtime cannot read a module's figures: `null`.
    pub partial: bool,
    /// Other fields, such as those of a registration.
    pub extra: Object,
}

/// A request for a module.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleRequest {
    /// Its id; the orchestrator assigns one if there is none.
    pub uuid: Option<Uuid>,
    /// `name`; `module` by default.
    pub name: String,
    /// The runtime to run on; without one the orchestrator chooses.
    pub parent: Option<Parent>,
    /// `index`: its running number, in requests forwarded by an orchestrator.
    pub index: Option<u64>,
    /// `file`, or `filename` of the older dialect.
    pub file: String,
    /// `filetype` (`WA`, `PY`, `EXT`).
    pub filetype: Option<String>,
    /// The apis that it needs; [`super::DEFAULT_APIS`] by default.
    pub apis: Vec<String>,
    /// `args.argv`, or `args` if that is a list.
    pub argv: Vec<String>,
    /// `args.env` and `env`: `NAME=value` each.
    pub env: Vec<String>,
    /// Other keys of `args`.
    pub args: Object,
    /// Whether `args` is a list of arguments, with `env` beside it, and not an object with both.
    pub listed: bool,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// `policy`, or `args.policy`: what happens to it when its runtime disconnects. Our extension; others do not know
    /// it.
    pub policy: Option<Policy>,
    /// Other fields, such as `location`.
    pub extra: Object,
}

impl ModuleRequest {
    /// The module for this request: queued, not placed yet.
    pub fn into_module(self, uuid: Uuid, index: u64, policy: Policy) -> Module {
        Module {
            uuid,
            name: self.name,
            index,
            runtime: None,
            scheduled: self.parent.is_none(),
            file: self.file,
            filetype: self.filetype,
            apis: self.apis,
            argv: self.argv,
            env: self.env,
            args: self.args,
            listed: self.listed,
            channels: self.channels,
            policy: self.policy.unwrap_or(policy),
            state: State::Queued,
            extra: self.extra,
        }
    }
}

/// A module has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleExit {
    /// The module.
    pub uuid: Uuid,
    /// How it ended; `exited` by default.
    pub status: ExitStatus,
    /// `exit_code`.
    pub code: Option<i64>,
    /// `reason`.
    pub reason: Option<String>,
    /// Other fields.
    pub extra: Object,
}

/// Whether a request succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `ok`.
    Ok,
    /// `error`.
    Error,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// `action`, if present: `create` or `delete`.
    pub action: Option<String>,
    /// `result`; the draft's confirmation has none, which means `ok`.
    pub verdict: Verdict,
    /// All of `data`, including `result` and `details`.
    pub data: Object,
}

/// An error reported by the orchestrator (reference, section 4.6).
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorReport {
    /// What is wrong.
    pub desc: String,
    /// What it is about.
    pub data: Json,
    /// `request`: `object_id` of the message that it is about.
    pub request: Option<String>,
}

impl Message {
    /// A message of our own.
    pub fn new(object_id: impl Into<String>, dialect: Dialect, body: Body) -> Message {
        Message {
            object_id: object_id.into(),
            dialect,
            from: None,
            body,
        }
    }

    /// The answer to a request: its id and dialect.
    pub fn answer(&self, body: Body) -> Message {
        Message::new(self.object_id.clone(), self.dialect, body)
    }
}
