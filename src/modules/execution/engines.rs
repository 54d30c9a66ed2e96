//! Engines in Python files of users (`engines`, `_engines`), and those of an installed Salt: code that runs as long as the minion or
//! the master, each in a process of its own.

use super::{CallError, Context, python, python_modules};
use halite_python::{JobHost, Service};
use halite_wire::{Map, Value};
use std::time::Duration;

/// How long an engine that has ended rests before it is started again.
pub const PAUSE: Duration = Duration::from_secs(10);

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
                let named = |(name, settings): (&Value, _)| Some(engine(name.as_str()?, settings));
                all.extend(
                    map.iter()
                        .filter_map(|(name, settings)| named((name, settings))),
                );
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

/// Runs an engine until it ends, and tells the log how. Whether there is such an engine; if there was none before (`was_there`),
/// the log has been told.
pub fn run(ctx: &Context, engine: &Engine, was_there: bool, more: &mut dyn Service) -> bool {
    let function = format!("{}.start", engine.module);
    let ctx = Context {
        python: JobHost::default(),
        ..ctx.clone()
    };
    let name = &engine.name;
    if !python_modules::has(&ctx, "engines", &function, false) {
        if was_there {
            let why = python_modules::reason(&ctx, "engines", &function).unwrap_or_else(|| {
                format!(
                    "there is no {function} in a Python file of engines_dirs or salt://_engines"
                )
            });
            log::error!("engine {name} does not run: {why}");
        }
        return false;
    }
    log::info!("engine {name} starts");
    let args = vec![function.into(), engine.settings.clone().into()];
    let done = python_modules::ask(&ctx, "engine", args, more);
    // Unlike those of a job, its programs do not outlive it: they would be more with each start.
    ctx.python.kill_all();
    let again = format!("it is started again in {} seconds", PAUSE.as_secs());
    match done {
        _ if more.is_stopped() => {}
        Ok(_) => log::warn!("engine {name} has ended; {again}"),
        Err(e) => {
            let why = match e {
                CallError::Traced(class, text, trace) => {
                    format!("Traceback (most recent call last):\n{trace}{class}: {text}")
                }
                other => other.message().to_owned(),
            };
            log::error!("engine {name} has failed; {again}: {why}");
        }
    }
    true
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
