//! The beacons of the minion and the thread that looks for them. What the daemon does with them is in `daemon/beacons.rs`.

use halite_config::MinionConfig;
use halite_modules::beacons::{BeaconPoller, Beacons};
use halite_wire::Value;

/// The beacons, and who looks for them.
pub struct Lookout {
    /// When which looks.
    pub beacons: Beacons,
    /// At home unless it looks.
    pub(super) watcher: Option<BeaconPoller>,
}

/// What came of a look.
pub struct Seen {
    pub(super) watcher: BeaconPoller,
    pub(super) events: Vec<Value>,
}

impl Lookout {
    /// As configured.
    pub fn new(config: &MinionConfig) -> Lookout {
        Lookout {
            beacons: Beacons::new(&config.beacons, config.loop_interval),
            watcher: Some(BeaconPoller::default()),
        }
    }
}
