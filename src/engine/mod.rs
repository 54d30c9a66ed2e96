//! Role processes that listen to the event bus and act as clients of their own master.
//!
//! The supervisor starts them like all roles; each only where the configuration asks for it
//! ([`crate::master::roles::RoleInfo::wanted`]).

pub mod reactor;
pub mod scheduler;

use crate::config::MasterConfig;
use crate::master::roles::{RoleError, Roles};
use crate::sys::signals::StopFlag;

/// Runs an engine's role; `None` if `role` is none.
pub fn run_role(role: &str, config: &MasterConfig) -> Option<Result<(), RoleError>> {
    let run: fn(&MasterConfig, &Roles, &StopFlag) -> Result<(), RoleError> = match role {
        "reactor" => reactor::run,
        "scheduler" => scheduler::run,
        _ => return None,
    };
    Some(StopFlag::install().map_err(RoleError::from).and_then(|stop| {
        let roles = Roles::inherited();
        run(config, &roles, &stop)
    }))
}
