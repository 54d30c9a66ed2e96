//! `rabbitmq_upstream`.

use super::{failed, rabbit};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::{CallError, rabbitmq};
use halite_wire::{Map, Value, json};

/// Those of the function `rabbitmq.set_upstream` but for the name.
const PRESENT: &[Arg] = rabbitmq::UPSTREAM.split_at(1).1;

pub const UPSTREAM: StateModule = StateModule {
    name: "rabbitmq_upstream",
    functions: &[
        StateFunction::new("present", present, "Ensures that there is an upstream.").args(PRESENT),
        StateFunction::new("absent", absent, "Ensures that there is no such upstream.")
            .args(args![runas = None]),
    ],
};

/// What differs: `old` and `new`, where there is something.
fn difference(old: &Map, new: &Map) -> Map {
    let only = |all: &Map, other: &Map| {
        let mut left = all.clone();
        left.0.retain(|(key, value)| {
            let same = key.as_str().and_then(|key| other.get(key));
            same != Some(value)
        });
        left
    };
    let mut found = Map::new();
    for (name, left) in [("old", only(old, new)), ("new", only(new, old))] {
        if !left.is_empty() {
            found.set(name, left);
        }
    }
    found
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let all = match rabbit(s, "list_upstreams", []) {
        Ok(all) => all,
        Err(fault) => return failed(fault),
    };
    let mut new = Map::new();
    for arg in PRESENT.iter().filter(|arg| arg.name != "runas") {
        // A false is a setting, too.
        if s.flag(arg.name) || s.arg(arg.name) == &Value::Bool(false) {
            new.set(arg.name.replace('_', "-"), s.arg(arg.name).clone());
        }
    }
    let (changes, action) = match all.as_map().and_then(|all| all.str(&name)) {
        Some(own) => {
            let own: Value = json::parse(own.as_bytes())
                .map_err(|e| CallError::raised("json.decoder.JSONDecodeError", e.to_string()))?;
            let changes = difference(&own.into_map().unwrap_or_default(), &new);
            if changes.is_empty() {
                let text = format!("Upstream \"{name}\" already present as specified.");
                return Ok(StateOutcome::good(text));
            }
            (changes, "update")
        }
        None => (old_new(Value::Nil, new), "create"),
    };
    if s.test {
        let text = format!("Upstream \"{name}\" would have been {action}d.");
        return Ok(StateOutcome::would(text));
    }
    let names: Vec<&str> = PRESENT.iter().map(|arg| arg.name).collect();
    let mut kwargs = s.pick(&names);
    kwargs.set("name", name.as_str());
    match s.salt_with("rabbitmq.set_upstream", Vec::new(), kwargs) {
        Ok(_) => {
            let text = format!("Upstream \"{name}\" {action}d.");
            Ok(StateOutcome::good(text).changes(changes))
        }
        Err(CallError::Command(text)) => {
            let text = format!("Error trying to {action} upstream: {text}");
            Ok(StateOutcome::bad(text))
        }
        Err(fault) => Err(fault),
    }
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let there = match rabbit(s, "upstream_exists", [name.as_str().into()]) {
        Ok(there) => there.truthy(),
        Err(fault) => return failed(fault),
    };
    if !there {
        let text = format!("The upstream \"{name}\" is already absent.");
        return Ok(StateOutcome::good(text));
    }
    if s.test {
        let text = format!("Upstream \"{name}\" would have been deleted.");
        return Ok(StateOutcome::would(text));
    }
    if let Err(fault) = rabbit(s, "delete_upstream", [name.as_str().into()]) {
        return failed(fault);
    }
    let text = format!("Upstream \"{name}\" has been deleted.");
    Ok(StateOutcome::good(text).changes(old_new(name, Value::Nil)))
}
