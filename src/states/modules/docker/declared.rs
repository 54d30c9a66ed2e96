//! What declarations of containers have in common.

use crate::declare::{Result, State, old_new};
use halite_modules::execution::docker::{ContainerState, Rules};
use halite_modules::execution::python;
use halite_wire::{Map, Value};

/// The keywords of a container, with the arguments that say how they are read.
pub fn declared(s: &State<'_, '_>) -> (Map, Rules) {
    let mut given = s.kwargs.clone();
    for key in ["skip_translate", "ignore_collisions", "validate_ip_addrs"] {
        given.set(key, s.arg(key).clone());
    }
    let rules = Rules::take(&mut given);
    (given, rules)
}

/// Networks with the arguments for a container's place in them.
pub type Networks = Vec<(String, Map)>;

/// The argument `networks`.
///
/// # Errors
/// Why it cannot be read.
pub fn networks(value: &Value) -> std::result::Result<Networks, String> {
    let list = match value {
        Value::Array(list) => list.clone(),
        Value::Str(text) => text.split(',').map(|one| one.trim().into()).collect(),
        other => vec![python::str(other).into()],
    };
    let mut found = Vec::new();
    for one in list {
        let Value::Map(map) = one else {
            found.push((python::str(&one), Map::new()));
            continue;
        };
        for (name, settings) in map.0 {
            let name = python::str(&name);
            let wrong =
                || format!("Invalid configuration for network '{name}' (see documentation)");
            let mut given = Map::new();
            match settings {
                Value::Nil => {}
                Value::Array(parts) => {
                    for part in parts {
                        let Value::Map(part) = part else {
                            return Err(wrong());
                        };
                        for (key, value) in part.0 {
                            given.set(python::str(&key), value);
                        }
                    }
                }
                _ => return Err(wrong()),
            }
            found.push((name, given));
        }
    }
    Ok(found)
}

/// A number of seconds.
pub fn seconds(value: &Value) -> Result<Option<u64>> {
    match value {
        Value::Nil => Ok(None),
        value => Ok(u64::try_from(python::int(value)?).ok()),
    }
}

/// `{"old": ..., "new": ...}` of states.
pub fn states(old: Option<ContainerState>, new: ContainerState) -> Map {
    let old = old.map_or(Value::Nil, |state| state.word().into());
    old_new(old, new.word())
}
