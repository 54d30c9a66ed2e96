//! EventPublisher.
//!
//! Owns the event bus: binds `master_event_pull.ipc` (from roles, runners, tools) and
//! `master_event_pub.ipc` (to every listener), both Unix streams. No keys, no state.
//!
//! When it fails: its successor binds the same paths; listeners and firing roles connect
//! again. Events between are lost to listeners, returns are not: they are in the job cache
//! before their event is fired.

use super::roles::{RoleError, Roles};
use crate::config::MasterConfig;
use crate::sys::signals::StopFlag;
use crate::transport::bus::{BusOptions, BusServer};
use halite_ipc::Framing;

/// Runs the role until it is told to stop.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let options = BusOptions {
        framing: framing(&config.event_bus_framing, &config.salt_series),
        queue_frames: config.event_queue_limit,
        max_event_size: config.max_event_size.max(16 << 20),
        ..BusOptions::default()
    };
    let mut server = BusServer::bind(
        &config.sock_dir.join("master_event_pull.ipc"),
        &config.sock_dir.join("master_event_pub.ipc"),
        options,
    )?;
    roles.ready();
    server.run(stop.shared())?;
    log::info!("event bus: {:?}", server.counters());
    Ok(())
}

/// The framing that listeners of a Salt series expect (reference `salt-local.md` 1.2).
pub(crate) fn framing(option: &str, series: &str) -> Framing {
    match (option, series) {
        ("prefixed", _) | ("auto", "3006") => Framing::Prefixed,
        _ => Framing::Bare,
    }
}
