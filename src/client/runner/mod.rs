//! Runners: functions that run on the master's host, called by `halite-run` in its own process, or through the
//! master in a process for each ([`process`]).
//!
//! There is one table of functions, and Python files of users ([`crate::python`]). Each run fires `salt/run/<jid>/new` and `ret` and is
//! stored in the job cache, as in Salt (reference `salt-local.md` 2.4, 10.1).

mod batch;
mod cache;
mod config;
mod doc;
mod event;
mod fileserver;
mod fleet;
pub mod in_python;
mod jobs;
mod launch;
mod manage;
mod matching;
mod mine;
mod network;
mod orchestrate;
mod pause;
mod pillar;
pub mod process;
pub mod query;
mod queue;
pub mod reactor;
mod salt;
mod saltutil;
mod sdb;
mod survey;
mod test;

pub use crate::call::{Args, ArgsError, RunError, not_available};
pub use launch::{Launch, Run, run, run_as};
pub use salt::command;

use super::local::LocalClient;
use super::python::Python;
use halite_config::MasterConfig;
use halite_store::Stores;
use halite_sys::signals::StopFlag;
use halite_wire::{Map, Value};
use std::sync::OnceLock;

/// The result of a runner.
#[derive(Debug, PartialEq)]
pub struct RunnerOutput {
    /// The value.
    pub value: Value,
    /// The outputter to use instead of `nested`.
    pub out: Option<String>,
}

impl From<Value> for RunnerOutput {
    fn from(value: Value) -> RunnerOutput {
        RunnerOutput { value, out: None }
    }
}

impl RunnerOutput {
    /// In the form used in events and the job cache: with an outputter, a map of both.
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

/// The context of runner functions.
pub struct RunContext<'a> {
    /// The master's configuration.
    pub config: MasterConfig,
    /// The master's stores.
    pub stores: Stores,
    /// Set by Ctrl-C.
    pub stop: StopFlag,
    /// Shows tag and data of an event at once, pretty-printed or on one line.
    pub show: &'a mut dyn FnMut(&str, &Value, bool),
    /// The current run: its jid, events and exit status.
    pub run: Run,
    /// How many runners called each other before this one, in the same process.
    pub depth: usize,
}

impl<'a> RunContext<'a> {
    /// A context for the master described by `config`. Nothing is printed except by `show`; a command line sets
    /// [`Run::printer`].
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
            depth: 0,
        }
    }

    /// A client of the master.
    pub fn client(&self) -> LocalClient {
        LocalClient::new(self.config.clone())
    }

    /// Fires `salt/run/<jid>/progress`; also shown on a command line.
    pub fn progress(&mut self, data: Map) {
        let data = self.run.fire("progress", data);
        let shown = halite_wire::map! {"suffix" => "progress", "event" => data};
        self.run.print(&Value::Map(shown));
    }

    /// Prints a line on a command line: what a function of Salt prints in addition to its result.
    pub fn text(&mut self, text: &str) {
        self.run.text(text);
    }
}

/// Why a run failed that returned something, in one line, for a log: what states failed first. `None` if it was good.
pub fn failure(ran: &RunnerOutput, retcode: i64) -> Option<String> {
    if retcode == 0 {
        return None;
    }
    let first = |text: &str| text.trim().lines().next().unwrap_or_default().to_owned();
    let data = ran.value.as_map().and_then(|map| map.get("data")?.as_map());
    let mut told = Vec::new();
    for (_, results) in data.into_iter().flat_map(Map::iter) {
        match results {
            Value::Map(states) => told.extend(states.iter().filter_map(|(_, state)| {
                let state = state.as_map()?;
                let bad = state.get("result") == Some(&Value::Bool(false));
                let text = |key| state.str(key).unwrap_or_default();
                bad.then(|| {
                    format!(
                        "{} of {}: {}",
                        text("__id__"),
                        text("__sls__"),
                        first(text("comment"))
                    )
                })
            })),
            errors => told.extend(errors.str_list().iter().map(|error| first(error))),
        }
    }
    Some(match told.as_slice() {
        [] => format!("it failed with status {retcode}"),
        [one] => format!("it failed: {one}"),
        [one, others @ ..] => format!("it failed: {one} (and {} more)", others.len()),
    })
}

/// A runner function.
#[derive(Clone, Copy)]
pub struct Function {
    /// `module.function`.
    pub name: &'static str,
    /// Arguments as displayed to users; a leading `?` marks an optional one, `*` further positional ones, `**`
    /// any keyword.
    pub args: &'static [&'static str],
    /// Its description.
    pub doc: &'static str,
    /// Runs it.
    pub run: fn(&mut RunContext, &Args) -> Result<RunnerOutput, RunError>,
}

impl Function {
    /// The arguments as displayed to users.
    pub fn usage(&self) -> String {
        crate::call::usage(self.args)
    }
}

/// Kinds of modules that a master syncs from its file server (`_runners`, `_modules`, ...), without the
/// underscore.
pub fn extension_kinds() -> impl Iterator<Item = &'static str> {
    saltutil::ALL.iter().map(|(_, form)| *form)
}

/// Functions of crates that depend on this one, such as those of a gateway.
static FURTHER: OnceLock<Vec<&'static [Function]>> = OnceLock::new();

/// Adds functions of crates that depend on this one to the table. A program calls it once, before it looks up a
/// function; further calls have no effect.
pub fn add(tables: Vec<&'static [Function]>) {
    FURTHER.get_or_init(|| tables);
}

/// Every runner function.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    let further = FURTHER.get().map_or(&[][..], Vec::as_slice);
    [
        batch::FUNCTIONS,
        cache::FUNCTIONS,
        config::FUNCTIONS,
        doc::FUNCTIONS,
        event::FUNCTIONS,
        fleet::FUNCTIONS,
        fileserver::FUNCTIONS,
        jobs::FUNCTIONS,
        manage::FUNCTIONS,
        matching::FUNCTIONS,
        mine::FUNCTIONS,
        network::FUNCTIONS,
        orchestrate::FUNCTIONS,
        pause::FUNCTIONS,
        pillar::FUNCTIONS,
        queue::FUNCTIONS,
        reactor::FUNCTIONS,
        salt::FUNCTIONS,
        saltutil::FUNCTIONS,
        sdb::FUNCTIONS,
        survey::FUNCTIONS,
        test::FUNCTIONS,
    ]
    .into_iter()
    .chain(further.iter().copied())
    .flatten()
}

/// Finds one of our own functions by name.
pub fn native(name: &str) -> Option<&'static Function> {
    functions().find(|f| f.name == name)
}

/// Finds a function by name: in Python files of users, or one of our own.
pub fn find(config: &MasterConfig, name: &str) -> Option<Function> {
    let ours = native(name);
    let python = Python::new(config);
    match python.find("runners", name, ours.is_some()) {
        Ok(Some(found)) => Some(in_python::function(found, python)),
        Ok(None) => ours.copied(),
        Err(e) => {
            log::error!("{name}: {e}");
            ours.copied()
        }
    }
}

/// The error for a function that is not there, with the reason if a Python file has one.
pub fn missing(config: &MasterConfig, name: &str) -> RunError {
    let python = Python::new(config);
    if let Err(why) = python.find("runners", name, false) {
        return why;
    }
    let reason = python.reason("runners", name);
    reason.map_or_else(|| not_available(name), RunError::Unknown)
}

/// Whether there is a function of this name, one of ours or in Python.
pub fn exists(config: &MasterConfig, name: &str) -> bool {
    native(name).is_some()
        || matches!(
            Python::new(config).find("runners", name, false),
            Ok(Some(_))
        )
}

/// Every function, with those of users' Python files.
pub fn all_functions(config: &MasterConfig) -> Vec<Function> {
    let mut all: Vec<Function> = Python::new(config)
        .all("runners")
        .into_iter()
        .map(in_python::of_table)
        .collect();
    for one in functions() {
        if !all.iter().any(|other| other.name == one.name) {
            all.push(*one);
        }
    }
    all.sort_by_key(|function| function.name);
    all
}
