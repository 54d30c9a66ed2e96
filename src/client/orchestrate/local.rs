//! `salt.runner`, `salt.wheel`, `salt.parallel_runners`.

use super::{CallFn, MasterStates, result};
use halite_wire::{Map, Value};

/// Keys of a call that are not arguments of the function (`salt/state.py STATE_INTERNAL_KEYWORDS`).
fn is_state_keyword(key: &str) -> bool {
    const OWN: [&str; 27] = [
        "state",
        "fun",
        "name",
        "order",
        "parallel",
        "check_cmd",
        "cmd_opts_exclude",
        "failhard",
        "onlyif",
        "unless",
        "creates",
        "retry",
        "require_in",
        "watch_in",
        "onfail_in",
        "onchanges_in",
        "prereq_in",
        "listen_in",
        "listen",
        "use",
        "use_in",
        "reload_modules",
        "reload_grains",
        "reload_pillar",
        "fire_event",
        "onfail_stop",
        "umask",
    ];
    let requisite = halite_render::state::Requisite::ALL
        .iter()
        .any(|r| r.name() == key);
    requisite || key.starts_with("__") || OWN.contains(&key)
}

/// Positional and keyword arguments of a call: `arg`, `kwarg`, and all other keys by name.
fn arguments(low: &Map) -> (Vec<Value>, Map) {
    let positional = match low.get("arg") {
        Some(Value::Array(list)) => list.clone(),
        Some(Value::Nil) | None => Vec::new(),
        Some(one) => vec![one.clone()],
    };
    let mut keyword = low
        .get("kwarg")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    for (key, value) in low.iter() {
        if let Some(key) = key.as_str()
            && !is_state_keyword(key)
            && key != "arg"
            && key != "kwarg"
        {
            keyword.set(key, value.clone());
        }
    }
    (positional, keyword)
}

/// `salt.runner`.
pub(super) fn runner(states: &MasterStates, low: &Map, test: bool) -> Map {
    call(states, low, test, ("Runner", "runner"), states.runner)
}

/// `salt.wheel`.
pub(super) fn wheel(states: &MasterStates, low: &Map, test: bool) -> Map {
    call(states, low, test, ("Wheel", "wheel"), states.wheel)
}

fn call(states: &MasterStates, low: &Map, test: bool, kind: (&str, &str), call: CallFn) -> Map {
    let (title, kind) = kind;
    let name = low.str("name").unwrap_or_default();
    if test {
        let comment = format!("{title} function '{name}' would be executed.");
        return result(low, Value::Nil, &comment);
    }
    let (positional, mut keyword) = arguments(low);
    states.fire_args(halite_wire::map! {
        "type" => kind, "name" => name, "args" => positional.clone(), "kwargs" => keyword.clone(),
    });
    if kind == "runner" && ["state.orchestrate", "state.orch", "state.sls"].contains(&name) {
        keyword.set("orchestration_jid", states.jid.as_str());
    }
    let called = call(name, positional, keyword);
    let returned = called.get("return").cloned().unwrap_or_default();
    let refused = returned.as_map().is_some_and(|m| m.contains("Error"));
    let good = !refused && called.get("success").is_none_or(Value::truthy);
    let done = if good { "executed" } else { "failed" };
    let mut outcome = result(low, good, &format!("{title} function '{name}' {done}."));
    outcome.set("changes", halite_wire::map! {"return" => returned});
    if let Some(jid) = called.get("jid") {
        outcome.set("__jid__", jid.clone());
    }
    outcome
}

/// `salt.parallel_runners`: several runners, each in a thread.
pub(super) fn parallel_runners(states: &MasterStates, low: &Map, test: bool) -> Map {
    let runners = match low.get("runners") {
        Some(Value::Str(one)) => halite_wire::map! {one.as_str() => Value::Nil},
        Some(Value::Map(map)) => map.clone(),
        _ => {
            return result(
                low,
                false,
                "The runners parameter must be a string or dict.",
            );
        }
    };
    if test {
        return result(low, Value::Nil, "The runners would be executed.");
    }
    let calls: Vec<(String, String, Map)> = runners
        .iter()
        .map(|(id, config)| {
            let id = id.as_str().unwrap_or_default().to_owned();
            let config = repack(config);
            let name = config.str("name").unwrap_or(&id).to_owned();
            let keyword = config.get("kwarg").and_then(Value::as_map).cloned();
            (id, name, keyword.unwrap_or_default())
        })
        .collect();
    let outputs: Vec<(String, Map)> = std::thread::scope(|scope| {
        let started: Vec<_> = calls
            .into_iter()
            .map(|(id, name, keyword)| {
                let runner = states.runner;
                (id, scope.spawn(move || runner(&name, Vec::new(), keyword)))
            })
            .collect();
        let ended = started.into_iter().map(|(id, thread)| {
            let failed = || halite_wire::map! {"success" => false, "return" => Value::Nil};
            (id, thread.join().unwrap_or_else(|_| failed()))
        });
        ended.collect()
    });
    let failed: Vec<&str> = outputs
        .iter()
        .filter(|(_, out)| !succeeded(out))
        .map(|(id, _)| id.as_str())
        .collect();
    let comment = match failed.as_slice() {
        [] => "All runner functions executed successfully.".to_owned(),
        [one] => format!("Runner {one} failed."),
        several => format!("Runners {} failed.", several.join(", ")),
    };
    let mut outcome = result(low, failed.is_empty(), &comment);
    let changes: Map = outputs
        .into_iter()
        .map(|(id, out)| (id, out.get("return").cloned().unwrap_or_default()))
        .collect();
    outcome.set("changes", halite_wire::map! {"ret" => changes});
    outcome
}

/// Whether a runner succeeded; an orchestration reports that in its own return code.
fn succeeded(called: &Map) -> bool {
    let code = called
        .get("return")
        .and_then(Value::as_map)
        .and_then(|r| r.int("retcode"));
    called.get("success").is_none_or(Value::truthy) && code.unwrap_or(0) == 0
}

/// Converts a list of one-key maps to one map.
fn repack(config: &Value) -> Map {
    match config {
        Value::Map(map) => map.clone(),
        Value::Array(list) => {
            let maps = list.iter().filter_map(Value::as_map);
            Map(maps.flat_map(|m| m.0.clone()).collect())
        }
        _ => Map::new(),
    }
}
