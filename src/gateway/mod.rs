//! Gateways: agents of other protocols under the same master.
//!
//! A gateway is a listener of the event bus and a client, as an engine is: it hears `salt/job/<jid>/new`, picks
//! the ids that are its own, speaks their protocol to them, and hands in returns as any minion's. The
//! core knows no foreign protocol. Agents have minion ids, keys in the one key store and grains in the
//! one cache, so that targets, `halite-key`, the job cache and access control need no second version.

mod answer;
pub mod arena;
mod clerk;
mod clock;
pub mod collective;
pub mod federation;
mod key_files;
mod ledger;
mod news;
pub mod sysinspect;

use crate::config::MasterConfig;
use crate::master::roles::{RoleError, Roles};
use crate::sys::shared::SharedSecret;
use crate::sys::signals::StopFlag;

/// What a gateway's role runs.
type Run = fn(&MasterConfig, &Roles, &StopFlag) -> Result<(), RoleError>;

/// The gateways by role name.
const GATEWAYS: &[(&str, Run)] = &[
    (arena::ROLE, arena::run),
    (collective::ROLE, collective::run),
    (sysinspect::ROLE, sysinspect::run),
];

/// What is wrong with what gateways are to read. The master serves all the same, without them.
pub fn faults(config: &MasterConfig) -> Vec<String> {
    let all = [arena::fault(config), collective::fault(config)];
    all.into_iter().flatten().collect()
}

/// Runs a gateway's role; `None` if `role` is none.
pub fn run_role(role: &str, config: &MasterConfig) -> Option<Result<(), RoleError>> {
    let (_, run) = GATEWAYS.iter().find(|(name, _)| *name == role)?;
    // The key of publications is no business of a gateway.
    drop(SharedSecret::inherited());
    let stop = StopFlag::install().map_err(RoleError::from);
    Some(stop.and_then(|stop| run(config, &Roles::inherited(), &stop)))
}
