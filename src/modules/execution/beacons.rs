//! `beacons`: shows and changes the beacons of the running minion through events on its bus
//! (`salt/modules/beacons.py`).

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python, python_modules};
use crate::local;
use halite_sys::daemon::write_atomic;
use halite_wire::difflib::unified_diff;
use halite_wire::{Map, Value, yaml};
use std::path::Path;
use std::time::Duration;

/// Seconds to wait for the daemon's answer.
const WAIT: f64 = 60.0;
const TAG: &str = "manage_beacons";

pub(super) const MODULE: Module = Module {
    name: "beacons",
    functions: &[
        Function::new(
            "add",
            add,
            "Adds a beacon if it exists and the configuration is valid.",
        )
        .args(args![name, beacon_data])
        .keywords(),
        Function::new("delete", delete, "Deletes a beacon.")
            .args(args![name])
            .keywords(),
        Function::new(
            "disable",
            |c| set_all_enabled(c, false),
            "Disables all beacons.",
        )
        .keywords(),
        Function::new(
            "disable_beacon",
            |c| set_enabled(c, false),
            "Disables one beacon.",
        )
        .args(args![name])
        .keywords(),
        Function::new(
            "enable",
            |c| set_all_enabled(c, true),
            "Reverses beacons.disable.",
        )
        .keywords(),
        Function::new(
            "enable_beacon",
            |c| set_enabled(c, true),
            "Reverses beacons.disable_beacon.",
        )
        .args(args![name])
        .keywords(),
        Function::new("list", list, "The configured beacons, as YAML or as data.")
            .inner("list_")
            .args(args![
                return_yaml = True,
                include_pillar = True,
                include_opts = True
            ])
            .keywords(),
        Function::new(
            "list_available",
            list_available,
            "The available beacons, as YAML or as data.",
        )
        .args(args![return_yaml = True])
        .keywords(),
        Function::new("modify", modify, "Changes the configuration of a beacon.")
            .args(args![name, beacon_data])
            .keywords(),
        Function::new(
            "reset",
            reset,
            "Removes all beacons that are not in the pillar.",
        )
        .keywords(),
        Function::new(
            "save",
            save,
            "Writes the beacons to minion.d/beacons.conf, so that they survive a restart.",
        )
        .keywords(),
    ],
};

fn ret(result: bool, comment: impl Into<String>) -> Map {
    halite_wire::map! {"comment" => comment.into(), "result" => result}
}

fn timeout(call: &Call<'_>) -> Value {
    call.bound
        .kwargs
        .get("timeout")
        .cloned()
        .unwrap_or_else(|| 60.into())
}

/// Sends a request to the daemon. `Err(false)`: it does not run; `Err(true)`: it does not answer.
fn ask_daemon(call: &Call<'_>, request: &Map, answer: &str) -> Result<Map, bool> {
    let seconds = match timeout(call) {
        Value::Int(seconds) => seconds as f64,
        Value::Float(seconds) => seconds,
        _ => WAIT,
    };
    let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs_f64(WAIT));
    local::fire_and_wait(call.ctx, TAG, request, answer, wait)
}

fn late(call: &Call<'_>, what: &str) -> String {
    let seconds = python::str(&timeout(call));
    format!("Did not receive the {what} before the timeout of {seconds}s")
}

fn is_test(call: &Call<'_>) -> bool {
    call.bound.kwargs.get("test").is_some_and(Value::truthy)
}

fn name(call: &Call<'_>) -> String {
    call.text("name").unwrap_or_default()
}

/// The configured beacons; `None` without an answer.
pub fn configured(call: &Call<'_>, pillar: bool, opts: bool) -> Option<Value> {
    let request =
        halite_wire::map! {"func" => "list", "include_pillar" => pillar, "include_opts" => opts};
    let answer = ask_daemon(call, &request, "/salt/minion/minion_beacons_list_complete").ok()?;
    let complete = answer.get("complete").is_some_and(Value::truthy);
    answer.get("beacons").filter(|_| complete).cloned()
}

/// The configured beacons as a map.
fn list_beacons(call: &Call<'_>) -> Result<Map> {
    match configured(call, true, true) {
        Some(Value::Map(map)) => Ok(map),
        _ => Err(CallError::Type(
            "argument of type 'NoneType' is not iterable".to_owned(),
        )),
    }
}

fn as_yaml(beacons: Value) -> Value {
    yaml::emit(&halite_wire::map! {"beacons" => beacons}.into(), true).into()
}

fn list(call: &mut Call<'_>) -> Result {
    let beacons = configured(call, call.flag("include_pillar"), call.flag("include_opts"));
    let beacons = beacons.unwrap_or_default();
    Ok(if call.flag("return_yaml") {
        as_yaml(beacons)
    } else {
        beacons
    })
}

fn available(call: &Call<'_>) -> Option<Value> {
    let request = halite_wire::map! {"func" => "list_available"};
    let answer = ask_daemon(
        call,
        &request,
        "/salt/minion/minion_beacons_list_available_complete",
    )
    .ok()?;
    let mut kinds = answer.get("beacons")?.as_array()?.to_vec();
    let python = python_modules::functions(call.ctx, "beacons");
    kinds.extend(
        python
            .iter()
            .filter_map(|(name, _)| Some(name.strip_suffix(".beacon")?.into())),
    );
    (!kinds.is_empty()).then(|| kinds.into())
}

fn list_available(call: &mut Call<'_>) -> Result {
    Ok(match available(call) {
        None => halite_wire::map! {"beacons" => Map::new()}.into(),
        Some(kinds) if call.flag("return_yaml") => as_yaml(kinds),
        Some(kinds) => kinds,
    })
}

/// The beacon type the data are for.
fn kind(call: &Call<'_>) -> String {
    let data = call.arg("beacon_data").as_array().unwrap_or_default();
    let module = data
        .iter()
        .find_map(|item| item.as_map()?.get("beacon_module"));
    module.map_or_else(|| name(call), python::str)
}

/// The validation error, if the data are invalid.
fn invalid(call: &Call<'_>) -> Result<Option<String>> {
    let request = halite_wire::map! {
        "name" => name(call), "beacon_data" => call.arg("beacon_data").clone(), "func" => "validate_beacon",
    };
    let answer = ask_daemon(
        call,
        &request,
        "/salt/minion/minion_beacon_validation_complete",
    );
    let Ok(answer) = answer else {
        return Err(CallError::Type(
            "'NoneType' object is not subscriptable".to_owned(),
        ));
    };
    let valid = answer.get("valid").is_some_and(Value::truthy);
    Ok((!valid).then(|| answer.get("vcomment").map(python::str).unwrap_or_default()))
}

fn change(call: &Call<'_>, func: &str) -> Map {
    halite_wire::map! {"name" => name(call), "beacon_data" => call.arg("beacon_data").clone(), "func" => func}
}

fn add(call: &mut Call<'_>) -> Result {
    let name = name(call);
    if list_beacons(call)?.contains(&name) {
        return Ok(ret(true, format!("Beacon {name} is already configured.")).into());
    }
    let kind = kind(call);
    let kinds = available(call).unwrap_or_default();
    if !kinds
        .as_array()
        .unwrap_or_default()
        .iter()
        .any(|known| known.is_str(&kind))
    {
        return Ok(ret(false, format!("Beacon \"{kind}\" is not available.")).into());
    }
    if is_test(call) {
        return Ok(ret(true, format!("Beacon: {name} would be added.")).into());
    }
    if let Some(why) = invalid(call)? {
        let text = format!("Beacon {name} configuration invalid, not adding.\n{why}");
        return Ok(ret(false, text).into());
    }
    let answer = ask_daemon(
        call,
        &change(call, "add"),
        "/salt/minion/minion_beacon_add_complete",
    );
    Ok(match answer {
        Ok(answer) if !done(&answer) => ret(false, comment(&answer)),
        Ok(answer) => {
            let all = beacons(&answer);
            let stored = all.get(&name).and_then(Value::as_array);
            let wanted = call.arg("beacon_data").as_array().unwrap_or_default();
            if stored.is_some_and(|stored| wanted.iter().all(|item| stored.contains(item))) {
                ret(true, format!("Added beacon: {name}."))
            } else {
                ret(false, format!("Failed to add beacon {name}."))
            }
        }
        Err(false) => ret(false, format!("Failed to add beacon {name}.")),
        Err(true) => ret(false, late(call, "beacon add complete event")),
    }
    .into())
}

fn done(answer: &Map) -> bool {
    answer.get("complete").is_some_and(Value::truthy)
}

fn comment(answer: &Map) -> String {
    answer.get("comment").map(python::str).unwrap_or_default()
}

fn beacons(answer: &Map) -> Map {
    answer
        .get("beacons")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default()
}

/// A configuration as lines, for a diff.
fn lines(config: &Value) -> Vec<String> {
    let items = config.as_array().unwrap_or_default();
    let pairs = items.iter().filter_map(Value::as_map).flat_map(Map::iter);
    pairs
        .map(|(key, value)| format!("{}:{}\n", python::str(key), python::str(value)))
        .collect()
}

fn modify(call: &mut Call<'_>) -> Result {
    let name = name(call);
    let known = list_beacons(call)?;
    let Some(before) = known.get(&name) else {
        return Ok(ret(true, format!("Beacon {name} is not configured.")).into());
    };
    if is_test(call) {
        return Ok(ret(true, format!("Beacon: {name} would be modified.")).into());
    }
    if let Some(why) = invalid(call)? {
        let text = format!("Beacon {name} configuration invalid, not modifying.\n{why}");
        return Ok(ret(false, text).into());
    }
    let data = call.arg("beacon_data");
    if data == before {
        return Ok(ret(true, format!("Job {name} in correct state")).into());
    }
    let diff = unified_diff(&lines(before), &lines(data), "", "");
    let answer = ask_daemon(
        call,
        &change(call, "modify"),
        "/salt/minion/minion_beacon_modify_complete",
    );
    let mut reply = match answer {
        Ok(answer) if !done(&answer) => ret(false, comment(&answer)),
        Ok(answer) if beacons(&answer).get(&name) == Some(data) => {
            ret(true, format!("Modified beacon: {name}."))
        }
        Ok(_) | Err(false) => ret(true, ""),
        Err(true) => ret(false, late(call, "beacon modify complete  event")),
    };
    reply.set("changes", halite_wire::map! {"diff" => diff});
    Ok(reply.into())
}

fn delete(call: &mut Call<'_>) -> Result {
    let name = name(call);
    if is_test(call) {
        return Ok(ret(true, format!("Beacon: {name} would be deleted.")).into());
    }
    let request = halite_wire::map! {"name" => name.as_str(), "func" => "delete"};
    let answer = ask_daemon(call, &request, "/salt/minion/minion_beacon_delete_complete");
    Ok(match answer {
        Ok(answer) if !done(&answer) => ret(false, comment(&answer)),
        Ok(answer) if !beacons(&answer).contains(&name) => {
            ret(true, format!("Deleted beacon: {name}."))
        }
        Ok(_) | Err(false) => ret(false, format!("Failed to delete beacon {name}.")),
        Err(true) => ret(false, late(call, "beacon delete complete event")),
    }
    .into())
}

fn save(call: &mut Call<'_>) -> Result {
    let opts = &call.ctx.opts;
    let conf = Path::new(opts.str("conf_file").unwrap_or_default());
    let include = Path::new(opts.str("default_include").unwrap_or_default());
    let dir = conf.parent().unwrap_or(Path::new("/"));
    let file = dir
        .join(include.parent().unwrap_or(Path::new("")))
        .join("beacons.conf");
    let text = match configured(call, false, true).filter(Value::truthy) {
        Some(beacons) => as_yaml(beacons),
        None => "".into(),
    };
    let shown = file.display();
    let text = text.as_str().unwrap_or_default();
    let written = std::fs::create_dir_all(file.parent().unwrap_or(dir))
        .and_then(|()| write_atomic(&file, text.as_bytes(), 0o644));
    Ok(match written {
        Ok(()) => ret(true, format!("Beacons saved to {shown}.")),
        Err(_) => ret(
            false,
            format!("Unable to write to beacons file at {shown}. Check permissions."),
        ),
    }
    .into())
}

fn set_all_enabled(call: &mut Call<'_>, enable: bool) -> Result {
    let (word, func) = if enable {
        ("enabled", "enable")
    } else {
        ("disabled", "disable")
    };
    if is_test(call) {
        return Ok(ret(true, format!("Beacons would be {word}.")).into());
    }
    let tag = format!("/salt/minion/minion_beacons_{word}_complete");
    let title = if enable { "Enabled" } else { "Disabled" };
    let reply = match ask_daemon(call, &halite_wire::map! {"func" => func}, &tag) {
        Ok(answer) => {
            if beacons(&answer).get("enabled").map(Value::truthy) == Some(enable) {
                ret(true, format!("{title} beacons on minion."))
            } else {
                ret(false, format!("Failed to {func} beacons on minion."))
            }
        }
        // Stock returns no comment when the daemon does not answer.
        Err(_) => halite_wire::map! {"comment" => Value::Array(Vec::new()), "result" => true},
    };
    Ok(reply.into())
}

fn set_enabled(call: &mut Call<'_>, enable: bool) -> Result {
    let name = name(call);
    if name.is_empty() {
        return Ok(ret(false, "Beacon name is required.").into());
    }
    let (word, func) = if enable {
        ("enabled", "enable_beacon")
    } else {
        ("disabled", "disable_beacon")
    };
    if is_test(call) {
        return Ok(if enable {
            ret(true, format!("Beacon {name} would be enabled."))
        } else {
            ret(true, "Beacons would be disabled.")
        }
        .into());
    }
    if !list_beacons(call)?.contains(&name) {
        return Ok(ret(false, format!("Beacon {name} is not currently configured.")).into());
    }
    let request = halite_wire::map! {"func" => func, "name" => name.as_str()};
    let answer = ask_daemon(
        call,
        &request,
        &format!("/salt/minion/minion_beacon_{word}_complete"),
    );
    Ok(match answer {
        Ok(answer) if !done(&answer) => ret(false, comment(&answer)),
        Ok(answer) => {
            let state = beacons(&answer).get(&name).and_then(is_enabled);
            match (state == Some(enable), enable) {
                (true, true) => ret(true, format!("Enabled beacon {name} on minion.")),
                (true, false) => ret(true, format!("Disabled beacon {name} on minion.")),
                (false, true) => ret(false, format!("Failed to enable beacon {name} on minion.")),
                (false, false) => ret(false, "Failed to disable beacon on minion."),
            }
        }
        Err(true) => ret(false, late(call, &format!("beacon {word} complete event"))),
        Err(false) => halite_wire::map! {"comment" => Value::Array(Vec::new()), "result" => true},
    }
    .into())
}

fn is_enabled(config: &Value) -> Option<bool> {
    let of = |map: &Map| map.get("enabled").map(Value::truthy);
    match config {
        Value::Array(list) => list
            .iter()
            .filter_map(Value::as_map)
            .filter_map(of)
            .next_back(),
        Value::Map(map) => of(map),
        _ => None,
    }
}

fn reset(call: &mut Call<'_>) -> Result {
    if is_test(call) {
        return Ok(ret(true, "Beacons would be reset.").into());
    }
    let request = halite_wire::map! {"func" => "reset"};
    let answer = ask_daemon(call, &request, "/salt/minion/minion_beacon_reset_complete");
    Ok(match answer {
        Ok(answer) if done(&answer) => ret(true, "Beacon configuration reset."),
        Ok(answer) => ret(false, comment(&answer)),
        Err(_) => halite_wire::map! {"comment" => Value::Array(Vec::new()), "result" => true},
    }
    .into())
}
