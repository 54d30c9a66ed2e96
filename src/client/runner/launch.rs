//! Execution of a runner: events, the file below `proc/`, the record in the job cache (`salt/client/mixins.py
//! SyncClientMixin.low`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::call::{RunEvents, keep};
use crate::local::calling_user;
use halite_config::MasterConfig;
use halite_render::state::result::check_result;
use halite_sys::daemon::write_atomic;
use halite_wire::ids::{Jid, JidClock};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::path::PathBuf;

/// Identity of a run.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The job id.
    pub jid: Jid,
    /// The calling user.
    pub user: String,
    /// Whether to store the result in the job cache.
    pub keep: bool,
}

impl Launch {
    /// A run of the current account, with a new jid.
    pub fn by_current_user(config: &MasterConfig) -> Launch {
        let jid = JidClock::default().next();
        Launch {
            jid: if config.unique_jid {
                jid.with_pid(std::process::id())
            } else {
                jid
            },
            user: calling_user(),
            keep: config.runner_returns,
        }
    }
}

/// Shows a value to the user before the run is finished.
pub type Printer = Box<dyn FnMut(&Value)>;

/// The current run.
#[derive(Default)]
pub struct Run {
    /// Its jid; `None` before the first run.
    pub jid: Option<Jid>,
    /// The function.
    pub fun: String,
    /// The calling user.
    pub user: String,
    /// Salt's `__context__["retcode"]`: anything but 0 makes the run a failure.
    pub retcode: i64,
    /// Shows values at once, on a command line.
    pub printer: Option<Printer>,
    pub(super) bus: Option<RunEvents>,
}

impl Run {
    /// Fires `salt/run/<jid>/<what>` with a time stamp; returns the data as fired. Without a master nothing is
    /// fired, as in stock.
    pub fn fire(&mut self, what: &str, mut data: Map) -> Map {
        let Some(bus) = &self.bus else {
            return data;
        };
        data.set("_stamp", halite_ipc::stamp_now(bus.stamp()));
        bus.fire(what, &data);
        data
    }

    pub(super) fn print(&mut self, value: &Value) {
        if let Some(printer) = &mut self.printer {
            printer(value);
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.printer.is_some() {
            println!("{text}");
        }
    }
}

/// Runs a function as the current account, with its events and its record.
///
/// # Errors
/// The error of the function.
pub fn run(
    context: &mut RunContext,
    function: &Function,
    args: Args,
) -> Result<RunnerOutput, RunError> {
    let launch = Launch::by_current_user(&context.config);
    run_as(context, function.name, Some(function), Ok(args), &launch)
}

/// Runs `function` under a jid and user chosen by the caller. Unknown functions and wrong arguments get a `ret`
/// event and a record like any other failure.
///
/// # Errors
/// The error of the function.
pub fn run_as(
    context: &mut RunContext,
    name: &str,
    function: Option<&Function>,
    args: Result<Args, RunError>,
    launch: &Launch,
) -> Result<RunnerOutput, RunError> {
    let fresh = Run {
        jid: Some(launch.jid.clone()),
        fun: name.to_owned(),
        user: launch.user.clone(),
        retcode: 0,
        printer: context.run.printer.take(),
        bus: Some(match &context.run.bus {
            Some(outer) => outer.of_inner(&launch.jid),
            None => RunEvents::open(&context.config, "run", &launch.jid),
        }),
    };
    // A runner may call another one; the outer one's state is restored afterwards.
    let outer = std::mem::replace(&mut context.run, fresh);
    let mut data = halite_wire::map! {
        "fun" => format!("runner.{name}"), "jid" => &launch.jid, "user" => launch.user.as_str(),
    };
    let result = execute(context, name, function, args, &mut data);
    match &result {
        Ok(ran) => {
            let value = ran.to_value();
            data.set(
                "success",
                context.run.retcode == 0 && looks_successful(&value),
            );
            data.set("return", value);
        }
        Err(e) => {
            data.set("return", e.event_text("runner", name));
            data.set("success", false);
            data.set("retcode", 1);
        }
    }
    let data = context.run.fire("ret", data);
    if launch.keep {
        keep(&context.config, &*context.stores.jobs, &launch.jid, data);
    }
    let inner = std::mem::replace(&mut context.run, outer);
    context.run.printer = inner.printer;
    context.run.retcode = inner.retcode;
    result
}

fn execute(
    context: &mut RunContext,
    name: &str,
    function: Option<&Function>,
    args: Result<Args, RunError>,
    data: &mut Map,
) -> Result<RunnerOutput, RunError> {
    let function = function.ok_or_else(|| super::missing(&context.config, name))?;
    let args = args?;
    args.check(function.name, function.args)?;
    data.set("fun_args", args.to_value());
    *data = context.run.fire("new", std::mem::take(data));
    let _listed = ProcFile::new(&context.config, data);
    (function.run)(context, &args)
}

/// A map with states below `data` is successful if they are (`salt/utils/state.py check_result`).
fn looks_successful(value: &Value) -> bool {
    match value.as_map().and_then(|m| m.get("data")) {
        Some(data) => check_result(data, false),
        None => true,
    }
}

/// The file `cachedir/proc/<jid>` during a run, which `jobs.master` reads.
struct ProcFile(PathBuf);

impl ProcFile {
    fn new(config: &MasterConfig, data: &Map) -> Option<ProcFile> {
        let path = config.runner_jobs().join(data.str("jid")?);
        let mut data = data.clone();
        data.set("pid", i64::from(std::process::id()));
        let bytes = msgpack::encode_map(&data, Profile::Local);
        write_atomic(&path, &bytes, 0o600)
            .inspect_err(|e| log::debug!("{}: {e}", path.display()))
            .ok()?;
        Some(ProcFile(path))
    }
}

impl Drop for ProcFile {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_file(&self.0) {
            log::debug!("{}: {e}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_below_data_decide() {
        let state = |result: Value| halite_wire::map! {"result" => result};
        let of = |states: Map| {
            looks_successful(&Value::Map(
                halite_wire::map! {"outputter" => "highstate", "data" => states},
            ))
        };
        assert!(of(
            halite_wire::map! {"m" => halite_wire::map! {"a" => state(true.into())}}
        ));
        assert!(of(
            halite_wire::map! {"m" => halite_wire::map! {"a" => state(Value::Nil)}}
        ));
        assert!(!of(
            halite_wire::map! {"m" => halite_wire::map! {"a" => state(false.into())}}
        ));
        assert!(!of(halite_wire::map! {"m" => "no state"}));
        assert!(looks_successful(&Value::Bool(false)));
    }
}
