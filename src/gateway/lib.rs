//! Gateways: agents of other protocols under the same master.
//!
//! A gateway is a listener of the event bus and a client, as an engine is: it hears `salt/job/<jid>/new`, picks
//! the ids that are its own, speaks their protocol to them, and hands in returns as any minion's. The
//! core knows no foreign protocol. Agents have minion ids, keys in the one key store and grains in the
//! one cache, so that targets, `halite-key`, the job cache and access control need no second version.

pub mod agent_keys;
pub mod answer;
pub mod clock;
pub mod key_files;
pub mod news;
pub mod writer;

use halite_client::runner::Function;
use halite_config::MasterConfig;
use halite_master::roles::{RoleError, Roles};
use halite_sys::shared::SharedSecret;
use halite_sys::signals::StopFlag;

/// A gateway: a role of the master that speaks a foreign protocol.
pub struct Gateway {
    /// Name of its role.
    pub role: &'static str,
    /// Runs the role until it is told to stop.
    pub run: fn(&MasterConfig, &Roles, &StopFlag) -> Result<(), RoleError>,
    /// What is wrong with what it is to read; the master serves all the same, without it.
    pub fault: fn(&MasterConfig) -> Option<String>,
    /// Runner functions that come with it.
    pub runners: &'static [Function],
}

/// What is wrong with what gateways are to read.
pub fn faults(gateways: &[Gateway], config: &MasterConfig) -> Vec<String> {
    gateways.iter().filter_map(|g| (g.fault)(config)).collect()
}

/// Runs a gateway's role; `None` if `role` is none.
pub fn run_role(
    gateways: &[Gateway],
    role: &str,
    config: &MasterConfig,
) -> Option<Result<(), RoleError>> {
    let gateway = gateways.iter().find(|g| g.role == role)?;
    // The key of publications is no business of a gateway.
    drop(SharedSecret::inherited());
    let stop = StopFlag::install().map_err(RoleError::from);
    Some(stop.and_then(|stop| (gateway.run)(config, &Roles::inherited(), &stop)))
}
