//! Beacons in Python files of users (`_beacons`), and those of an installed Salt.

use super::BeaconConfig;
use crate::execution::{Context, python_modules};
use halite_wire::{Map, Value};

const KIND: &str = "beacons";

/// Whether a beacon is in Python; `is_ours` if halite has one of that name.
pub(super) fn has(ctx: &Context, kind: &str, is_ours: bool) -> bool {
    python_modules::has(ctx, KIND, &format!("{kind}.beacon"), is_ours)
}

/// Why a beacon is not there although there is a file for it.
pub(super) fn fault(ctx: &Context, kind: &str) -> Option<String> {
    python_modules::fault(ctx, KIND, &format!("{kind}.beacon"))
}

/// `validate(config)`, if the module has it: whether, and why not.
pub(super) fn validate(
    ctx: &Context,
    kind: &str,
    settings: &BeaconConfig,
    name: &str,
) -> Result<(), String> {
    let function = format!("{kind}.validate");
    if !python_modules::has(ctx, KIND, &function, false) {
        return Ok(());
    }
    let said = call(ctx, &function, settings, name)?;
    let parts = said.as_array().unwrap_or_default();
    match parts {
        [valid, why] if !valid.truthy() => {
            Err(why.as_str().unwrap_or("it is not valid").to_owned())
        }
        _ => Ok(()),
    }
}

/// `beacon(config)`: the data of its events.
pub(super) fn poll(
    ctx: &Context,
    kind: &str,
    settings: &BeaconConfig,
    name: &str,
) -> Result<Vec<Map>, String> {
    let said = call(ctx, &format!("{kind}.beacon"), settings, name)?;
    match said {
        Value::Nil => Ok(Vec::new()),
        Value::Array(events) => Ok(events.into_iter().filter_map(Value::into_map).collect()),
        _ => Err("it did not give a list of events".to_owned()),
    }
}

/// Passes the configuration without what is the scheduler's, and with the beacon's own name, as stock does.
fn call(
    ctx: &Context,
    function: &str,
    settings: &BeaconConfig,
    name: &str,
) -> Result<Value, String> {
    let own = settings.list.iter().filter(|entry| !entry.is_empty());
    let mut config: Vec<Value> = own.cloned().map(Value::Map).collect();
    if settings.module.is_some() {
        config.push(halite_wire::map! {"_beacon_name" => name}.into());
    }
    let done = python_modules::use_function(ctx, KIND, function, vec![config.into()], Map::new());
    done.map_err(|e| e.message().to_owned())
}
