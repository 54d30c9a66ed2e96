//! The process of one runner started through the master, or by `halite-run` with `--async`: the call is read
//! from standard input, the result goes to the bus and the job cache.

use super::{Launch, RunContext, RunError, run_as};
use halite_config::MasterConfig;
use halite_master::functions::{Call, RUNNER_ROLE};
use halite_sys::logging::{Field, set_process_fields};
use halite_sys::process::RoleSpec;
use halite_sys::signals::StopFlag;
use halite_sys::slots::Slots;
use std::io::{self, Read};

/// Largest call in bytes; the request that contained it is smaller.
const LARGEST: u64 = 256 << 20;

/// Runs the role; returns the exit status. It waits while `runner_processes` runners are executing.
pub fn run(config: MasterConfig) -> i32 {
    let mut order = Vec::new();
    let read = io::stdin().lock().take(LARGEST).read_to_end(&mut order);
    let call = match read.map(|_| Call::from_bytes(&order)) {
        Ok(Some(call)) => call,
        _ => {
            log::error!("a runner process got no call; only the master may start this role");
            return 64;
        }
    };
    set_process_fields(&[(Field::Jid, call.jid.as_str()), (Field::Fun, &call.fun)]);
    let stop = StopFlag::install().unwrap_or_default();
    let slots = Slots::new(config.running_runners(), config.runner_processes);
    let slot = slots.wait(&|| stop.is_set());
    if let Err(e) = &slot {
        log::warn!("cannot count the executing runners: {e}");
    }
    let in_time = !matches!(slot, Ok(None));
    let mut show = |_: &str, _: &halite_wire::Value, _: bool| {};
    let function = super::find(&config, &call.fun);
    let mut context = RunContext::new(config, stop, &mut show);
    let launch = Launch {
        jid: call.jid,
        user: call.user,
        keep: true,
    };
    let args = if in_time {
        Ok(call.args)
    } else {
        Err(RunError::Raised(
            "SystemExit".into(),
            "the runner was stopped while it was queued".into(),
        ))
    };
    match run_as(&mut context, &call.fun, function.as_ref(), args, &launch) {
        Ok(ran) => {
            if let Some(why) = super::failure(&ran, context.run.retcode) {
                log::error!("runner {}, jid {}: {why}", call.fun, launch.jid);
            }
            0
        }
        Err(e) => {
            log::error!("runner {}, jid {}: {e}", call.fun, launch.jid);
            1
        }
    }
}

/// Starts such a process from a command line.
///
/// # Errors
/// The program cannot be started.
pub fn start(call: &Call) -> io::Result<()> {
    RoleSpec {
        role: RUNNER_ROLE.to_owned(),
        title: format!("halite-run {} {}", call.fun, call.jid),
        env: Vec::new(),
    }
    .spawn_detached(&call.to_bytes())
    .map(drop)
}
