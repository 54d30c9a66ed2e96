//! Execution functions of users' Python files (`_modules/*.py`), which the host process runs ([`halite_python`]).

use super::declare::{Arg, Function, Lit, Origin, Result};
use super::{Call, CallError, Context, with_call};
use crate::bus;
use halite_python::events::Listeners;
use halite_python::files as python_files;
use halite_python::files::{Known, PythonFiles};
use halite_python::{HostError, Nothing, PythonError, Scene, Service, questions};
use halite_wire::{Map, Value};
use std::sync::{Mutex, PoisonError};

/// Modules whose files have other names in stock (`aptpkg.py` for `pkg`): there, a user's file that renames itself comes
/// first. Elsewhere it only adds functions to a module of stock.
const STOCK_VIRTUAL: &[&str] = &[
    "at",
    "cmd",
    "group",
    "ip",
    "kernelpkg",
    "locale",
    "lowpkg",
    "network",
    "partition",
    "pkg",
    "service",
    "shadow",
    "sys",
    "sysctl",
    "system",
    "timezone",
    "user",
    "virtualenv",
];

static KNOWN: Known<Option<&'static Function>> = Known::new();
/// Descriptions live as long as the process, each once.
static DESCRIBED: Mutex<Vec<(Map, &'static Function)>> = Mutex::new(Vec::new());

/// A function of a Python file. Python is only asked if a file may have it; with `thorough`, because nothing else has
/// the function, any file that may have other names, and an installed Salt (`legacy_salt`).
pub fn find(ctx: &Context, fun: &str, thorough: bool) -> Option<&'static Function> {
    let files = python_files::files(&ctx.opts);
    let (module, _) = fun.split_once('.')?;
    let overrides = files.overrides("modules", module, STOCK_VIRTUAL.contains(&module));
    let is_possible = overrides || thorough && may_be_elsewhere(ctx, &files, "modules");
    if !is_possible {
        return None;
    }
    let key = if thorough {
        format!("{fun} anywhere")
    } else {
        fun.to_owned()
    };
    let look = || {
        let args = questions::find_args("modules", fun, !thorough);
        match question(ctx, "find", args) {
            Ok(Value::Map(map)) => Some(Some(described(ctx, map))),
            Ok(_) => Some(None),
            Err(e) => {
                log::error!("{fun}: {e}");
                None
            }
        }
    };
    KNOWN.get(&files, &key, look).flatten()
}

/// Whether functions of a kind may be where their names do not show it.
pub fn may_be_elsewhere(ctx: &Context, files: &PythonFiles, kind: &str) -> bool {
    files.may_rename(kind) || python_files::installed_salt(&ctx.opts).is_some()
}

/// Whether a module of this name may be there, without asking Python.
pub fn may_have(ctx: &Context, module: &str) -> bool {
    python_files::files(&ctx.opts).may_have("modules", module)
}

/// All functions of Python files of a kind.
pub fn functions(ctx: &Context, kind: &str) -> Vec<(String, &'static Function)> {
    let files = python_files::files(&ctx.opts);
    if !files.has_kind(kind) {
        return Vec::new();
    }
    let whose = format!("Python files of {kind}");
    descriptions(ctx, "list", vec![kind.into()], &whose)
}

/// The functions of an installed Salt that are `wanted`.
pub fn installed(
    ctx: &Context,
    kind: &str,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, &'static Function)> {
    let mut names = installed_names(ctx, kind);
    names.retain(|name| wanted(name));
    if names.is_empty() {
        return Vec::new();
    }
    descriptions(
        ctx,
        "describe",
        vec![kind.into(), names.into()],
        "legacy_salt",
    )
}

/// The functions that the host describes by name.
fn descriptions(
    ctx: &Context,
    name: &str,
    args: Vec<Value>,
    whose: &str,
) -> Vec<(String, &'static Function)> {
    let each = match question(ctx, name, args) {
        Ok(answer) => answer.into_map().unwrap_or_default(),
        Err(e) => {
            log::error!("{whose}: {e}");
            Map::new()
        }
    };
    let one = |(name, one): (Value, Value)| {
        Some((super::python::str(&name), described(ctx, one.into_map()?)))
    };
    each.0.into_iter().filter_map(one).collect()
}

/// The names of all functions of an installed Salt.
pub fn installed_names(ctx: &Context, kind: &str) -> Vec<String> {
    if python_files::installed_salt(&ctx.opts).is_none() {
        return Vec::new();
    }
    match question(ctx, "names", vec![kind.into()]) {
        Ok(names) => names.str_list(),
        Err(e) => {
            log::error!("legacy_salt: {e}");
            Vec::new()
        }
    }
}

/// Why a module has no functions, in stock's words; or why Python cannot be asked.
pub fn reason(ctx: &Context, kind: &str, fun: &str) -> Option<String> {
    let files = python_files::files(&ctx.opts);
    let (module, _) = fun.split_once('.')?;
    if !files.may_have(kind, module) && !may_be_elsewhere(ctx, &files, kind) {
        return None;
    }
    match questions::reason(kind, fun, |what, args| question(ctx, what, args)) {
        Ok(why) => why,
        Err(HostError::Broken(why)) => Some(format!("'{fun}' is not available: {why}")),
        Err(HostError::Raised(_)) => None,
    }
}

/// Why there is no such function although there is a file for it: the reason of its module, or what the file lacks.
pub fn fault(ctx: &Context, kind: &str, function: &str) -> Option<String> {
    let file = || python_files::files(&ctx.opts).fault(kind, function);
    reason(ctx, kind, function).or_else(file)
}

/// Why there is no such function, as far as that can be told; `None` if it is there. `place` is where its file would be.
pub fn missing(ctx: &Context, kind: &str, function: &str, place: &str) -> Option<String> {
    if has(ctx, kind, function, false) {
        return None;
    }
    let why = fault(ctx, kind, function);
    Some(why.unwrap_or_else(|| format!("there is no {function} in a Python file of {place}")))
}

/// Makes a request of the job's host.
fn request(
    call: &mut Call<'_>,
    name: &str,
    args: Vec<Value>,
    more: &mut dyn Service,
) -> Result<Value, HostError> {
    let ctx = call.ctx;
    let scene = Scene {
        grains: ctx.grains.clone(),
        pillar: ctx.pillar.clone(),
        ..Scene::new(&ctx.opts)?
    };
    let mut functions = Functions {
        call,
        more,
        listeners: Listeners::default(),
    };
    ctx.python.request(&scene, name, args, &mut functions)
}

/// The same outside any call, for what is asked before a function runs.
fn question(ctx: &Context, name: &str, args: Vec<Value>) -> Result<Value, HostError> {
    with_call(ctx, |call| request(call, name, args, &mut Nothing))
}

/// Whether there is a renderer in Python; `is_ours` if halite has one of that name, too. `py` is the host's own.
pub fn has_renderer(ctx: &Context, name: &str, is_ours: bool) -> bool {
    name == "py" && !is_ours || has(ctx, "renderers", &format!("{name}.render"), is_ours)
}

/// Whether there is a function in Python that is a part of our own work; `is_ours` if halite has it, too.
pub fn has(ctx: &Context, kind: &str, function: &str, is_ours: bool) -> bool {
    if !python_files::is_possible(&ctx.opts, kind, function, is_ours) {
        return false;
    }
    let args = questions::find_args(kind, function, is_ours);
    match question(ctx, "find", args) {
        Ok(found) => found.truthy(),
        Err(e) => {
            log::error!("{function} of {kind}: {e}");
            false
        }
    }
}

/// Calls such a function; of `optional`, it gets the keywords that it takes.
///
/// # Errors
/// What it raises.
pub fn use_function(
    ctx: &Context,
    kind: &str,
    function: &str,
    args: Vec<Value>,
    optional: Map,
) -> Result<Value> {
    let args = questions::use_args(kind, function, args, Map::new(), optional);
    ask(ctx, "use", args, &mut Nothing).inspect_err(|e| {
        if matches!(e, CallError::Traced(..)) {
            log::error!("{function}: {}", e.traceback());
        }
    })
}

/// A request outside any call: the code may ask for the minion's functions, and for what `more` answers.
///
/// # Errors
/// What the code raises.
pub fn ask(ctx: &Context, name: &str, args: Vec<Value>, more: &mut dyn Service) -> Result<Value> {
    with_call(ctx, |call| request(call, name, args, more)).map_err(raised)
}

fn described(ctx: &Context, mut map: Map) -> &'static Function {
    if let Some(by) = map.str("by") {
        let by = whose(ctx, by);
        map.set("by", by);
    }
    let mut all = DESCRIBED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = all.iter().find(|(known, _)| *known == map) {
        return known;
    }
    let function: &'static Function = Box::leak(Box::new(declared(&map)));
    all.push((map, function));
    function
}

/// An installed Salt by its version and place.
pub fn whose(ctx: &Context, by: &str) -> String {
    match python_files::installed_salt(&ctx.opts) {
        Some(place) => format!("{by} in {place}"),
        None => by.to_owned(),
    }
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

fn declared(map: &Map) -> Function {
    let list = |key: &str| map.get(key).and_then(Value::as_array).unwrap_or_default();
    let (names, defaults) = (list("args"), list("defaults"));
    let required = names.len().saturating_sub(defaults.len());
    let args = names.iter().enumerate().map(|(at, name)| Arg {
        name: leak(name.as_str().unwrap_or_default()),
        default: at
            .checked_sub(required)
            .and_then(|at| defaults.get(at))
            .map(|value| Lit::Value(Box::leak(Box::new(value.clone())))),
    });
    let full = leak(map.str("name").unwrap_or_default());
    let name = full.split_once('.').map_or(full, |(_, name)| name);
    let flag = |key: &str| map.get(key).is_some_and(Value::truthy);
    Function {
        // The host knows it by its full name.
        inner: full,
        varargs: flag("varargs"),
        keywords: flag("keywords"),
        out: map.str("out").map(leak),
        python: Some(
            map.str("by")
                .map_or(Origin::User, |by| Origin::Salt(leak(by))),
        ),
        ..Function::new(name, run, leak(map.str("doc").unwrap_or_default()))
            .args(Vec::leak(args.collect()))
    }
}

fn run(call: &mut Call<'_>) -> Result {
    let by = match call.function.python {
        Some(Origin::Salt(by)) => Some(by),
        _ => None,
    };
    call.ctx.python.note(call.function.inner, by);
    let args = vec![
        call.function.inner.into(),
        std::mem::take(&mut call.bound.varargs).into(),
        std::mem::take(&mut call.bound.kwargs).into(),
    ];
    let answer = request(call, "call", args, &mut Nothing).map_err(raised)?;
    let (value, retcode) = questions::value_and_retcode(answer);
    if retcode.truthy() {
        call.retcode = retcode;
    }
    Ok(value)
}

/// The error of a call for an exception in Python.
fn raised(error: HostError) -> CallError {
    match error {
        HostError::Broken(why) => CallError::Command(why),
        HostError::Raised(e) => match e.kind.as_str() {
            "CommandExecutionError" => CallError::Command(e.text),
            "CommandNotFoundError" => CallError::CommandNotFound(e.text),
            "SaltInvocationError" => CallError::Invocation(e.text),
            "TypeError" => CallError::Type(e.text),
            _ => CallError::Traced(e.class, e.text, e.trace),
        },
    }
}

/// The exception in Python for an error of ours.
pub fn python_error(error: &CallError) -> PythonError {
    PythonError::new(error.class(), error.message())
}

/// What a function may ask while it runs: our own functions, then what its caller offers.
struct Functions<'a, 'c> {
    call: &'a mut Call<'c>,
    more: &'a mut dyn Service,
    listeners: Listeners,
}

impl Service for Functions<'_, '_> {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
        if text(0) != "modules" {
            let opts = &self.call.ctx.opts;
            let event = self.listeners.ask(what, args, || bus::events(opts));
            return event.unwrap_or_else(|| self.more.ask(what, args));
        }
        if what != "call" {
            return about(self.call.ctx, what, text(1));
        }
        let positional = args.get(2).and_then(Value::as_array).unwrap_or_default();
        let keywords = args.get(3).and_then(Value::as_map).cloned();
        let before = std::mem::take(&mut self.call.retcode);
        let value = self
            .call
            .salt(text(1), positional.to_vec(), keywords.unwrap_or_default());
        let retcode = std::mem::replace(&mut self.call.retcode, before);
        match value {
            Ok(value) => Ok(Value::Array(vec![value, retcode])),
            Err(e) => Err(python_error(&e)),
        }
    }

    fn is_stopped(&self) -> bool {
        self.more.is_stopped()
    }
}

/// What the host is told of a function of ours: 0 if there is none, 2 if a renamed file of a user's comes before it.
pub fn standing(is_native: bool, name: &str, renamed: &[&str]) -> i64 {
    let module = name.split('.').next().unwrap_or_default();
    match (is_native, renamed.contains(&module)) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    }
}

fn about(ctx: &Context, what: &str, name: &str) -> Result<Value, PythonError> {
    let native = || super::custom::find(ctx, name).or_else(|| super::find(&ctx.grains, name));
    match what {
        "has" => Ok(standing(native().is_some(), name, STOCK_VIRTUAL).into()),
        "doc" => Ok(native().map(|f| f.doc).into()),
        "names" => {
            let names = super::native_functions(ctx).into_iter();
            Ok(names.map(|(name, _)| name).collect::<Vec<_>>().into())
        }
        _ => Nothing.ask(what, &[]),
    }
}
