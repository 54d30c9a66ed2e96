//! Choices by targets (`salt/modules/match.py filter_by, search_by`).

use super::merge::{MergeError, update};
use halite_wire::{Map, Value};

/// The value of the first key that is meant, with `over` merged into it; else that of `default`.
///
/// # Errors
/// What `meant` says, and what is no map although `over` should be merged into it.
pub fn filter_by<E: From<MergeError>>(
    lookup: &Map,
    default: &Value,
    over: Option<(&Map, bool)>,
    mut meant: impl FnMut(&Value) -> Result<bool, E>,
) -> Result<Option<Value>, E> {
    for (key, value) in lookup.iter() {
        if !meant(key)? {
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

/// The keys of the targets that are meant, once for each of them; `None` without any.
///
/// # Errors
/// What `meant` says.
pub fn search_by<E>(
    lookup: &Map,
    mut meant: impl FnMut(&Value) -> Result<bool, E>,
) -> Result<Value, E> {
    let mut names = Vec::new();
    for (key, targets) in lookup.iter() {
        for target in members(targets) {
            if meant(&target)? {
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

/// What Python meets when it walks over a value: the letters of a text.
fn members(targets: &Value) -> Vec<Value> {
    match targets {
        Value::Array(list) => list.clone(),
        Value::Map(map) => map.iter().map(|(key, _)| key.clone()).collect(),
        Value::Str(text) => text.chars().map(|c| c.to_string().into()).collect(),
        _ => Vec::new(),
    }
}
