//! The configuration of one beacon: a list of maps, or, in the old form, a single map.

use halite_wire::{Map, Value};
use std::time::Duration;

/// Keys for the scheduler of beacons, not for the beacon itself.
const SCHEDULER_KEYS: &[&str] = &[
    "_beacon_name",
    "beacon_module",
    "disable_during_state_run",
    "enabled",
    "interval",
    "run_once",
];

/// A beacon's configuration, preprocessed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BeaconConfig {
    /// As written.
    pub config: Value,
    /// All entries merged into one map (`list_to_dict`).
    pub all: Map,
    /// The beacon's own entries.
    pub list: Vec<Map>,
    /// `interval`, if set.
    pub interval: Option<Duration>,
    /// `beacon_module`: the beacon to run, if its name differs.
    pub module: Option<String>,
    /// `disable_during_state_run`.
    pub not_with_states: bool,
    /// `run_once`.
    pub run_once: bool,
}

impl BeaconConfig {
    /// Reads a configuration. Anything but a list or a map counts as empty.
    pub fn from_value(config: &Value) -> BeaconConfig {
        let entries: Vec<Map> = match config {
            Value::Array(list) => list.iter().filter_map(Value::as_map).cloned().collect(),
            Value::Map(map) => vec![map.clone()],
            _ => Vec::new(),
        };
        let mut all = Map::new();
        for (key, value) in entries.iter().flat_map(Map::iter) {
            match all.0.iter_mut().find(|(known, _)| known == key) {
                Some((_, slot)) => *slot = value.clone(),
                None => all.0.push((key.clone(), value.clone())),
            }
        }
        let flag = |key: &str| all.get(key).is_some_and(Value::truthy);
        let interval = all.get("interval").and_then(|i| super::number(i).ok());
        let outer = |key: &Value| {
            key.as_str()
                .is_some_and(|key| SCHEDULER_KEYS.contains(&key))
        };
        let own = |mut map: Map| {
            map.0.retain(|(key, _)| !outer(key));
            map
        };
        BeaconConfig {
            config: config.clone(),
            list: entries
                .into_iter()
                .map(own)
                .filter(|map| !map.is_empty())
                .collect(),
            interval: interval
                .filter(|seconds| *seconds > 0.0)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            module: all.str("beacon_module").map(str::to_owned),
            not_with_states: flag("disable_during_state_run"),
            run_once: flag("run_once"),
            all,
        }
    }
}
