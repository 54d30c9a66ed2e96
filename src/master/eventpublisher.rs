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
use std::os::fd::AsFd;

/// Events are trimmed to `max_event_size` where they are made; this is what the bus itself bears.
const LARGEST_EVENT: usize = 16 << 20;

/// Runs the role until it is told to stop.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let defaults = BusOptions::default();
    let options = BusOptions {
        framing: match config.bus_prefixed() {
            true => Framing::Prefixed,
            false => Framing::Bare,
        },
        stamp: config.salt_series.stamp_style(),
        queue_frames: config.event_queue_limit as usize,
        max_event_size: LARGEST_EVENT,
        queue_bytes: match config.ipc_write_buffer {
            0 => defaults.queue_bytes,
            octets => octets as usize,
        },
        ..defaults
    };
    let mut server = BusServer::bind(
        &config.sock_dir.join("master_event_pull.ipc"),
        &config.sock_dir.join("master_event_pub.ipc"),
        options,
    )
    .map_err(|e| RoleError::new(super::reqserver::EXIT_BIND, e.to_string()))?;
    roles.ready();
    server.run(Some(stop.descriptor()?.as_fd()))?;
    log::info!("event bus: {:?}", server.counters());
    Ok(())
}
