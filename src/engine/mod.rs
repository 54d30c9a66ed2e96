//! Roles that listen to the event bus and are clients of the master: the supervisor starts
//! them like the others, and nothing that serves minions waits for them.

pub mod returner;

use crate::config::MasterConfig;
use crate::master::roles::{RoleError, Roles};
use crate::sys::signals::StopFlag;

/// What an engine does until it is told to stop.
type Run = fn(&MasterConfig, &Roles, &StopFlag) -> Result<(), RoleError>;

const ENGINES: &[(&str, Run)] = &[("returner", returner::run)];

/// Whether the role is one of these.
pub fn is_engine(role: &str) -> bool {
    ENGINES.iter().any(|(name, _)| *name == role)
}

/// Runs the engine of that name.
pub fn run(role: &str, config: &MasterConfig) -> Result<(), RoleError> {
    let stop = StopFlag::install()?;
    let inherited = Roles::inherited();
    match ENGINES.iter().find(|(name, _)| *name == role) {
        Some((_, run)) => run(config, &inherited, &stop),
        None => Err(RoleError::new(64, format!("there is no engine {role:?}"))),
    }
}
