//! Beacons `diskusage` and `memusage` (`salt/beacons/diskusage.py`, `memusage.py`).

use super::{call_function, number};
use crate::execution::{Context, python};
use halite_target::PyRegex;
use halite_wire::{Map, Value};

pub(super) fn disk(ctx: &Context, list: &[Map]) -> Result<Vec<Map>, String> {
    let all = halite_wire::map! {"all" => true, "__kwarg__" => true};
    let partitions = call_function(ctx, "ps.disk_partitions", &[all.into()])?;
    let partitions = partitions.as_array().unwrap_or_default();
    let mut events = Vec::new();
    for entry in list {
        // Only the first key of an entry is used.
        let Some((mount, limit)) = entry.iter().next() else {
            continue;
        };
        let mount = python::str(mount);
        let whole = if mount.ends_with('$') {
            mount.clone()
        } else {
            format!("{mount}$")
        };
        let regex = PyRegex::new(&whole)?;
        let places = partitions
            .iter()
            .filter_map(|p| p.as_map()?.str("mountpoint"));
        for place in places.filter(|place| regex.matches(place) == Ok(true)) {
            let Ok(usage) = call_function(ctx, "ps.disk_usage", &[place.into()]) else {
                log::warn!("{place} is not a valid mount point.");
                continue;
            };
            let used = usage.as_map().and_then(|map| map.get("percent"));
            let used = used.map_or(Ok(0.0), number)?;
            if used >= number(limit)? {
                events.push(halite_wire::map! {"diskusage" => used, "mount" => place});
            }
        }
    }
    Ok(events)
}

pub(super) fn validate_memory(config: &Map) -> Result<(), String> {
    if config.contains("percent") {
        Ok(())
    } else {
        Err("Configuration for memusage beacon requires percent.".to_owned())
    }
}

pub(super) fn memory(ctx: &Context, config: &Map) -> Result<Vec<Map>, String> {
    let memory = call_function(ctx, "ps.virtual_memory", &[])?;
    let used = memory.as_map().and_then(|map| map.get("percent"));
    let used = used.map_or(Ok(0.0), number)?;
    let limit = number(config.get("percent").unwrap_or(&Value::Nil))?;
    Ok(if used >= limit {
        vec![halite_wire::map! {"memusage" => used}]
    } else {
        Vec::new()
    })
}
