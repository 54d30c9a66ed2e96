//! Custom grains of Python files (`_grains/*.py`), from a host process that ends with the collection.

use halite_python::files as python_files;
use halite_python::{JobHost, PythonError, Scene, Service};
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
    let collected = python_files::interpreter(&opts).and_then(|python| {
        let scene = Scene {
            python,
            opts,
            grains: Arc::new(core.clone()),
            files: files.files.clone(),
            ..Scene::default()
        };
        let answer =
            JobHost::with_limit(LIMIT).request(&scene, "grains", Vec::new(), &mut NoMinion);
        answer.map_err(|e| e.to_string())
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

/// Functions of the minion need grains, and cannot be called for them.
struct NoMinion;

impl Service for NoMinion {
    fn ask(&mut self, what: &str, _: &[Value]) -> Result<Value, PythonError> {
        match what {
            "has" => Ok(false.into()),
            "names" => Ok(Vec::<String>::new().into()),
            _ => Err(PythonError {
                class: "RuntimeError".to_owned(),
                text: "grains cannot call functions of the minion".to_owned(),
                ..PythonError::default()
            }),
        }
    }
}
