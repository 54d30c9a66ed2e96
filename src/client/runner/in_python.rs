//! Runs runner functions of users' Python files, which may call other runners and wheel functions.

use super::{Args, Function, RunContext, RunError, RunnerOutput, native, process};
use crate::python::{Described, Master, Python, arguments_at, call_at, python_error};
use crate::wheel;
use halite_python::{Nothing, PythonError, Service};
use halite_wire::Value;
use std::cell::Cell;

thread_local! {
    /// Where the function that is about to run was found: the process that has loaded it runs it, too.
    static FOUND: Cell<Option<Python>> = const { Cell::new(None) };
}

/// A function that was found, as one of ours.
pub(super) fn function(found: Described, python: Python) -> Function {
    FOUND.set(Some(python));
    of_table(found)
}

/// A function, for its description.
pub(super) fn of_table(found: Described) -> Function {
    Function {
        name: found.name,
        args: found.args,
        doc: found.doc,
        run,
    }
}

fn run(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let python = FOUND.take();
    let python = python.unwrap_or_else(|| Python::new(&context.config));
    let function = context.run.fun.clone();
    let jid = context.run.jid.as_ref().map(ToString::to_string);
    let jid = jid.unwrap_or_default();
    let run = halite_wire::map! {
        "tag" => format!("salt/run/{jid}"), "jid" => jid, "user" => context.run.user.as_str(),
    };
    let mut runners = Runners::new(context);
    let done = python.call("runners", &function, args, run, &mut runners);
    let (mut value, retcode) = done?;
    if retcode != 0 {
        context.run.retcode = retcode;
    }
    // As from Salt's own runners: data, and how to show them.
    if let Value::Map(map) = &mut value
        && map.contains("data")
        && let Some(out) = map.str("outputter").map(str::to_owned)
    {
        return Ok(RunnerOutput {
            value: map.remove("data").unwrap_or_default(),
            out: Some(out),
        });
    }
    Ok(value.into())
}

/// What a runner, or an engine, may ask for.
pub struct Runners<'a, 'c>(&'a mut RunContext<'c>, Master);

impl<'a, 'c> Runners<'a, 'c> {
    /// Within a run.
    pub fn new(context: &'a mut RunContext<'c>) -> Runners<'a, 'c> {
        let master = Master::new(&context.config, &context.stop);
        Runners(context, master)
    }
}

impl Service for Runners<'_, '_> {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
        match what {
            "has" | "doc" | "names" | "call" if text(0) != "runners" => Nothing.ask(what, args),
            "has" => Ok(i64::from(native(text(1)).is_some()).into()),
            "doc" => Ok(native(text(1)).map(|f| f.doc).into()),
            "names" => {
                let names = super::functions().map(|f| f.name.to_owned());
                Ok(names.collect::<Vec<_>>().into())
            }
            "call" => {
                let value = self.runner(text(1), &arguments_at(args, 2))?;
                Ok(Value::Array(vec![value, 0.into()]))
            }
            "wheel" => Ok(wheel::answer(&self.0.config, &call_at(args)).into()),
            "progress" => {
                let data = args.get(1).and_then(Value::as_map).cloned();
                let data = data.unwrap_or_default();
                match text(0) {
                    "progress" => self.0.progress(data),
                    suffix => drop(self.0.run.fire(suffix, data)),
                }
                Ok(true.into())
            }
            "runner_async" => {
                let call = call_at(args);
                let started = process::start(&call);
                started.map_err(|e| PythonError::new("OSError", e.to_string()))?;
                Ok(call.jid.as_str().into())
            }
            _ => self.1.ask(what, args),
        }
    }

    fn is_stopped(&self) -> bool {
        self.0.stop.is_set()
    }
}

impl Runners<'_, '_> {
    /// One of our own; those in Python call each other without us.
    fn runner(&mut self, name: &str, args: &Args) -> Result<Value, PythonError> {
        let function = native(name).ok_or_else(|| PythonError::new("KeyError", name))?;
        let checked = args.check(name, function.args);
        checked.map_err(|e| PythonError::new(e.class(), e.to_string()))?;
        let done = (function.run)(self.0, args);
        done.map(|done| done.value).map_err(|e| python_error(&e))
    }
}
