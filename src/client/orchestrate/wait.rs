//! `salt.wait_for_event` (`salt/states/saltmod.py wait_for_event`).

use super::{MasterStates, result};
use crate::local::LocalClient;
use halite_target::fnmatch;
use halite_wire::{Map, Value, msgpack};
use std::time::{Duration, Instant};

/// Longest sleep, so that a stop takes effect.
const NAP: Duration = Duration::from_millis(250);

/// Waits until events whose tags match the glob `name` have named every id of `id_list` under `event_id`
/// (default `id`), or until `timeout` (default 300) seconds have passed.
pub(super) fn wait_for_event(states: &MasterStates, low: &Map, test: bool) -> Map {
    let glob = low.str("name").unwrap_or_default();
    if test {
        let comment = format!("Orchestration would wait for event '{glob}'");
        return result(low, Value::Nil, &comment);
    }
    let key = low.str("event_id").unwrap_or("id");
    let mut missing = low.get("id_list").map(Value::str_list).unwrap_or_default();
    let limit = low.int("timeout").unwrap_or(300).max(0) as u64;
    let client = LocalClient::new(states.config.clone());
    let mut events = match client.listen() {
        Ok(events) => events,
        Err(e) => return result(low, false, &e.to_string()),
    };
    let began = Instant::now();
    let end = began + Duration::from_secs(limit);
    let mut seen: Vec<Value> = Vec::new();
    let mut late = false;
    while !missing.is_empty() {
        late = Instant::now() >= end;
        if late || states.stop.is_set() {
            break;
        }
        match events.next(Some(NAP)) {
            Ok(Some(event)) if fnmatch(&event.tag, glob) => {
                for id in named(&event.payload, key) {
                    if let Some(at) = missing.iter().position(|m| *m == id) {
                        seen.push(missing.remove(at).into());
                    }
                }
            }
            Ok(_) => {}
            Err(e) => return result(low, false, &format!("the event bus is gone: {e}")),
        }
    }
    let good = missing.is_empty();
    let comment = if good {
        format!(
            "All events seen in {} seconds.",
            began.elapsed().as_secs_f64()
        )
    } else if late {
        "Timeout value reached.".to_owned()
    } else {
        "The run was stopped while it waited.".to_owned()
    };
    let mut outcome = result(low, good, &comment);
    if !seen.is_empty() {
        outcome.set("changes", halite_wire::map! {"minions_seen" => seen});
    }
    outcome
}

/// The ids that an event contains under `key`, at the top level or inside `data`.
fn named(payload: &[u8], key: &str) -> Vec<String> {
    let Ok(Value::Map(data)) = msgpack::decode(payload) else {
        return Vec::new();
    };
    let inner = data.get("data").and_then(Value::as_map);
    let value = data.get(key).filter(|v| !v.is_nil());
    match value.or_else(|| inner.and_then(|d| d.get(key))) {
        Some(Value::Str(id)) => vec![id.clone()],
        Some(list) => list.str_list(),
        None => Vec::new(),
    }
}
