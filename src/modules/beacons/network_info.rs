//! Beacon `network_info`: counters of network interfaces (`salt/beacons/network_info.py`).

use super::call_function;
use crate::execution::{Context, NETWORK_COUNTERS, python};
use halite_wire::{Map, Value};

fn interfaces(config: &Map) -> impl Iterator<Item = (String, &Value)> {
    let all = config.get("interfaces").and_then(Value::as_map);
    all.into_iter()
        .flat_map(Map::iter)
        .map(|(k, v)| (python::str(k), v))
}

pub(super) fn validate(config: &Map) -> Result<(), String> {
    for (_, wanted) in interfaces(config) {
        let Some(wanted) = wanted.as_map() else {
            return Err(
                "Configuration for network_info beacon must be a list of dictionaries.".to_owned(),
            );
        };
        if !wanted.contains("type") && !NETWORK_COUNTERS.iter().any(|name| wanted.contains(name)) {
            return Err("Invalid configuration item in Beacon configuration.".to_owned());
        }
    }
    Ok(())
}

pub(super) fn poll(ctx: &Context, config: &Map) -> Result<Vec<Map>, String> {
    let mut events = Vec::new();
    for (name, wanted) in interfaces(config) {
        let found = call_function(ctx, "ps.network_io_counters", &[name.as_str().into()])?;
        let (Some(found), Some(wanted)) = (found.as_map(), wanted.as_map()) else {
            continue;
        };
        if threshold_reached(found, wanted)? {
            events.push(halite_wire::map! {"interface" => name, "network_info" => found.clone()});
        }
    }
    Ok(events)
}

fn threshold_reached(found: &Map, wanted: &Map) -> Result<bool, String> {
    let greater = wanted.str("type") == Some("greater");
    let mut reached = false;
    for name in NETWORK_COUNTERS {
        let Some(limit) = wanted.get(name) else {
            continue;
        };
        let limit = python::int(limit).map_err(|fault| fault.message().to_owned())?;
        let now = found.int(name).unwrap_or_default();
        reached |= if greater { now > limit } else { now == limit };
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters() {
        let found = halite_wire::map! {"bytes_sent" => 10, "errin" => 0};
        let reached = |wanted: Map| threshold_reached(&found, &wanted).unwrap();
        assert!(reached(halite_wire::map! {"errin" => 0}));
        assert!(reached(
            halite_wire::map! {"type" => "greater", "bytes_sent" => "9"}
        ));
        assert!(!reached(
            halite_wire::map! {"type" => "greater", "bytes_sent" => 10}
        ));
        assert!(!reached(
            halite_wire::map! {"type" => "equal", "bytes_sent" => 9}
        ));
    }
}
