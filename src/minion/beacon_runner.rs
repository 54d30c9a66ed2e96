//! The minion's beacons and the thread that polls them. The daemon's side is in `daemon/beacons.rs`.

use halite_config::MinionConfig;
use halite_modules::beacons::{BeaconPoller, Beacons};
use halite_wire::Value;

/// The beacons and their poller.
pub struct BeaconRunner {
    /// Schedule of each beacon.
    pub beacons: Beacons,
    /// `None` while it is polling in a thread.
    pub(super) watcher: Option<BeaconPoller>,
}

/// The result of a poll.
pub struct PollResult {
    pub(super) watcher: BeaconPoller,
    pub(super) events: Vec<Value>,
}

impl BeaconRunner {
    /// The beacons from the configuration.
    pub fn new(config: &MinionConfig) -> BeaconRunner {
        BeaconRunner {
            beacons: Beacons::new(&config.beacons, config.loop_interval),
            watcher: Some(BeaconPoller::default()),
        }
    }
}
