//! Beacon `service`: whether services run (`salt/beacons/service.py`).

use super::{call_function, number};
use crate::execution::{Context, python};
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The last known state of a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LastSeen {
    running: Value,
    /// Unix time of the change while its event is delayed.
    time: Option<f64>,
}

pub(super) fn validate(config: &Map) -> Result<(), String> {
    let Some(services) = config.get("services") else {
        return Err("Configuration for service beacon requires services.".to_owned());
    };
    let Some(services) = services.as_map() else {
        return Err(
            "Services configuration item for service beacon must be a dictionary.".to_owned(),
        );
    };
    if services.iter().all(|(_, wanted)| wanted.as_map().is_some()) {
        Ok(())
    } else {
        Err("Configuration for service beacon must be a list of dictionaries.".to_owned())
    }
}

pub(super) fn poll(
    ctx: &Context,
    last: &mut BTreeMap<String, LastSeen>,
    config: &Map,
    now: f64,
) -> Result<Vec<Map>, String> {
    let mut events = Vec::new();
    let services = config.get("services").and_then(Value::as_map);
    for (name, wanted) in services.into_iter().flat_map(Map::iter) {
        let name = python::str(name);
        let empty = Map::new();
        let wanted = wanted.as_map().unwrap_or(&empty);
        let running = call_function(ctx, "service.status", &[name.as_str().into()])?;
        evaluate(&mut events, last, &name, wanted, running, now)?;
    }
    Ok(events)
}

fn evaluate(
    events: &mut Vec<Map>,
    last: &mut BTreeMap<String, LastSeen>,
    name: &str,
    wanted: &Map,
    running: Value,
    now: f64,
) -> Result<(), String> {
    let delay = wanted.get("delay").map_or(Ok(0.0), number)?;
    let mut state = halite_wire::map! {"running" => running.clone()};
    if let Some(file) = wanted.get("uncleanshutdown").filter(|_| !running.truthy()) {
        state.set("uncleanshutdown", Path::new(&python::str(file)).exists());
    }
    if let Some(Value::Bool(wanted)) = wanted.get("is_running_state")
        && Value::Bool(*wanted) != running
    {
        return Ok(());
    }
    let mut tell = || {
        let mut event = Map::new();
        event.set(name, state.clone());
        event.set("service_name", name);
        event.set("tag", name);
        events.push(event);
    };
    if wanted.get("onchangeonly") != Some(&Value::Bool(true)) {
        tell();
        return Ok(());
    }
    let time = (delay > 0.0).then_some(now);
    let fresh = LastSeen {
        running: running.clone(),
        time,
    };
    if !last.contains_key(name) {
        if !wanted.get("emitatstartup").is_none_or(Value::truthy) {
            last.insert(
                name.to_owned(),
                LastSeen {
                    time: None,
                    ..fresh
                },
            );
            return Ok(());
        }
        last.insert(name.to_owned(), fresh.clone());
        if time.is_none() {
            tell();
        }
    }
    let Some(before) = last.get_mut(name) else {
        return Ok(());
    };
    if before.running != running {
        *before = fresh;
        if time.is_none() {
            tell();
        }
    }
    if let Some(since) = before.time
        && (now - since).round() > delay
    {
        before.time = None;
        tell();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        let mut last = BTreeMap::new();
        let mut poll_at = |wanted: &Map, running: bool, now: f64| {
            let mut events = Vec::new();
            evaluate(&mut events, &mut last, "ssh", wanted, running.into(), now).unwrap();
            events
        };
        let always = Map::new();
        let want = halite_wire::map! {
            "ssh" => halite_wire::map! {"running" => true}, "service_name" => "ssh", "tag" => "ssh",
        };
        assert_eq!(poll_at(&always, true, 0.0), std::slice::from_ref(&want));
        let change = halite_wire::map! {"onchangeonly" => true};
        assert_eq!(poll_at(&change, true, 1.0), [want]);
        assert_eq!(poll_at(&change, true, 2.0).len(), 0);
        assert_eq!(poll_at(&change, false, 3.0).len(), 1);
        let late = halite_wire::map! {"onchangeonly" => true, "delay" => 5};
        assert_eq!(poll_at(&late, true, 10.0).len(), 0);
        assert_eq!(poll_at(&late, true, 15.0).len(), 0);
        assert_eq!(poll_at(&late, true, 16.0).len(), 1);
        assert_eq!(poll_at(&late, true, 17.0).len(), 0);
        let only = halite_wire::map! {"is_running_state" => false};
        assert_eq!(poll_at(&only, true, 18.0).len(), 0);
        let unclean = halite_wire::map! {"uncleanshutdown" => "/"};
        let events = poll_at(&unclean, false, 19.0);
        let state = events[0].get("ssh").and_then(Value::as_map).unwrap();
        assert_eq!(state.get("uncleanshutdown"), Some(&true.into()));
    }
}
