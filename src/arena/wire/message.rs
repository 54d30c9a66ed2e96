//! Messages: the envelope, and what it holds.

use super::{
    Channel, Child, ExitStatus, Fault, Json, Manager, Module, Object, Policy, Runtime, State,
    Trouble, Uuid,
};

/// In which words a message is written. An answer is in those of its request (reference, section 4).
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
    /// The words of `type`.
    pub dialect: Dialect,
    /// `from`: who sent it; few say so.
    pub from: Option<String>,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `create` runtime: a runtime registers, or comes back.
    Register(Box<Runtime>),
    /// `delete` runtime: it is gone; the last will of runtimes. On a control topic of the older dialect: it is to end.
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
    /// `delete` module: its uuid, or a unique name; `from` and `parent` may tell that its own runtime says so.
    Delete(String, Option<Parent>),
    /// `exited` module.
    Exited(ModuleExit),
    /// An answer to a request.
    Answer(Answer),
    /// `error`: about somebody's message.
    Error(ErrorReport),
}

/// The runtime that a request names, by uuid or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent(pub String);

/// What a runtime tells of itself from time to time.
#[derive(Clone, Debug, PartialEq)]
pub struct Keepalive {
    /// Who.
    pub uuid: Uuid,
    /// Its name, where it is told.
    pub name: Option<String>,
    /// Its apis, where they are told.
    pub apis: Option<Vec<String>>,
    /// Modules that run there.
    pub children: Option<Vec<Child>>,
    /// Other fields, such as those of a registration.
    pub extra: Object,
}

/// A module that somebody asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleRequest {
    /// Its id; the orchestrator gives one where there is none.
    pub uuid: Option<Uuid>,
    /// `name`; `module` where there is none.
    pub name: String,
    /// The runtime that it is to run on; none leaves the choice.
    pub parent: Option<Parent>,
    /// `index`: its running number, in requests that an orchestrator has forwarded.
    pub index: Option<u64>,
    /// `file`, or `filename` of the older dialect.
    pub file: String,
    /// `filetype` (`WA`, `PY`, `EXT`).
    pub filetype: Option<String>,
    /// What it needs; [`super::DEFAULT_APIS`] where it is not told.
    pub apis: Vec<String>,
    /// `args.argv`, or `args` where that is a list.
    pub argv: Vec<String>,
    /// `args.env` and `env`: `NAME=value` each.
    pub env: Vec<String>,
    /// Other keys of `args`.
    pub args: Object,
    /// Its channels.
    pub channels: Vec<Channel>,
    /// `policy`, or `args.policy`: what becomes of it when its runtime is gone. Ours; others do not know it.
    pub policy: Option<Policy>,
    /// Other fields, such as `location`.
    pub extra: Object,
}

impl ModuleRequest {
    /// The module of this request, not placed yet: queued.
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
    /// Which.
    pub uuid: Uuid,
    /// How; `exited` where it is not told.
    pub status: ExitStatus,
    /// `exit_code`.
    pub code: Option<i64>,
    /// `reason`.
    pub reason: Option<String>,
    /// Other fields.
    pub extra: Object,
}

/// How a request went.
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
    /// `action`, where it is told: `create` or `delete`.
    pub action: Option<String>,
    /// `result`; the draft's confirmation has none, which means `ok`.
    pub verdict: Verdict,
    /// All of `data`, `result` and `details` included.
    pub data: Object,
}

/// An error that the orchestrator tells (reference, section 4.6).
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorReport {
    /// What is wrong.
    pub desc: String,
    /// With what.
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

    /// A fault of this message.
    pub fn fault(&self, trouble: Trouble, data: impl Into<Json>) -> Fault {
        Fault {
            request: Some(self.object_id.clone()),
            dialect: self.dialect,
            ..Fault::new(trouble, data)
        }
    }

    /// The answer to a request: its id and dialect.
    pub fn answer(&self, body: Body) -> Message {
        Message::new(self.object_id.clone(), self.dialect, body)
    }
}
