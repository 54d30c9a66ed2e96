//! Runners: functions that `halite-run` executes on the master's host, in its own process.
//!
//! One table of functions; a name that is not in it does not exist. Each run fires
//! `salt/run/<jid>/new` and `ret` and is kept in the job cache, as Salt's are
//! (reference `salt-local.md` 2.4, 10.1).

mod args;
mod event;
mod jobs;
mod manage;
mod pillar;

pub use args::{Args, BadArgs};

use super::local::{ClientError, LocalClient};
use crate::config::MasterConfig;
use crate::store::jobs::{JobStore, joblog::JobLog};
use crate::sys::signals::StopFlag;
use crate::wire::ids::{Jid, JidClock};
use crate::wire::{Map, Value};
use halite_ipc::{Event, Framing, Publisher, StampStyle};
use std::fmt;
use std::time::Duration;

/// What a runner returns.
#[derive(Debug, PartialEq)]
pub struct Ran {
    /// The value.
    pub value: Value,
    /// The outputter it wants, if not nested.
    pub out: Option<String>,
}

impl From<Value> for Ran {
    fn from(value: Value) -> Ran {
        Ran { value, out: None }
    }
}

/// Why a runner failed.
#[derive(Debug)]
pub enum RunError {
    /// Wrong arguments.
    Args(BadArgs),
    /// The master could not be asked.
    Client(ClientError),
    /// A store could not be read.
    Io(std::io::Error),
    /// What was asked for does not exist.
    Unknown(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RunError::Args(e) => e.fmt(f),
            RunError::Client(e) => e.fmt(f),
            RunError::Io(e) => e.fmt(f),
            RunError::Unknown(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for RunError {}

impl From<BadArgs> for RunError {
    fn from(e: BadArgs) -> RunError {
        RunError::Args(e)
    }
}

impl From<ClientError> for RunError {
    fn from(e: ClientError) -> RunError {
        RunError::Client(e)
    }
}

impl From<std::io::Error> for RunError {
    fn from(e: std::io::Error) -> RunError {
        RunError::Io(e)
    }
}

/// What runners work with.
pub struct RunContext<'a> {
    /// The master's configuration.
    pub config: MasterConfig,
    /// The master's job cache.
    pub jobs: JobLog,
    /// Set by Ctrl-C.
    pub stop: StopFlag,
    /// Shows tag and data of an event at once, pretty or on one line.
    pub show: &'a mut dyn FnMut(&str, &Value, bool),
}

impl RunContext<'_> {
    /// A client of the master.
    pub fn client(&self) -> LocalClient {
        LocalClient::new(self.config.clone())
    }
}

/// A runner function.
pub struct Function {
    /// `module.function`.
    pub name: &'static str,
    /// Arguments as shown to the user; a leading `?` marks one with a default.
    pub args: &'static [&'static str],
    /// What it does.
    pub doc: &'static str,
    run: fn(&mut RunContext, &Args) -> Result<Ran, RunError>,
}

impl Function {
    /// The arguments as shown to a user.
    pub fn usage(&self) -> String {
        args::usage(self.args)
    }
}

/// Every runner function.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    [
        jobs::FUNCTIONS,
        manage::FUNCTIONS,
        event::FUNCTIONS,
        pillar::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// Finds a function by name.
pub fn find(name: &str) -> Option<&'static Function> {
    functions().find(|f| f.name == name)
}

/// Runs a function with its events and its record in the job cache.
pub fn run(context: &mut RunContext, function: &Function, args: Args) -> Result<Ran, RunError> {
    args.check(function.name, function.args)?;
    let jid = JidClock::default().next();
    let mut bus = Announce::new(&context.config, &jid, function, &args);
    bus.fire("new", Map::new());
    let result = (function.run)(context, &args);
    let outcome = match &result {
        Ok(ran) => crate::map! {"return" => ran.value.clone(), "success" => true},
        Err(e) => crate::map! {"return" => e.to_string(), "success" => false, "retcode" => 1},
    };
    let record = bus.fire("ret", outcome);
    if context.config.runner_returns {
        keep(context, &jid, record);
    }
    result
}

/// The events of one run.
struct Announce {
    publisher: Option<Publisher>,
    base: Map,
    jid: Jid,
    stamp: StampStyle,
}

impl Announce {
    fn new(config: &MasterConfig, jid: &Jid, function: &Function, args: &Args) -> Announce {
        let path = config.sock_dir.join("master_event_pull.ipc");
        let stamp = config.salt_series.stamp_style();
        Announce {
            // Without a master the run goes on silently, as stock's does.
            publisher: Publisher::connect(path, Framing::Prefixed)
                .ok()
                .map(|p| p.with_timeout(Duration::from_secs(2))),
            base: crate::map! {
                "fun" => format!("runner.{}", function.name), "jid" => jid,
                "user" => crate::sys::process::user_name(), "fun_args" => args.to_value(),
            },
            jid: jid.clone(),
            stamp,
        }
    }

    fn fire(&mut self, what: &str, more: Map) -> Map {
        let mut data = self.base.clone();
        data.0.extend(more.0);
        data.set("_stamp", halite_ipc::stamp_now(self.stamp));
        if let Some(publisher) = &mut self.publisher {
            let payload =
                crate::wire::msgpack::encode_map(&data, crate::wire::msgpack::Profile::Local);
            let tag = format!("salt/run/{}/{what}", self.jid);
            if let Err(e) = publisher.fire(&Event { tag, payload }) {
                log::debug!("no event bus: {e}");
            }
        }
        data
    }
}

/// Keeps a run in the job cache under the master's id.
fn keep(context: &RunContext, jid: &Jid, record: Map) {
    let Ok(id) = context.config.id.parse() else {
        return;
    };
    let load = crate::map! {
        "fun" => record.get("fun").cloned(), "arg" => record.get("fun_args").cloned(),
        "tgt" => context.config.id.as_str(), "tgt_type" => "list", "jid" => jid,
        "user" => record.get("user").cloned(),
    };
    let mut kept = crate::map! {"id" => context.config.id.as_str()};
    kept.set("return", record);
    let minions = [context.config.id.clone()];
    let saved = context
        .jobs
        .save_load(jid, &load, &minions, &[])
        .and_then(|()| context.jobs.save_return(jid, &id, &kept));
    if let Err(e) = saved {
        log::warn!("this run could not be kept in the job cache: {e}");
    }
}
