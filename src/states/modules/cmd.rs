//! `cmd`: commands and scripts (`salt/states/cmd.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::{Arg, Lit, opt};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, json, shlex};
use std::path::Path;

pub(super) const MODULE: StateModule = StateModule {
    name: "cmd",
    functions: &[
        StateFunction::new(
            "call",
            call,
            "Runs a Python function of a `#!py` file; there are none here.",
        )
        .args(args![func])
        .keywords(),
        StateFunction::new(
            "mod_watch",
            mod_watch,
            "Runs the command when a watched state changes.",
        )
        .args(WATCH)
        .keywords(),
        StateFunction::new("run", run, "Runs a command.")
            .args(RUN)
            .keywords(),
        StateFunction::new("script", script, "Downloads a script and runs it.")
            .args(SCRIPT)
            .keywords(),
        StateFunction::new(
            "wait",
            wait,
            "Runs a command only when a watched state changes.",
        )
        .keywords(),
        StateFunction::new(
            "wait_call",
            call,
            "Runs a Python function when a watched state changes.",
        )
        .args(args![func])
        .keywords(),
        StateFunction::new(
            "wait_script",
            wait,
            "Runs a script only when a watched state changes.",
        )
        .keywords(),
        StateFunction::new("watch", wait, "The same as wait.").keywords(),
    ],
};

const RUN: &[Arg] = args![
    cwd = None,
    root = None,
    runas = None,
    shell = None,
    env = None,
    prepend_path = None,
    stateful = False,
    output_loglevel = "debug",
    hide_output = False,
    timeout = None,
    ignore_timeout = False,
    use_vt = False,
    success_retcodes = None,
    success_stdout = None,
    success_stderr = None
];
const SCRIPT: &[Arg] = args![
    source = None,
    template = None,
    cwd = None,
    runas = None,
    password = None,
    shell = None,
    env = None,
    stateful = False,
    timeout = None,
    use_vt = False,
    output_loglevel = "debug",
    hide_output = False,
    defaults = None,
    context = None,
    success_retcodes = None,
    success_stdout = None,
    success_stderr = None
];
const WATCH: &[Arg] = &[opt("sfun", Lit::Nil), opt("stateful", Lit::Bool(false))];

fn wait(_: &mut State<'_, '_>) -> Result {
    Ok(StateOutcome::good(""))
}

fn call(_: &mut State<'_, '_>) -> Result {
    Ok(StateOutcome::bad(
        "cmd.call and cmd.wait_call need a Python function, which only a #!py file can hand over",
    ))
}

/// How a command tells what it did.
enum Stateful {
    No,
    /// With the command to use in test mode.
    Yes(Option<String>),
}

impl Stateful {
    fn of(value: &Value) -> Stateful {
        match value {
            Value::Bool(true) => Stateful::Yes(None),
            Value::Array(list) => {
                let named = list.iter().find_map(|item| item.as_map()?.get("test_name"));
                Stateful::Yes(named.map(python::str))
            }
            Value::Map(map) => match map.get("test_name") {
                Some(name) => Stateful::Yes(Some(python::str(name))),
                None => Stateful::No,
            },
            _ => Stateful::No,
        }
    }
}

/// An environment that is neither a list nor a map cannot be read (`_is_true`-like checks of stock).
fn wrong_env(env: &Value) -> bool {
    !matches!(env, Value::Nil | Value::Array(_) | Value::Map(_)) && env.truthy()
}

/// Keywords of the command: what was declared and is nil here is left to the function's own defaults.
fn options(s: &State<'_, '_>, names: &[&str]) -> Map {
    let mut kwargs = s.kwargs.clone();
    for name in names {
        let value = s.arg(name);
        if !value.is_nil() {
            kwargs.set(*name, value.clone());
        }
    }
    kwargs
}

fn run(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if wrong_env(s.arg("env")) {
        return Ok(StateOutcome::bad(
            "Invalidly-formatted 'env' parameter. See documentation.",
        ));
    }
    let stateful = Stateful::of(s.arg("stateful"));
    let mut command = name.clone();
    if s.test {
        match &stateful {
            Stateful::No => {
                return Ok(StateOutcome::would(format!(
                    "Command \"{name}\" would have been executed"
                ))
                .changes(halite_wire::map! {"cmd" => name}));
            }
            Stateful::Yes(None) => return Ok(StateOutcome::would("")),
            Stateful::Yes(Some(test)) => command = test.clone(),
        }
    }
    if let Some(cwd) = s.text("cwd")
        && !cwd.is_empty()
        && !Path::new(&cwd).is_dir()
        && s.arg("root").is_nil()
    {
        return Ok(StateOutcome::bad(format!(
            "Desired working directory \"{cwd}\" is not available"
        )));
    }
    let mut kwargs = options(
        s,
        &[
            "cwd",
            "root",
            "runas",
            "env",
            "prepend_path",
            "output_loglevel",
            "hide_output",
            "use_vt",
            "success_retcodes",
            "success_stdout",
            "success_stderr",
            "timeout",
            "shell",
        ],
    );
    kwargs.set("python_shell", true);
    let ran = s.salt_with("cmd.run_all", vec![command.into()], kwargs);
    let told = format!("Command \"{name}\" run");
    match ran {
        Ok(Value::Map(all)) => finish(s, all, told, stateful),
        Ok(other) => Err(CallError::Command(format!(
            "cmd.run_all returned {}",
            python::repr(&other)
        ))),
        Err(fault) => ended(s, fault, told),
    }
}

/// A command that could not be run, or was too slow.
fn ended(s: &State<'_, '_>, fault: CallError, told: String) -> Result {
    match fault {
        CallError::Raised(class, text) if class.ends_with("TimedProcTimeoutError") => {
            let ignored = s.kwargs.get("ignore_timeout").is_some_and(Value::truthy);
            Ok(StateOutcome::new(Some(ignored), told).changes(
                halite_wire::map! {"stdout" => text, "stderr" => "", "retcode" => i64::from(!ignored)},
            ))
        }
        CallError::Command(text) | CallError::CommandNotFound(text) => Ok(StateOutcome::bad(text)),
        other => Err(other),
    }
}

/// The outcome of a command that has ended.
fn finish(s: &State<'_, '_>, all: Map, told: String, stateful: Stateful) -> Result {
    let mut retcode = all
        .get("retcode")
        .map_or(0, |code| code.as_int().unwrap_or(0));
    let mut all = all;
    if s.function.name == "run" && s.flag("ignore_timeout") && timed_out(&all) {
        retcode = 0;
        all.set("retcode", 0);
    }
    let mut outcome = StateOutcome::new(Some(retcode == 0), told).changes(all.clone());
    if matches!(stateful, Stateful::Yes(_)) {
        outcome = reinterpreted(outcome, all);
    }
    // In test mode, only a command of `test_name` gets here.
    if s.test && outcome.result == Some(true) && outcome.changes.truthy() {
        outcome.result = None;
    }
    Ok(outcome)
}

fn timed_out(all: &Map) -> bool {
    all.str("stdout")
        .is_some_and(|text| text.contains(" : Timed out after "))
}

/// What the last line of a command's output says of changes (`stateful`).
fn reinterpreted(mut outcome: StateOutcome, mut all: Map) -> StateOutcome {
    let out = all.str("stdout").unwrap_or_default().to_owned();
    let out = out.trim_end();
    // As in stock, the last character goes if there is one line only.
    let cut = out.rfind('\n');
    let last = cut.map_or(out, |at| &out[at + 1..]);
    let rest = match cut {
        Some(at) => &out[..at],
        None => &out[..out.char_indices().next_back().map_or(0, |(at, _)| at)],
    };
    let Some(mut said) = said(last) else {
        outcome.result = Some(false);
        outcome.comment =
            "Failed parsing script output! Stdout must be JSON or a line of name=value pairs."
                .to_owned();
        return outcome;
    };
    let changed = said.get("changed").is_some_and(is_true);
    outcome.comment = said
        .remove("comment")
        .as_ref()
        .map(python::str)
        .unwrap_or_default();
    if changed {
        all.set("stdout", rest);
        for (key, value) in all.0 {
            said.set(python::str(&key), value);
        }
        outcome.changes = said.into();
    } else {
        outcome.changes = Map::new().into();
    }
    outcome
}

/// `salt/utils/data.py is_true`.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Str(text) => match text.parse::<f64>() {
            Ok(number) => number > 0.0,
            Err(_) => matches!(text.to_lowercase().as_str(), "true" | "yes" | "on"),
        },
        other => other.truthy(),
    }
}

/// JSON, or words of `name=value`.
fn said(line: &str) -> Option<Map> {
    if let Ok(Value::Map(map)) = json::parse::<Value>(line.as_bytes()) {
        return Some(map);
    }
    let mut map = Map::new();
    for word in shlex::split(line).ok()? {
        let (key, value) = word.split_once('=')?;
        map.set(key, value);
    }
    Some(map)
}

fn script(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if wrong_env(s.arg("env")) {
        return Ok(StateOutcome::bad(
            "Invalidly-formatted 'env' parameter. See documentation.",
        ));
    }
    for key in ["context", "defaults"] {
        if !matches!(s.arg(key), Value::Nil | Value::Map(_)) && s.flag(key) {
            return Ok(StateOutcome::bad(format!(
                "Invalidly-formatted '{key}' parameter. Must be formed as a dict."
            )));
        }
    }
    let stateful = Stateful::of(s.arg("stateful"));
    if s.test {
        return Ok(match stateful {
            Stateful::No => {
                StateOutcome::would(format!("Command '{name}' would have been executed"))
            }
            Stateful::Yes(_) => StateOutcome::would(""),
        });
    }
    if let Some(cwd) = s.text("cwd")
        && !cwd.is_empty()
        && !Path::new(&cwd).is_dir()
    {
        return Ok(StateOutcome::bad(format!(
            "Desired working directory \"{cwd}\" is not available"
        )));
    }
    let mut kwargs = options(
        s,
        &[
            "template",
            "cwd",
            "runas",
            "password",
            "env",
            "timeout",
            "use_vt",
            "output_loglevel",
            "hide_output",
            "success_retcodes",
            "success_stdout",
            "success_stderr",
            "shell",
        ],
    );
    let mut context = s.arg("defaults").as_map().cloned().unwrap_or_default();
    for (key, value) in s.arg("context").as_map().into_iter().flat_map(Map::iter) {
        context.set(python::str(key), value.clone());
    }
    if !context.is_empty() {
        kwargs.set("context", context);
    }
    kwargs.set("saltenv", s.saltenv());
    kwargs.set("python_shell", true);
    let mut words = name.split_whitespace();
    let source = match s.text("source") {
        Some(source) => source,
        None => name.clone(),
    };
    let _script = words.next();
    let arguments: Vec<&str> = words.collect();
    if s.text("source").is_some() && !arguments.is_empty() && !kwargs.contains("args") {
        kwargs.set("args", arguments.join(" "));
    }
    let ran = s.salt_with("cmd.script", vec![source.as_str().into()], kwargs);
    let told = format!("Command '{name}' run");
    match ran {
        Ok(Value::Map(all)) => {
            if all.get("cache_error").is_some_and(Value::truthy) {
                let why = format!(
                    "Unable to cache script {source} from saltenv '{}'",
                    s.saltenv()
                );
                return Ok(StateOutcome::bad(why).changes(all));
            }
            finish(s, all, told, stateful)
        }
        Ok(other) => Err(CallError::Command(format!(
            "cmd.script returned {}",
            python::repr(&other)
        ))),
        Err(fault) => ended(s, fault, told),
    }
}

/// Runs what `cmd.wait` or `cmd.wait_script` has waited for.
fn mod_watch(s: &mut State<'_, '_>) -> Result {
    let wanted = match s.text("sfun").as_deref() {
        Some("wait" | "run" | "watch") => "run",
        Some("wait_script" | "script") => "script",
        Some(other) => {
            return Ok(StateOutcome::bad(format!(
                "cmd.{other} does not work with the watch requisite, please use cmd.wait or cmd.wait_script"
            )));
        }
        None => "run",
    };
    let Some(function) = MODULE.function(wanted) else {
        return Ok(StateOutcome::bad(format!("cmd.{wanted} does not exist")));
    };
    s.run_as(function)
}
