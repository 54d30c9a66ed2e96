//! `_master_tops`: states of a minion from a source other than the top file (`salt/daemons/masterapi.py
//! RemoteFuncs._master_tops`, `salt/tops/ext_nodes.py`).

use super::context::Context;
use halite_render::python::About;
use halite_sys::command::{self, Limits};
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value, shlex, yaml};
use std::time::{Duration, Instant};

/// Our own module.
pub(crate) const MODULE: &str = "ext_nodes";
/// Longest run time of the command in seconds, if a request may take longer at all.
const PATIENCE: u64 = 30;
/// Bytes that it may print at most.
const MOST_OUTPUT: usize = 4 << 20;

/// Maps environments to names of states. The id is that of the channel; that in the configuration sent by the minion, from which
/// stock takes it, is replaced.
pub(crate) fn request(worker: &mut Context, id: &MinionId, load: &Map) -> Value {
    let patience = Duration::from_secs(PATIENCE.min(worker.config.request_timeout));
    let config = worker.config.clone();
    let mut tops = Map::new();
    for (name, setting) in config.master_tops.iter() {
        let name = name.as_str().unwrap_or_default();
        let found = match (by_python(worker, name, id, load, patience), name, setting) {
            (Some(found), ..) => found,
            (None, MODULE, Value::Str(line)) if !line.is_empty() => ext_nodes(line, id, patience),
            (None, MODULE, _) => continue,
            (None, ..) => {
                log::error!(
                    "master_tops: there is no module {name:?}: this master has {MODULE} and the Python files that \
                     `halite-run saltutil.sync_tops` fetches from salt://_tops"
                );
                continue;
            }
        };
        match found {
            Ok(more) => merge(&mut tops, more),
            Err(e) => log::error!("master_tops: {name} of {id} failed: {e}"),
        }
    }
    tops.into()
}

/// `top(opts=, grains=)` of a Python file, if there is one: `__opts__` are the master's, the arguments are the minion's.
fn by_python(
    worker: &mut Context,
    name: &str,
    id: &MinionId,
    load: &Map,
    patience: Duration,
) -> Option<Result<Map, String>> {
    let pillar = worker.pillar();
    let python = pillar.python()?;
    let about = About::new(python.opts().clone(), Instant::now() + patience);
    let function = format!("{name}.top");
    match python.has(&about, "tops", &function, name == MODULE) {
        Ok(true) => {}
        Ok(false) if name == MODULE => return None,
        Ok(false) => return python.fault(&about, "tops", &function).map(Err),
        Err(why) => return Some(Err(why)),
    }
    let mut opts = load
        .get("opts")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    opts.set("id", id.as_str());
    let grains = opts
        .get("grains")
        .cloned()
        .unwrap_or_else(|| Map::new().into());
    let kwargs = halite_wire::map! {"opts" => opts, "grains" => grains};
    let done = python.call(&about, "tops", &function, Vec::new(), kwargs, Map::new());
    Some(match done {
        Ok(Value::Map(found)) => Ok(found),
        Ok(Value::Nil) => Ok(Map::new()),
        Ok(_) => Err("it did not give a dictionary".to_owned()),
        Err(why) => Err(why),
    })
}

fn ext_nodes(line: &str, id: &MinionId, patience: Duration) -> Result<Map, String> {
    let mut words = shlex::split(line)?;
    words.push(id.to_string());
    let limits = Limits {
        time: patience,
        output: MOST_OUTPUT,
    };
    let out = command::output(&words, limits)?;
    let text = String::from_utf8(out).map_err(|_| "its output is not UTF-8".to_owned())?;
    match yaml::parse(&text).map_err(|e| e.to_string())? {
        Value::Map(data) => Ok(classes(&data)),
        Value::Nil => Ok(Map::new()),
        _ => Err("its output is not a map".to_owned()),
    }
}

/// Parses the output: `classes`, a list or a map, and `environment`.
fn classes(data: &Map) -> Map {
    let environment = match data.get("environment") {
        Some(name) => halite_target::python_str(name).into_owned(),
        None => "base".to_owned(),
    };
    let names = match data.get("classes") {
        Some(Value::Map(map)) => map.iter().map(|(name, _)| name.clone()).collect(),
        Some(Value::Array(list)) => list.clone(),
        _ => return Map::new(),
    };
    halite_wire::map! {environment => names}
}

/// Adds states; those of the same environment are merged.
fn merge(tops: &mut Map, more: Map) {
    for (environment, names) in more.0 {
        let Value::Str(environment) = environment else {
            continue;
        };
        match (tops.get_mut(&environment), names) {
            (Some(Value::Array(own)), Value::Array(names)) => {
                for name in names {
                    if !own.contains(&name) {
                        own.push(name);
                    }
                }
            }
            (_, names) => tops.set(environment, names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str, id: &str) -> Result<Map, String> {
        ext_nodes(line, &id.parse().unwrap(), Duration::from_secs(20))
    }

    #[test]
    fn output_as_of_a_classifier() {
        let list = halite_wire::map! {"base" => vec!["a".to_owned(), "b".to_owned()]};
        assert_eq!(run("printf 'classes: [a, b]\\n#%s'", "m1").unwrap(), list);
        assert_eq!(
            run(
                "printf 'classes: {a: , b: {x: 1}}\\nenvironment: base #%s'",
                "m1"
            )
            .unwrap(),
            list
        );
        assert_eq!(
            run("printf 'classes: [%s]\\nenvironment: dev'", "m1").unwrap(),
            halite_wire::map! {"dev" => vec!["m1".to_owned()]}
        );
        for nothing in [
            "printf '#%s'",
            "printf 'x: 1 #%s'",
            "printf 'classes: 1 #%s'",
        ] {
            assert_eq!(run(nothing, "m1").unwrap(), Map::new(), "{nothing}");
        }
    }

    #[test]
    fn no_shell_sees_the_id() {
        let got = run("printf 'classes: [\"%s\"]'", "$(id) ; echo").unwrap();
        assert_eq!(
            got,
            halite_wire::map! {"base" => vec!["$(id) ; echo".to_owned()]}
        );
    }

    #[test]
    fn failures_are_told() {
        for bad in [
            "",
            "false",
            "/no/such/program",
            "printf '[%s'",
            "printf 'a %s'",
            "x 'y",
        ] {
            assert!(run(bad, "m1").is_err(), "{bad}");
        }
        let slow = ext_nodes(
            "sleep 60; : ",
            &"m1".parse().unwrap(),
            Duration::from_millis(50),
        );
        assert!(slow.is_err());
    }
}
