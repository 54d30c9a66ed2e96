//! `mod_beacon` of `file`, `pkg` and `service`: a beacon that watches what a state has made (`beacon: True`).

use super::beacon;
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

/// What `mod_beacon` is for.
pub(super) const DOC: &str = "Adds a beacon that watches what the state has made.";

/// Seconds between two looks.
const INTERVAL: i64 = 60;

/// `beacon_data`.
struct Data(Map);

impl Data {
    fn of(s: &State<'_, '_>) -> Result<Data> {
        match s.kwargs.get("beacon_data") {
            Some(Value::Map(map)) => Ok(Data(map.clone())),
            Some(other) if other.truthy() => Err(CallError::raised(
                "AttributeError",
                format!(
                    "'{}' object has no attribute 'get'",
                    python::type_name(other)
                ),
            )),
            _ => Ok(Data(Map::new())),
        }
    }

    fn get(&self, key: &str, default: impl Into<Value>) -> Value {
        self.0.get(key).cloned().unwrap_or_else(|| default.into())
    }
}

/// The function of the state that has run.
fn function(s: &State<'_, '_>) -> String {
    let function = s.low.get("sfun").filter(|f| **f != Value::Nil);
    function.map_or_else(|| "None".to_owned(), python::str)
}

/// Adds the beacon, if the state's function is one of those that can have one.
fn add(
    s: &mut State<'_, '_>,
    functions: &[&str],
    refused: &str,
    kind: &str,
    data: impl FnOnce(&State<'_, '_>, &Data) -> Map,
) -> Result {
    let (name, function) = (s.name(), function(s));
    if !functions.contains(&function.as_str()) {
        let module = s.low.str("state").unwrap_or_default();
        return Ok(StateOutcome::bad(format!(
            "{module}.{function} does not work with the {refused} state function"
        )));
    }
    if !s.kwargs.get("beacon").is_some_and(Value::truthy) {
        return Ok(StateOutcome::good("Not adding beacon."));
    }
    let given = Data::of(s)?;
    let beacon = format!("beacon_{kind}_{name}");
    let mut low = map! {"name" => beacon.as_str()};
    for (key, value) in data(s, &given).0 {
        low.set(python::str(&key), value);
    }
    low.set("beacon_module", kind);
    let Some(present) = beacon::MODULE.function("present") else {
        return Err(CallError::Missing("beacon.present".to_owned()));
    };
    Ok(s.run_declared(present, &low)?.with("name", beacon))
}

/// `file.mod_beacon`.
pub(super) fn file(s: &mut State<'_, '_>) -> Result {
    add(
        s,
        &["managed", "directory"],
        "beacon",
        "inotify",
        |s, data| {
            let events = ["create", "delete", "modify"].map(Value::from).to_vec();
            let mut one = map! {"mask" => data.get("mask", events)};
            if function(s) == "directory" {
                one.set("auto_add", data.get("auto_add", true));
                one.set("recurse", data.get("recurse", true));
                one.set("exclude", data.get("exclude", Vec::<Value>::new()));
            }
            map! {
                "files" => map! {s.name() => one}, "interval" => data.get("interval", INTERVAL),
                "coalesce" => data.get("coalesce", false),
            }
        },
    )
}

/// `pkg.mod_beacon`.
pub(super) fn pkg(s: &mut State<'_, '_>) -> Result {
    add(
        s,
        &["installed", "removed"],
        "mod_beacon",
        "pkg",
        |s, data| {
            let packages = s.kwargs.get("pkgs").filter(|all| all.truthy()).cloned();
            map! {
                "pkgs" => packages.unwrap_or_else(|| vec![Value::from(s.name())].into()),
                "interval" => data.get("interval", INTERVAL),
            }
        },
    )
}

/// `service.mod_beacon`.
pub(super) fn service(s: &mut State<'_, '_>) -> Result {
    add(s, &["running", "dead"], "beacon", "service", |s, data| {
        let one = map! {
            "onchangeonly" => data.get("onchangeonly", true), "delay" => data.get("delay", 0_i64),
            "emitatstartup" => data.get("emitatstartup", false),
            // Stock puts the value of emitatstartup here.
            "uncleanshutdown" => data.get("uncleanshutdown", Value::Nil),
        };
        map! {"services" => map! {s.name() => one}, "interval" => data.get("interval", INTERVAL)}
    })
}
