//! Roles that listen to the event bus and act as clients of their own master.
//!
//! The supervisor starts them like all roles, each only if the configuration asks for it
//! ([`halite_master::roles::RoleInfo::is_enabled`]).

mod batch;
mod claims;
pub mod metrics;
mod python_engines;
mod reactor;
pub mod returner;
mod scheduler;

use halite_config::MasterConfig;
use halite_master::roles::Roles;
use halite_sys::exit::ExitError;
use halite_sys::shared::SharedSecret;
use halite_sys::signals::StopFlag;

/// The function that runs an engine's role.
type Run = fn(&MasterConfig, &Roles, &StopFlag) -> Result<(), ExitError>;

/// The engines by role name.
const ENGINES: &[(&str, Run)] = &[
    ("batch", batch::run),
    ("engines", python_engines::run),
    ("metrics", metrics::run),
    ("reactor", reactor::run),
    ("returner", returner::run),
    ("scheduler", scheduler::run),
];

/// Faulty entries of the options `schedule`, `reactor`, `event_return` and `engines`. The master runs without them.
pub fn faults(config: &MasterConfig) -> Vec<String> {
    let mut out = scheduler::faults(config);
    out.extend(reactor::faults(config));
    out.extend(returner::python_events::faults(config));
    out.extend(python_engines::faults(config));
    out
}

/// Runs an engine's role; `None` if `role` is not an engine.
pub fn run_role(role: &str, config: &MasterConfig) -> Option<Result<(), ExitError>> {
    let (_, run) = ENGINES.iter().find(|(name, _)| *name == role)?;
    // Engines and the programs they start must not have the key of publications.
    drop(SharedSecret::inherited());
    let stop = StopFlag::install().map_err(ExitError::from);
    Some(stop.and_then(|stop| run(config, &Roles::inherited(), &stop)))
}

/// Creates a returner without connecting it.
#[cfg(feature = "databases")]
fn open_returner(opener: &halite_returners::Opener) -> Box<dyn halite_returners::Store> {
    halite_databases::open(opener)
}

/// Creates a returner without connecting it.
#[cfg(not(feature = "databases"))]
fn open_returner(opener: &halite_returners::Opener) -> Box<dyn halite_returners::Store> {
    use halite_returners::helper::Helper;
    halite_returners::open(opener, |opener, _| Box::new(Helper::new(opener)))
}
