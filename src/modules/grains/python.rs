//! Custom grains of Python files (`_grains/*.py`), from a host process that ends with the collection.

use halite_python::files as python_files;
use halite_python::{JobHost, Nothing, Scene};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// How long all of them may take: the minion waits for its grains.
const LIMIT: Duration = Duration::from_secs(60);

/// Collects them; functions with an argument `grains` see those collected before.
pub fn collect(opts: Map, core: &Map) -> Map {
    let opts = Arc::new(opts);
    let files = python_files::files(&opts);
    if !files.has_kind("grains") {
        return Map::new();
    }
    let collected = Scene::new(&opts).and_then(|scene| {
        let scene = Scene {
            grains: Arc::new(core.clone()),
            ..scene
        };
        // Functions of the minion need grains: there are none for them.
        JobHost::with_limit(LIMIT).request(&scene, "grains", Vec::new(), &mut Nothing)
    });
    match collected {
        Ok(Value::Map(grains)) => grains,
        Ok(_) => Map::new(),
        Err(why) => {
            log::error!("the grains of Python files are ignored: {why}");
            Map::new()
        }
    }
}
