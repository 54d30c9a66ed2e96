//! Several masters that act as one, over NATS JetStream (docs/cluster.md).
//!
//! Files stay each master's truth; NATS carries changes. One role, [`role`], is the only process that knows of NATS. It is a
//! loop around deciders without IO: [`sync`] for keys, [`lease`] for the leader, [`claims`] for what the schedule starts. [`jobs`] has what masters
//! tell each other about jobs, [`data`] what about minions ([`agents`]: of gateways), [`events`] what happens on
//! their buses, [`members`] who is there, [`presence`] which minions are at each, [`resync`] what one lacks ([`letter`]),
//! [`progress`] whether it is told the same as the others. [`pieces`] seals it.

pub mod agents;
pub mod check;
pub mod claims;
pub mod data;
pub mod digest;
pub mod events;
pub mod feed;
pub mod jobs;
pub mod join;
pub mod key_files;
pub mod lease;
pub mod letter;
pub mod link;
mod lost;
pub mod members;
pub mod memory;
pub mod pieces;
pub mod presence;
pub mod progress;
pub mod record;
pub mod resync;
pub mod role;
pub mod runners;
pub mod seal;
pub mod sync;

#[cfg(test)]
mod random;

use halite_config::MasterConfig;
use halite_master::roles::{CLUSTER, JOIN, Roles};
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;

/// Runs the role; `None` if it is another one.
pub fn run_role(role: &str, config: &MasterConfig) -> Option<Result<(), ExitError>> {
    let cluster = config
        .cluster()
        .filter(|_| [CLUSTER, JOIN].contains(&role))?;
    if role == JOIN {
        return Some(join::run(config, &cluster));
    }
    let stop = StopFlag::install().map_err(ExitError::from);
    Some(stop.and_then(|stop| role::run(config, &cluster, &Roles::inherited(), &stop)))
}
