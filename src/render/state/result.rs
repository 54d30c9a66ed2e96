//! Results of a run (`salt/utils/state.py`).

use halite_wire::{Map, Value};

/// Whether a run succeeded: it has results, and none is false, including results of nested runs
/// (`check_result`). With `nested`, other values among the results are fine.
pub fn check_result(running: &Value, nested: bool) -> bool {
    let Some(map) = running.as_map().filter(|m| !m.is_empty()) else {
        return false;
    };
    map.iter().all(|(id, result)| {
        let list = id.is_str("__extend__");
        match result {
            Value::Map(state) => match state.get("result") {
                Some(result) => result.as_bool() != Some(false),
                None => check_result(result, true),
            },
            Value::Array(_) if list => true,
            _ => nested,
        }
    })
}

/// Whether a return looks like a state run: results under tags of four parts.
pub fn is_state_return(value: &Value) -> bool {
    value.as_map().is_some_and(|m: &Map| {
        !m.is_empty()
            && m.iter().all(|(tag, body)| {
                tag.as_str().is_some_and(|t| t.split("_|-").count() == 4) && body.as_map().is_some()
            })
    })
}
