//! Beacon `ps`: whether processes run (`salt/beacons/ps.py`).

use crate::execution::{process_names, python};
use halite_wire::{Map, Value};

pub(super) fn validate(config: &Map) -> Result<(), String> {
    match config.get("processes") {
        None => Err("Configuration for ps beacon requires processes.".to_owned()),
        Some(Value::Map(_)) => Ok(()),
        Some(_) => Err("Processes for ps beacon must be a dictionary.".to_owned()),
    }
}

pub(super) fn poll(config: &Map) -> Result<Vec<Map>, String> {
    Ok(evaluate(config, &process_names()))
}

fn evaluate(config: &Map, running: &[String]) -> Vec<Map> {
    let wanted = config.get("processes").and_then(Value::as_map);
    let mut events = Vec::new();
    for (name, state) in wanted.into_iter().flat_map(Map::iter) {
        let name = python::str(name);
        let there = running.contains(&name);
        let event_value: Value = match (state.as_str(), there) {
            (Some("running"), true) => "Running".into(),
            (Some("stopped"), false) => "Stopped".into(),
            (Some("running" | "stopped"), _) | (_, true) => continue,
            (_, false) => false.into(),
        };
        let mut event = Map::new();
        event.set(&name, event_value);
        events.push(event);
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes() {
        let config = halite_wire::map! {
            "processes" => halite_wire::map! {"a" => "running", "b" => "stopped", "c" => "running", "d" => Value::Nil},
        };
        let events = evaluate(&config, &["a".to_owned()]);
        let want = [
            halite_wire::map! {"a" => "Running"},
            halite_wire::map! {"b" => "Stopped"},
            halite_wire::map! {"d" => false},
        ];
        assert_eq!(events, want);
    }
}
