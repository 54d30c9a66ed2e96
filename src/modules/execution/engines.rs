//! Engines in Python files of users (`engines`, `_engines`), and those of an installed Salt: code that runs as long as the minion or
//! the master, each in a process of its own.

use super::{Context, python, python_modules};
use halite_python::{JobHost, Service, files};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

const KIND: &str = "engines";
/// How long an engine that has ended rests before it is started again.
const PAUSE: Duration = Duration::from_secs(10);

/// An engine of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Its name, for people.
    pub name: String,
    /// The module that has its `start`: `engine_module`, else the name.
    pub module: String,
    /// The arguments of `start`.
    pub settings: Map,
}

/// The engines of the option `engines`: names, and maps of names to settings.
pub fn configured(option: &[Value]) -> Vec<Engine> {
    let mut all = Vec::new();
    for entry in option {
        match entry {
            Value::Str(name) => all.push(engine(name, &Value::Nil)),
            Value::Map(map) => {
                for (name, settings) in map.iter() {
                    all.extend(name.as_str().map(|name| engine(name, settings)));
                }
            }
            other => {
                let shown = python::repr(other);
                log::error!("engines: {shown} is neither a name nor a map");
            }
        }
    }
    all
}

fn engine(name: &str, settings: &Value) -> Engine {
    let mut settings = settings.as_map().cloned().unwrap_or_default();
    let module = settings.remove("engine_module");
    Engine {
        name: name.to_owned(),
        module: module
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or(name)
            .to_owned(),
        settings,
    }
}

/// Runs an engine, again whenever it has ended, until `rest`, which waits for a time, says that it is over.
pub fn keep_running(
    ctx: &Context,
    engine: &Engine,
    more: &mut dyn Service,
    rest: impl Fn(Duration) -> bool,
) {
    let mut is_told = false;
    loop {
        let ctx = Context {
            python: JobHost::default(),
            ..ctx.clone()
        };
        let place = "engines_dirs or salt://_engines";
        let why = python_modules::missing(&ctx, KIND, &function(engine), place);
        match &why {
            None => run(&ctx, engine, more),
            Some(why) if !is_told => log::error!("engine {} does not run: {why}", engine.name),
            Some(_) => {}
        }
        is_told = why.is_some();
        if !rest(PAUSE) {
            return;
        }
    }
}

/// Those of the option `engines` that are in no Python file, in words; `sync` is the command that brings files.
pub fn absent(opts: &Arc<Map>, option: &[Value], sync: &str) -> Vec<String> {
    configured(option)
        .into_iter()
        .filter(|engine| !files::is_possible(opts, KIND, &engine.module, false))
        .map(|engine| {
            format!(
                "engines: '{}' does not run: there is no Python file {}.py in engines_dirs or salt://_engines ({sync})",
                engine.name, engine.module
            )
        })
        .collect()
}

fn function(engine: &Engine) -> String {
    format!("{}.start", engine.module)
}

/// Runs an engine until it ends, and tells the log how.
fn run(ctx: &Context, engine: &Engine, more: &mut dyn Service) {
    let name = &engine.name;
    log::info!("engine {name} starts");
    let args = vec![function(engine).into(), engine.settings.clone().into()];
    let done = python_modules::ask(ctx, "engine", args, more);
    // Unlike those of a job, its programs do not outlive it: they would be more with each start.
    ctx.python.kill_all();
    let again = format!("it is started again in {} seconds", PAUSE.as_secs());
    match done {
        _ if more.is_stopped() => {}
        Ok(_) => log::warn!("engine {name} has ended; {again}"),
        Err(e) => log::error!("engine {name} has failed; {again}: {}", e.traceback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_named_or_have_settings() {
        let settings = halite_wire::map! {"engine_module" => "tail", "path" => "/x"};
        let option = vec![
            Value::from("plain"),
            halite_wire::map! {"second" => settings, "third" => Value::Nil}.into(),
            1.into(),
        ];
        let all = configured(&option);
        let names: Vec<_> = all
            .iter()
            .map(|one| (one.name.as_str(), one.module.as_str()))
            .collect();
        assert_eq!(
            names,
            [("plain", "plain"), ("second", "tail"), ("third", "third")]
        );
        assert_eq!(all[1].settings, halite_wire::map! {"path" => "/x"});
    }
}
