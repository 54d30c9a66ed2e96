//! Choosing values by target (`salt/modules/match.py filter_by, search_by`).

use super::merge::{MergeError, update};
use halite_wire::{Map, Value};

/// The value of the first key that `matches`, with `over` merged into it; else the value of `default`.
///
/// # Errors
/// Errors of `matches`, and a merge into something other than a map.
pub fn filter_by<E: From<MergeError>>(
    lookup: &Map,
    default: &Value,
    over: Option<(&Map, bool)>,
    mut matches: impl FnMut(&Value) -> Result<bool, E>,
) -> Result<Option<Value>, E> {
    for (key, value) in lookup.iter() {
        if !matches(key)? {
            continue;
        }
        return match (value, over) {
            (Value::Nil, Some((over, _))) => Ok(Some(over.clone().into())),
            (Value::Map(own), Some((over, lists))) => {
                let mut own = own.clone();
                update(&mut own, over, lists);
                Ok(Some(own.into()))
            }
            (_, Some(_)) => Err(MergeError.into()),
            (value, None) => Ok(Some(value.clone())),
        };
    }
    let fallback = lookup.iter().find(|(key, _)| key == default);
    Ok(fallback.map(|(_, value)| value.clone()))
}

/// The keys whose targets match, once per target; `None` if none does.
///
/// # Errors
/// Errors of `matches`.
pub fn search_by<E>(
    lookup: &Map,
    mut matches: impl FnMut(&Value) -> Result<bool, E>,
) -> Result<Value, E> {
    let mut names = Vec::new();
    for (key, targets) in lookup.iter() {
        for target in members(targets) {
            if matches(&target)? {
                names.push(key.clone());
            }
        }
    }
    Ok(if names.is_empty() {
        Value::Nil
    } else {
        names.into()
    })
}

/// The items that Python iterates over: for text, its characters.
fn members(targets: &Value) -> Vec<Value> {
    match targets {
        Value::Array(list) => list.clone(),
        Value::Map(map) => map.iter().map(|(key, _)| key.clone()).collect(),
        Value::Str(text) => text.chars().map(|c| c.to_string().into()).collect(),
        _ => Vec::new(),
    }
}
