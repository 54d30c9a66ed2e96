//! Execution modules: the functions that jobs and `halite-call` run.
//!
//! One file per module, one table per file ([`declare::Function`]), one line here per
//! table. [`call`] takes the wire form of the arguments and answers what a minion
//! returns, with the texts of stock Salt (`salt/minion.py _thread_return`).

mod accounts;
mod aliases;
mod alternatives;
pub mod bind;
mod cmd;
mod config;
mod cron;
pub mod declare;
mod event;
mod grains;
mod group;
mod hosts;
mod key;
mod log;
mod mine;
mod nested;
mod network;
mod pillar;
mod pkg;
pub mod proc;
mod program;
mod publish;
pub mod python;
mod saltutil;
mod service;
mod shadow;
mod ssh;
mod status;
mod step;
mod sys;
mod systemd;
mod test;
mod user;

use super::link::{Link, LinkError};
use crate::wire::{Map, Value};
pub(crate) use cmd::which;
pub(crate) use mine::configured as mine_functions;

use bind::Bound;
use declare::{Function, Module};
use std::path::PathBuf;
use std::sync::Arc;

/// Every module. New modules get a line here and nowhere else.
const MODULES: &[Module] = &[
    aliases::MODULE,
    alternatives::MODULE,
    cmd::MODULE,
    config::MODULE,
    cron::MODULE,
    event::MODULE,
    grains::MODULE,
    group::MODULE,
    hosts::MODULE,
    key::MODULE,
    log::MODULE,
    mine::MODULE,
    network::MODULE,
    pillar::MODULE,
    pkg::MODULE,
    publish::MODULE,
    saltutil::MODULE,
    service::MODULE,
    shadow::MODULE,
    ssh::MODULE,
    status::MODULE,
    sys::MODULE,
    test::MODULE,
    user::MODULE,
];

/// How deeply functions may call functions (`test.cross_test`).
const MAX_CALLS: u32 = 32;

/// What functions know about the minion they run on.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The minion id.
    pub id: String,
    /// Its grains.
    pub grains: Arc<Map>,
    /// Its pillar.
    pub pillar: Arc<Map>,
    /// The minion's configuration.
    pub opts: Map,
    /// `cachedir`; `proc/` is below it.
    pub cachedir: PathBuf,
    /// The publish load when a job runs, for `__pub_*`.
    pub job: Option<Map>,
    /// The way to the master.
    pub master: Link,
}

/// What came of a call: the fields of a `_return` (reference `salt-protocol.md` 8.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `return`.
    pub ret: Value,
    /// `retcode`.
    pub retcode: i64,
    /// `success`.
    pub success: bool,
    /// `out`, the outputter asked for.
    pub out: Option<String>,
    /// Why the call failed, for `halite-call`, which words errors differently.
    pub fault: Option<Fault>,
}

/// Why a function gave no value, by the exception that stock Salt raises there.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// There is no such function.
    Missing(String),
    /// `CommandNotFoundError`: a program is not installed.
    CommandNotFound(String),
    /// `CommandExecutionError`.
    Command(String),
    /// `SaltInvocationError`.
    Invocation(String),
    /// `TypeError`: the arguments do not fit.
    Type(String),
    /// Any other exception, by its Python name.
    Raised(String, String),
}

impl Fault {
    /// An exception by its Python class name.
    pub fn raised(class: &str, message: impl Into<String>) -> Fault {
        Fault::Raised(class.to_owned(), message.into())
    }

    /// `str(exception)`.
    pub fn message(&self) -> &str {
        match self {
            Fault::Missing(m)
            | Fault::CommandNotFound(m)
            | Fault::Command(m)
            | Fault::Invocation(m)
            | Fault::Type(m)
            | Fault::Raised(_, m) => m,
        }
    }
}

impl From<LinkError> for Fault {
    fn from(e: LinkError) -> Fault {
        match e {
            LinkError::Silence => Fault::raised("SaltReqTimeoutError", e.to_string()),
            other => Fault::raised("SaltClientError", other.to_string()),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Fault {}

/// One running call: the context, the bound arguments, and the retcode to report.
pub struct Call<'a> {
    /// The minion.
    pub ctx: &'a Context,
    /// The bound arguments.
    pub bound: Bound,
    /// Salt's `__context__["retcode"]`.
    pub retcode: Value,
    function: &'static Function,
    depth: u32,
}

impl Call<'_> {
    /// A declared argument. An undeclared name is nil: a table and its code disagree only in a bug.
    pub fn arg(&self, name: &str) -> &Value {
        const NIL: &Value = &Value::Nil;
        let at = self.function.args.iter().position(|a| a.name == name);
        at.and_then(|i| self.bound.named.get(i)).unwrap_or(NIL)
    }

    /// A declared argument as text, or what Python's `str()` makes of it; nil is `None`.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.arg(name) {
            Value::Nil => None,
            other => Some(python::str(other)),
        }
    }

    /// Whether a declared argument is true as Python sees it.
    pub fn flag(&self, name: &str) -> bool {
        self.arg(name).truthy()
    }

    /// Runs another function as `__salt__[fun](*args, **kwargs)`.
    ///
    /// # Errors
    /// Whatever that function raises; a `KeyError` when there is none.
    pub fn salt(&mut self, fun: &str, args: Vec<Value>, kwargs: Map) -> declare::Result {
        let function = find(fun).ok_or_else(|| Fault::raised("KeyError", format!("'{fun}'")))?;
        if self.depth >= MAX_CALLS {
            return Err(Fault::raised(
                "RecursionError",
                "maximum recursion depth exceeded",
            ));
        }
        let bound = bind::bind(function, args, kwargs)?;
        let mut inner = Call {
            ctx: self.ctx,
            bound,
            retcode: Value::Int(0),
            function,
            depth: self.depth + 1,
        };
        let ret = (function.run)(&mut inner)?;
        if inner.retcode.truthy() {
            self.retcode = inner.retcode;
        }
        Ok(ret)
    }
}

/// All functions with their full names, sorted.
pub fn functions() -> Vec<(String, &'static Function)> {
    let mut all: Vec<_> = MODULES
        .iter()
        .flat_map(|m| {
            m.functions
                .iter()
                .map(|f| (format!("{}.{}", m.name, f.name), f))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// The function behind a full name.
pub fn find(fun: &str) -> Option<&'static Function> {
    let (module, name) = fun.split_once('.')?;
    let module = MODULES.iter().find(|m| m.name == module)?;
    module.functions.iter().find(|f| f.name == name)
}

/// Runs a function with arguments in wire form.
pub fn call(ctx: &Context, fun: &str, args: &[Value]) -> Outcome {
    let Some(function) = find(fun) else {
        return not_available(fun);
    };
    let mut retcode = Value::Int(0);
    match run(ctx, function, args, &mut retcode) {
        Ok(ret) => finished(ret, retcode),
        Err(fault) => failed(fun, function, fault),
    }
}

fn run(
    ctx: &Context,
    function: &'static Function,
    args: &[Value],
    retcode: &mut Value,
) -> declare::Result {
    let (positional, kwargs) = bind::load(function, args, ctx.job.as_ref())?;
    let bound = bind::bind(function, positional, kwargs)?;
    let mut call = Call {
        ctx,
        bound,
        retcode: Value::Int(0),
        function,
        depth: 0,
    };
    let ret = (function.run)(&mut call);
    *retcode = call.retcode;
    ret
}

fn finished(ret: Value, retcode: Value) -> Outcome {
    // A retcode that is no number (`test.retcode abc`) is still a failure.
    let mut code = retcode.as_int().unwrap_or(1);
    if code == 0 && !looks_successful(&ret) {
        code = 1;
    }
    Outcome {
        ret,
        retcode: code,
        success: code == 0,
        out: None,
        fault: None,
    }
}

/// A map with a false `result` or `success` is a failure.
fn looks_successful(ret: &Value) -> bool {
    let Some(map) = ret.as_map() else {
        return true;
    };
    ["result", "success"]
        .iter()
        .all(|key| map.get(key).is_none_or(Value::truthy))
}

/// Stock goes on with the frames of the Python stack; only head and last line mean anything here.
const TRACEBACK: &str =
    "The minion function caused an exception: Traceback (most recent call last):\n";

fn failed(fun: &str, function: &Function, fault: Fault) -> Outcome {
    let text = match &fault {
        Fault::Missing(m) => m.clone(),
        Fault::CommandNotFound(m) => format!("Command required for '{fun}' not found: {m}"),
        Fault::Command(m) => format!("ERROR: {m}"),
        Fault::Invocation(m) => format!("ERROR executing '{fun}': {m}"),
        Fault::Type(m) => format!("Passed invalid arguments to {fun}: {m}\n{}", function.doc),
        Fault::Raised(class, m) if m.is_empty() => format!("{TRACEBACK}{class}\n"),
        Fault::Raised(class, m) => format!("{TRACEBACK}{class}: {m}\n"),
    };
    error(text.into(), fault)
}

fn not_available(fun: &str) -> Outcome {
    let text = format!("'{fun}' is not available.");
    let mut docs = sys::docs(&format!("{fun}*"));
    let fault = Fault::Missing(text.clone());
    if docs.is_empty() {
        return error(text.into(), fault);
    }
    docs.set(fun, text);
    error(docs.into(), fault)
}

fn error(ret: Value, fault: Fault) -> Outcome {
    Outcome {
        ret,
        retcode: 1,
        success: false,
        out: Some("nested".to_owned()),
        fault: Some(fault),
    }
}

#[cfg(test)]
mod tests;
