//! `ext_nodes`: the states of a minion as a command tells them (`salt/tops/ext_nodes.py`).

use halite_sys::command::{self, Limits};
use halite_wire::{Map, Value, shlex, yaml};
use std::time::Duration;

/// Its name in `master_tops`.
pub const MODULE: &str = "ext_nodes";
/// Bytes that the command may print at most.
const MOST_OUTPUT: usize = 4 << 20;

/// Maps environments to names of states. The id is the command's last argument; no shell sees it.
///
/// # Errors
/// The command cannot be run, fails or takes too long, or its output is not a map in YAML.
pub fn run(line: &str, id: &str, patience: Duration) -> Result<Map, String> {
    let mut words = shlex::split(line)?;
    words.push(id.to_owned());
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
pub fn merge(tops: &mut Map, more: Map) {
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
    use halite_wire::Map;
    use std::time::Duration;

    fn run(line: &str, id: &str) -> Result<Map, String> {
        super::run(line, id, Duration::from_secs(20))
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
        let slow = super::run("sleep 60; : ", "m1", Duration::from_millis(50));
        assert!(slow.is_err());
    }
}
