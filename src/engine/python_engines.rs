//! Engines: Python code of users that runs as long as the master (`engines`, `_engines`).
//!
//! Owns the processes of the engines, each with a thread that waits for it. Listens on `master_event_pub.ipc` for those that read
//! events; their jobs, runners and events go the way of any client's.
//!
//! On failure: the engines end with it, and its successor starts them again. One that ends is started again after ten seconds.

use halite_client::runner::RunContext;
use halite_client::runner::in_python::Runners;
use halite_config::MasterConfig;
use halite_master::roles::Roles;
use halite_modules::execution::{Context, engines};
use halite_python::files;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a stop is looked for.
const ROUND: Duration = Duration::from_millis(200);

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    let ctx = Context {
        id: config.id.clone(),
        opts: Arc::new(config.as_map()),
        cachedir: config.cachedir.clone(),
        ..Context::default()
    };
    for engine in engines::configured(&config.engines.0) {
        let (ctx, config, stop) = (ctx.clone(), config.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut is_known = true;
            while !stop.is_set() {
                let mut show = |_: &str, _: &halite_wire::Value, _: bool| {};
                let mut context = RunContext::new(config.clone(), stop.clone(), &mut show);
                is_known = engines::run(&ctx, &engine, is_known, &mut Runners::new(&mut context));
                sleep(engines::PAUSE, &stop);
            }
        });
    }
    roles.ready();
    while !stop.is_set() {
        sleep(ROUND, stop);
    }
    Ok(())
}

/// Engines that are in no Python file.
pub(super) fn faults(config: &MasterConfig) -> Vec<String> {
    let opts = Arc::new(config.as_map());
    let is_there = |module: &str| files::files(&opts).is_possible(&opts, "engines", module, false);
    engines::configured(&config.engines.0)
        .into_iter()
        .filter(|engine| !is_there(&engine.module))
        .map(|engine| {
            format!(
                "engines: '{}' does not run: there is no Python file {}.py in engines_dirs or salt://_engines (halite-run saltutil.sync_engines)",
                engine.name, engine.module
            )
        })
        .collect()
}

fn sleep(time: Duration, stop: &StopFlag) {
    let end = Instant::now() + time;
    while !stop.is_set() && Instant::now() < end {
        std::thread::sleep(ROUND.min(time));
    }
}
