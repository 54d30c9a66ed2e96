//! EventPublisher.
//!
//! Owns the event bus: binds `master_event_pull.ipc` (from roles, runners, tools) and `master_event_pub.ipc`
//! (to every listener), both Unix streams. No keys, no state.
//!
//! On failure: its successor binds the same paths; listeners and firing roles reconnect. Listeners miss the
//! events in between; returns are not lost, as they are in the job cache before their event is fired.

use super::events::LARGEST_EVENT;
use super::roles::Roles;
use super::score::Score;
use halite_config::MasterConfig;
use halite_ipc::Framing;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_transport::bus::{BusHandle, BusOptions, BusServer};
use halite_wire::{Map, Value};
use std::os::fd::AsFd;
use std::time::Duration;

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    let defaults = BusOptions::default();
    let options = BusOptions {
        framing: if config.bus_prefixed() {
            Framing::Prefixed
        } else {
            Framing::Bare
        },
        stamp: config.salt_series.stamp_style(),
        queue_frames: config.event_queue_limit as usize,
        max_event_size: LARGEST_EVENT,
        queue_bytes: match config.ipc_write_buffer {
            0 => defaults.queue_bytes,
            octets => octets as usize,
        },
        once: config.cluster().map(|_| is_return as fn(&str) -> bool),
        ..defaults
    };
    let mut server = BusServer::bind(&config.event_pull(), &config.event_pub(), options)
        .map_err(|e| ExitError::new(super::reqserver::EXIT_BIND, e.to_string()))?;
    roles.ready();
    publish_counters(server.handle());
    server.run(Some(stop.descriptor()?.as_fd()))?;
    log::debug!("event bus: {:?}", server.counters());
    Ok(())
}

/// Whether this is the event of a return. In a cluster the same return may come from the minion and from another master.
fn is_return(tag: &str) -> bool {
    let job = tag.strip_prefix("salt/job/");
    job.and_then(|job| job.split_once('/'))
        .is_some_and(|(_, what)| what.starts_with("ret/"))
}

/// Most listeners with losses that are listed one by one; the size of a scoreboard slot is limited.
const TOLD_APART: usize = 50;

/// Publishes the counters from a thread: the loop of the bus sleeps while nothing happens.
fn publish_counters(bus: BusHandle) {
    let mut score = Score::inherited("event");
    std::thread::spawn(move || {
        loop {
            score.tick(|| counters(&bus));
            std::thread::sleep(Duration::from_millis(500));
        }
    });
}

fn counters(bus: &BusHandle) -> Map {
    let c = bus.counters();
    let mut lossy: Vec<_> = bus
        .listeners()
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .collect();
    lossy.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    lossy.truncate(TOLD_APART);
    let lossy: Map = lossy
        .into_iter()
        .map(|(pid, n)| (Value::from(pid), n))
        .collect();
    halite_wire::map! {
        "events" => c.events_in, "frames" => c.frames_out, "dropped" => c.dropped,
        "listeners" => c.subscribers, "senders" => c.publishers,
        "bad" => c.bad_frames + c.bad_events + c.oversized, "refused" => c.refused,
        "repeated" => c.repeated,
        "lossy" => lossy,
    }
}
