//! Custom grains of Python files (`_grains/*.py`), from a host process that ends with the collection.

use halite_python::files as python_files;
use halite_python::{JobHost, Nothing, PythonError, PythonFile, Scene, Service};
use halite_sys::signals::StopFlag;
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// How long each function, and the loading of each file, may take: the minion waits for its grains.
const LIMIT: Duration = Duration::from_secs(60);

/// Collects them; functions with an argument `grains` see those collected before. One that fails, hangs or ends its process
/// costs its own grains alone. With `stop` it ends at once, with those that are there.
pub fn collect(opts: Map, core: &Map, stop: &StopFlag) -> Map {
    let opts = Arc::new(opts);
    if !python_files::files(&opts).has_kind("grains") {
        return Map::new();
    }
    match Scene::new(&opts) {
        Ok(scene) => Collection::new(scene, core, LIMIT, stop).run(),
        Err(why) => {
            log::error!("the grains of Python files are ignored: {why}");
            Map::new()
        }
    }
}

/// Functions of the minion need grains: there are none for them.
struct UntilStop<'a>(&'a StopFlag);

impl Service for UntilStop<'_> {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        Nothing.ask(what, args)
    }

    fn is_stopped(&self) -> bool {
        self.0.is_set()
    }
}

struct Collection<'a> {
    host: JobHost,
    scene: Scene,
    found: Map,
    stop: &'a StopFlag,
}

impl Collection<'_> {
    fn new<'a>(scene: Scene, core: &Map, limit: Duration, stop: &'a StopFlag) -> Collection<'a> {
        let grains = Arc::new(core.clone());
        Collection {
            host: JobHost::with_limit_of_each(limit),
            scene: Scene { grains, ..scene },
            found: Map::new(),
            stop,
        }
    }

    fn run(mut self) -> Map {
        let files = self.scene.files.clone();
        let mut functions = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for file in files.iter().filter(|file| file.kind == "grains") {
            if seen.insert(&file.name) {
                let names = self.ask("grain_names", file, Vec::new());
                let names = names.as_ref().and_then(Value::as_array).unwrap_or_default();
                let names = names.iter().filter_map(Value::as_str).map(str::to_owned);
                functions.extend(names.map(|name| (name, file)));
            }
        }
        functions.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, file) in functions {
            if let Some(Value::Map(values)) = self.ask("grains", file, vec![name.into()]) {
                super::add(
                    Arc::make_mut(&mut self.scene.grains),
                    &values,
                    &self.scene.opts,
                );
                super::add(&mut self.found, &values, &self.scene.opts);
            }
        }
        self.found
    }

    fn ask(&self, request: &str, file: &PythonFile, more: Vec<Value>) -> Option<Value> {
        let mut args = vec![Value::from(file.name.as_str())];
        let function = more.first().and_then(Value::as_str).map(str::to_owned);
        args.extend(more);
        if self.stop.is_set() {
            return None;
        }
        let mut service = UntilStop(self.stop);
        match self.host.request(&self.scene, request, args, &mut service) {
            Ok(value) => Some(value),
            Err(_) if self.stop.is_set() => None,
            Err(why) => {
                let what =
                    function.map_or("its grains".to_owned(), |f| format!("the grains of {f}"));
                log::error!("{}: {what} are ignored: {why}", file.path);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn a_function_or_file_that_hangs_or_ends_the_process_costs_its_own_grains_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().display().to_string();
        let write = |name: &str, text: &str| {
            let path = dir.path().join("grains").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a.py", "def f():\n    return {'a': 1}\n");
        write("b.py", "import time\nwhile True:\n    time.sleep(1)\n");
        write(
            "c.py",
            "import os\ndef f():\n    os._exit(3)\ndef g():\n    return {'c': 1}\n",
        );
        write(
            "d.py",
            "def f():\n    import time\n    while True:\n        time.sleep(1)\n",
        );
        write(
            "e.py",
            "def f(grains):\n    return {'seen': [grains['core'], grains['a'], grains['c']]}\n",
        );
        write("f.py", "def f():\n    raise OSError('no')\n");
        let opts = Arc::new(map! {"extension_modules" => root});
        let scene = Scene::new(&opts).unwrap();
        let core = map! {"core" => 7};
        let stop = StopFlag::default();
        let found = Collection::new(scene, &core, Duration::from_secs(5), &stop).run();
        let seen: Vec<Value> = vec![7.into(), 1.into(), 1.into()];
        assert_eq!(found, map! {"a" => 1, "c" => 1, "seen" => seen});
    }

    #[test]
    fn whoever_is_stopped_waits_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let started = dir.path().join("started");
        let path = dir.path().join("grains/a.py");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = format!(
            "import time\nopen({:?}, 'w').close()\nwhile True:\n    time.sleep(1)\n",
            started.to_str().unwrap()
        );
        std::fs::write(path, text).unwrap();
        let opts = Arc::new(map! {"extension_modules" => dir.path().display().to_string()});
        let scene = Scene::new(&opts).unwrap();
        let stop = StopFlag::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !started.exists() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                stop.set();
            });
            let day = Duration::from_secs(86_400);
            let found = Collection::new(scene, &Map::new(), day, &stop).run();
            assert!(found.is_empty());
        });
    }
}
