//! `docker_volume`.

use super::{told, with_engine, words};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::docker::{self, Engine};
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

pub const MODULE: StateModule = StateModule {
    name: "docker_volume",
    functions: &[
        StateFunction::new(
            "present",
            |s| with_engine(s, present),
            "Ensures that there is a volume with this driver.",
        )
        .args(args![driver = None, driver_opts = None, force = False]),
        StateFunction::new(
            "absent",
            |s| with_engine(s, absent),
            "Ensures that there is no such volume.",
        )
        .args(args![driver = None]),
    ],
};

/// Options as a map, if they are one or a list of some.
fn options(value: &Value) -> Value {
    let Value::Array(list) = value else {
        return value.clone();
    };
    let mut all = Map::new();
    for one in list {
        let Value::Map(map) = one else {
            return value.clone();
        };
        for (key, value) in map.iter() {
            all.set(python::str(key), value.clone());
        }
    }
    all.into()
}

fn present(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    let name = s.name();
    let (driver, options) = (s.arg("driver").clone(), options(s.arg("driver_opts")));
    let Some(volume) = docker::find_volume(engine, &name)? else {
        if s.test {
            return Ok(StateOutcome::would(format!(
                "The volume '{name}' will be created"
            )));
        }
        return create(engine, &name, &driver, &options, Map::new());
    };
    let own = volume.get("Driver").cloned().unwrap_or_default();
    if driver.is_nil() || own == driver {
        return Ok(StateOutcome::good(format!(
            "Volume '{name}' already exists."
        )));
    }
    if !s.flag("force") {
        let text = format!(
            "Driver for existing volume '{name}' ('{}') does not match specified driver ('{}') and force is False",
            python::str(&own),
            python::str(&driver)
        );
        let result = if s.test { None } else { Some(false) };
        return Ok(StateOutcome::new(result, text));
    }
    if s.test {
        // Stock names the volume where it means the driver.
        return Ok(StateOutcome::would(format!(
            "The volume '{name}' will be replaced with a new one using the driver '{}'",
            python::str(&volume.into())
        )));
    }
    if let Err(fault) = docker::remove_volume(engine, &name) {
        return Ok(StateOutcome::bad(format!(
            "Failed to remove volume '{name}': {}",
            words(fault)?
        )));
    }
    create(engine, &name, &driver, &options, map! {"removed" => true})
}

fn create(
    engine: &Engine,
    name: &str,
    driver: &Value,
    options: &Value,
    mut changes: Map,
) -> Result {
    match docker::create_volume(engine, name, driver, options) {
        Ok(made) => {
            changes.set("created", made);
            Ok(StateOutcome::good("").changes(changes))
        }
        Err(fault) => {
            let text = format!("Failed to create volume '{name}': {}", words(fault)?);
            Ok(StateOutcome::bad(text).changes(changes))
        }
    }
}

fn absent(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    let name = s.name();
    if docker::find_volume(engine, &name)?.is_none() {
        return Ok(StateOutcome::good(format!(
            "Volume '{name}' already absent"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "The volume '{name}' will be removed"
        )));
    }
    match docker::remove_volume(engine, &name) {
        Ok(()) => Ok(StateOutcome::good("").changes(map! {"removed" => true})),
        Err(fault) => {
            let text = words(fault)?;
            told(halite_modules::execution::CallError::Command(format!(
                "Failed to remove volume '{name}': {text}"
            )))
        }
    }
}
