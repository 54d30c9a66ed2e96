//! Role processes that listen to the event bus and act as clients of their own master.
//!
//! The supervisor starts them like all roles, each only where the configuration asks for it
//! ([`crate::master::roles::RoleInfo::wanted`]).

pub mod metrics;
pub mod returner;

use crate::config::MasterConfig;
use crate::master::roles::{RoleError, Roles};
use crate::sys::signals::StopFlag;

/// What an engine's role runs.
type Run = fn(&MasterConfig, &Roles, &StopFlag) -> Result<(), RoleError>;

/// The engines by role name.
const ENGINES: &[(&str, Run)] = &[("metrics", metrics::run), ("returner", returner::run)];

/// Runs an engine's role; `None` if `role` is none.
pub fn run_role(role: &str, config: &MasterConfig) -> Option<Result<(), RoleError>> {
    let (_, run) = ENGINES.iter().find(|(name, _)| *name == role)?;
    let stop = StopFlag::install().map_err(RoleError::from);
    Some(stop.and_then(|stop| run(config, &Roles::inherited(), &stop)))
}
