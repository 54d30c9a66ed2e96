//! Engines: Python code of users that runs as long as the master (`engines`, `_engines`).
//!
//! Owns the processes of the engines, each with a thread that waits for it. Listens on `master_event_pub.ipc` for those that read
//! events; their jobs, runners and events go the way of any client's.
//!
//! On failure: the engines end with it, and its successor starts them again. One that ends is started again after ten seconds.

use crate::returner::interruptible_sleep;
use halite_client::runner::RunContext;
use halite_client::runner::in_python::Runners;
use halite_config::MasterConfig;
use halite_master::roles::Roles;
use halite_modules::execution::{Context, engines};
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use std::sync::Arc;
use std::time::Duration;

/// How often a stop is looked for.
const ROUND: Duration = Duration::from_millis(200);

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    let ctx = Context::of_master(config);
    for engine in engines::configured(&config.engines.0) {
        let (ctx, config, stop) = (ctx.clone(), config.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut show = |_: &str, _: &halite_wire::Value, _: bool| {};
            let mut context = RunContext::new(config, stop.clone(), &mut show);
            engines::keep_running(&ctx, &engine, &mut Runners::new(&mut context), |time| {
                interruptible_sleep(time, &stop);
                !stop.is_set()
            });
        });
    }
    roles.ready();
    while !stop.is_set() {
        interruptible_sleep(ROUND, stop);
    }
    Ok(())
}

/// Engines that are in no Python file.
pub(super) fn faults(config: &MasterConfig) -> Vec<String> {
    let opts = Arc::new(config.as_map());
    engines::absent(&opts, &config.engines.0, "halite-run saltutil.sync_engines")
}
