//! Runners: functions that run on the master's host, by `halite-run` in its own process or
//! through the master in a process for each ([`process`]).
//!
//! One table of functions; a name that is not in it does not exist. Each run fires
//! `salt/run/<jid>/new` and `ret` and is kept in the job cache, as Salt's are
//! (reference `salt-local.md` 2.4, 10.1).

mod cache;
mod config;
mod doc;
mod event;
mod fileserver;
mod fleet;
mod jobs;
mod launch;
mod manage;
mod mine;
mod orchestrate;
mod pause;
mod pillar;
pub mod process;
pub mod query;
mod queue;
pub mod reactor;
mod salt;
mod saltutil;
mod survey;
mod test;

pub use crate::call::{Args, ArgsError, RunError, not_available};
pub use launch::{Launch, Run, run, run_as};
pub use salt::command;

use super::local::LocalClient;
use halite_config::MasterConfig;
use halite_store::Stores;
use halite_sys::signals::StopFlag;
use halite_wire::{Map, Value};
use std::sync::OnceLock;

/// What a runner returns.
#[derive(Debug, PartialEq)]
pub struct RunnerOutput {
    /// The value.
    pub value: Value,
    /// The outputter it wants, if not nested.
    pub out: Option<String>,
}

impl From<Value> for RunnerOutput {
    fn from(value: Value) -> RunnerOutput {
        RunnerOutput { value, out: None }
    }
}

impl RunnerOutput {
    /// As an event and the job cache carry it: with an outputter, a map of both.
    pub fn to_value(&self) -> Value {
        let told = self.value.as_map().is_some_and(|m| m.contains("outputter"));
        match &self.out {
            None => self.value.clone(),
            Some(_) if told => self.value.clone(),
            Some(out) => Value::Map(halite_wire::map! {
                "outputter" => out.as_str(), "data" => self.value.clone(),
            }),
        }
    }
}

/// What runners work with.
pub struct RunContext<'a> {
    /// The master's configuration.
    pub config: MasterConfig,
    /// The master's stores.
    pub stores: Stores,
    /// Set by Ctrl-C.
    pub stop: StopFlag,
    /// Shows tag and data of an event at once, pretty or on one line.
    pub show: &'a mut dyn FnMut(&str, &Value, bool),
    /// The run at hand: its jid, its events, its exit status.
    pub run: Run,
}

impl<'a> RunContext<'a> {
    /// For the master that `config` describes. Nothing is printed but by `show`;
    /// a command line sets [`Run::printer`].
    pub fn new(
        config: MasterConfig,
        stop: StopFlag,
        show: &'a mut dyn FnMut(&str, &Value, bool),
    ) -> RunContext<'a> {
        RunContext {
            stores: Stores::open(&config),
            config,
            stop,
            show,
            run: Run::default(),
        }
    }

    /// A client of the master.
    pub fn client(&self) -> LocalClient {
        LocalClient::new(self.config.clone())
    }

    /// Fires `salt/run/<jid>/progress`; at a command line it is shown as well.
    pub fn progress(&mut self, data: Map) {
        let data = self.run.fire("progress", data);
        let shown = halite_wire::map! {"suffix" => "progress", "event" => data};
        self.run.print(&Value::Map(shown));
    }

    /// Prints a text and a line end, at a command line only: what a function of Salt prints
    /// beside what it returns.
    pub fn text(&mut self, text: &str) {
        self.run.text(text);
    }
}

/// A runner function.
pub struct Function {
    /// `module.function`.
    pub name: &'static str,
    /// Arguments as shown to the user; a leading `?` marks one with a default, `*` further
    /// positional ones, `**` any keyword.
    pub args: &'static [&'static str],
    /// What it does.
    pub doc: &'static str,
    /// Runs it.
    pub run: fn(&mut RunContext, &Args) -> Result<RunnerOutput, RunError>,
}

impl Function {
    /// The arguments as shown to a user.
    pub fn usage(&self) -> String {
        crate::call::usage(self.args)
    }
}

/// Kinds of modules that a master takes from its file server (`_runners`, `_modules`, ...), without the underscore.
pub fn extension_kinds() -> impl Iterator<Item = &'static str> {
    saltutil::ALL.iter().map(|(_, form)| *form)
}

/// Functions of crates above this one, such as those of a gateway.
static FURTHER: OnceLock<Vec<&'static [Function]>> = OnceLock::new();

/// Adds the functions of crates above this one to the table. A program calls it once, before it looks a function up; a
/// second call changes nothing.
pub fn add(tables: Vec<&'static [Function]>) {
    FURTHER.get_or_init(|| tables);
}

/// Every runner function.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    let further = FURTHER.get().map_or(&[][..], Vec::as_slice);
    [
        cache::FUNCTIONS,
        config::FUNCTIONS,
        doc::FUNCTIONS,
        event::FUNCTIONS,
        fleet::FUNCTIONS,
        fileserver::FUNCTIONS,
        jobs::FUNCTIONS,
        manage::FUNCTIONS,
        mine::FUNCTIONS,
        orchestrate::FUNCTIONS,
        pause::FUNCTIONS,
        pillar::FUNCTIONS,
        queue::FUNCTIONS,
        reactor::FUNCTIONS,
        salt::FUNCTIONS,
        saltutil::FUNCTIONS,
        survey::FUNCTIONS,
        test::FUNCTIONS,
    ]
    .into_iter()
    .chain(further.iter().copied())
    .flatten()
}

/// Finds a function by name.
pub fn find(name: &str) -> Option<&'static Function> {
    functions().find(|f| f.name == name)
}
