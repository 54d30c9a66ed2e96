//! Gateways: agents that speak other protocols, managed by the same master.
//!
//! A gateway listens to the event bus and acts as a client, like an engine: it receives `salt/job/<jid>/new`, picks
//! the ids that are its own, speaks their protocol to them, and stores returns like those of any minion. The core
//! knows no foreign protocol. Agents have minion ids, keys in the one key store and grains in the one cache, so
//! targets, `halite-key`, the job cache and access control work on them unchanged.
//!
//! A gateway consists of a row of type [`Gateway`] and a [`frame::Protocol`]; [`frame`] does the rest.

pub mod agent_keys;
pub mod answer;
pub mod clock;
mod duty;
pub mod frame;
pub mod key_files;
pub mod master_events;
pub mod writer;

use frame::{Frame, Protocol};
use halite_client::runner::Function;
use halite_config::MasterConfig;
use halite_master::roles::Roles;
use halite_sys::exit::ExitError;
use halite_sys::shared::SharedSecret;
use halite_sys::signals::StopFlag;

/// A gateway: a role of the master that speaks a foreign protocol.
pub struct Gateway {
    /// Its name in the option `gateways` and below `cachedir/gateways`.
    pub name: &'static str,
    /// The name of its role.
    pub role: &'static str,
    /// Builds the [`Protocol`]: binds its port or connects to its broker.
    pub start: Start,
    /// Reports what is wrong with the files it needs. The master runs all the same, without this gateway.
    pub fault: fn(&MasterConfig) -> Option<String>,
    /// The runner functions that it adds.
    pub runners: &'static [Function],
}

/// The function that starts a gateway.
pub type Start =
    for<'scope, 'env> fn(&Frame<'scope, 'env>) -> Result<Box<dyn Protocol + 'scope>, ExitError>;

/// What is wrong with the files that the gateways need.
pub fn faults(gateways: &[Gateway], config: &MasterConfig) -> Vec<String> {
    gateways.iter().filter_map(|g| (g.fault)(config)).collect()
}

/// Runs the role of a gateway; `None` if no gateway has this role.
pub fn run_role(
    gateways: &[Gateway],
    role: &str,
    config: &MasterConfig,
) -> Option<Result<(), ExitError>> {
    let gateway = gateways.iter().find(|g| g.role == role)?;
    // A gateway has no use for the key that encrypts publications.
    drop(SharedSecret::inherited());
    let stop = StopFlag::install().map_err(ExitError::from);
    Some(stop.and_then(|stop| frame::run(gateway, config, &Roles::inherited(), &stop)))
}
