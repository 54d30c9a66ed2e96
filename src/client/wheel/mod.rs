//! Wheel functions: keys, configuration and files of the master, for clients that call them through the master
//! (`salt/wheel/`; reference `salt-local.md` 10.2).
//!
//! There is one table of functions, and Python files of users ([`crate::python`]). A worker of the master executes them itself, so that
//! the result is the answer.

mod config;
mod files;
mod key;
mod other;
mod roots;

use crate::call::{self, Args, RunError, RunEvents, keep};
use crate::python::{Master, Python, call_at};
use halite_config::{MasterConfig, SaltSeries};
use halite_master::functions::Call;
use halite_python::{PythonError, Service};
use halite_sys::signals::StopFlag;
use halite_wire::{Map, Value};
use std::time::Duration;

/// Seconds of `request_timeout` that remain for the answer of a function in Python.
const RESERVE: u64 = 5;

/// The context of wheel functions.
pub struct WheelContext<'a> {
    /// The master's configuration.
    pub config: &'a MasterConfig,
}

/// A wheel function.
pub struct Function {
    /// `module.function`.
    pub name: &'static str,
    /// Arguments, in the form of [`crate::runner::Function::args`].
    pub args: &'static [&'static str],
    /// Its description.
    pub doc: &'static str,
    run: fn(&WheelContext, &Args) -> Result<Value, RunError>,
}

impl Function {
    /// The arguments as displayed to users.
    pub fn usage(&self) -> String {
        call::usage(self.args)
    }
}

/// All wheel functions.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    [
        config::FUNCTIONS,
        other::FUNCTIONS,
        files::FUNCTIONS,
        key::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// What a wheel function in Python may ask for.
struct Wheel(Master);

impl Service for Wheel {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        match what {
            "wheel" => Ok(answer(&self.0.config, &call_at(args)).into()),
            _ => self.0.ask(what, args),
        }
    }
}

/// Whether there is a function of this name, one of ours or in Python.
pub fn exists(config: &MasterConfig, name: &str) -> bool {
    find(name).is_some() || matches!(Python::new(config).find("wheel", name, false), Ok(Some(_)))
}

/// Finds one of our own functions by name.
pub fn find(name: &str) -> Option<&'static Function> {
    functions().find(|f| f.name == name)
}

/// Runs a function by name; its value, and whether it has succeeded.
///
/// # Errors
/// There is no such function, the arguments are wrong, or it fails.
pub fn run(config: &MasterConfig, name: &str, args: &Args) -> Result<(Value, bool), RunError> {
    let ours = find(name);
    // A worker runs it, which is ended when a request takes too long.
    let limit = config.request_timeout.saturating_sub(RESERVE).max(1);
    let python = Python::new(config).within(Duration::from_secs(limit));
    if python.find("wheel", name, ours.is_some())?.is_some() {
        let master = Master::new(config, &StopFlag::default());
        let (value, retcode) = python.call("wheel", name, args, Map::new(), &mut Wheel(master))?;
        return Ok((value, retcode == 0));
    }
    let function = ours.ok_or_else(|| call::not_available(name))?;
    args.check(function.name, function.args)?;
    Ok(((function.run)(&WheelContext { config }, args)?, true))
}

/// Executes a call with its events `salt/wheel/<jid>/new` and `ret` and its record in the job cache; returns
/// the client's answer: `data` in addition to the names of the call.
///
/// The fields of events differ: 3008 fires them where the function is executed, older series where the request
/// is handled (`salt/client/mixins.py SyncClientMixin.low`, `salt/master.py ClearFuncs.wheel`).
pub fn answer(config: &MasterConfig, call: &Call) -> Map {
    let bus = RunEvents::open(config, "wheel", &call.jid);
    let newer = config.salt_series == SaltSeries::S3008;
    let mut data = halite_wire::map! {"fun" => format!("wheel.{}", call.fun), "jid" => &call.jid};
    if !newer {
        data.set("tag", format!("salt/wheel/{}", call.jid));
    }
    data.set("user", call.user.as_str());
    let fire = |what: &str, data: &mut Map| {
        data.set("_stamp", halite_ipc::stamp_now(bus.stamp()));
        bus.fire(what, data);
    };
    if newer {
        data.set("fun_args", call.args.to_value());
    }
    fire("new", &mut data);
    let result = run(config, &call.fun, &call.args);
    let (value, success) = result.unwrap_or_else(|e| {
        log::info!("the wheel function {:?} failed: {e}", call.fun);
        (e.event_text("wheel", &call.fun).into(), false)
    });
    data.set("return", key::without_private_key(&call.fun, value.clone()));
    data.set("success", success);
    fire("ret", &mut data);
    let mut answer = halite_wire::map! {"return" => value, "success" => success};
    if !newer {
        answer.set("_stamp", data.get("_stamp").cloned());
    }
    let jobs = halite_store::Stores::open(config).jobs;
    keep(config, &*jobs, &call.jid, data);
    answer
}

#[cfg(test)]
mod tests;
