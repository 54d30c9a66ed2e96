//! State functions of users' Python files (`_states/*.py`), which the job's host process runs.

use super::{MinionStates, exception, full_name};
use crate::declare::{StateOutcome, is_engine_key};
use crate::modules;
use halite_modules::execution::python_modules::{
    self, ask, may_be_elsewhere, python_error, standing,
};
use halite_modules::execution::{CallError, Context, python};
use halite_python::files::{self as python_files, Known};
use halite_python::{Nothing, PythonError, Service};
use halite_wire::{Map, Value};
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

/// State modules whose files have other names in stock: a user's file that renames itself comes before them.
const STOCK_RENAMED: &[&str] = &["pip", "virtualenv"];

/// Descriptions by name.
static KNOWN: Known<Option<Arc<Map>>> = Known::new();

/// Whether there are states in Python.
pub(crate) fn has_any(ctx: &Context) -> bool {
    python_files::files(&ctx.opts).has_kind("states")
        || python_files::installed_salt(&ctx.opts).is_some()
}

/// The description of a state function in Python; the host is only asked if a file may have it.
pub(crate) fn find(ctx: &Context, name: &str) -> Option<Arc<Map>> {
    let files = python_files::files(&ctx.opts);
    let (module, function) = name.split_once('.')?;
    let thorough = modules::find(module, function).is_none();
    let overrides = files.overrides("states", module, STOCK_RENAMED.contains(&module));
    let is_possible = overrides || thorough && may_be_elsewhere(ctx, &files, "states");
    if !is_possible {
        return None;
    }
    let look = || {
        let args = vec!["states".into(), name.into(), thorough.into()];
        Some(match ask(ctx, "find", args, &mut About) {
            Ok(Value::Map(map)) => Some(Arc::new(map)),
            Ok(_) => None,
            Err(e) => {
                log::error!("{name}: {}", e.message());
                None
            }
        })
    };
    KNOWN.get(&files, name, look).flatten()
}

/// The modules of high data that are in Python and react to `watch`.
pub(crate) fn watching(ctx: &Context, high: &Map) -> Vec<String> {
    if !has_any(ctx) {
        return Vec::new();
    }
    let bodies = high.iter().filter_map(|(_, body)| body.as_map());
    let names: BTreeSet<&str> = bodies
        .flat_map(Map::iter)
        .filter_map(|(key, _)| key.as_str())
        .filter(|key| !key.starts_with("__"))
        .map(|key| key.split_once('.').map_or(key, |(module, _)| module))
        .collect();
    let files = python_files::files(&ctx.opts);
    let has_salt = python_files::installed_salt(&ctx.opts).is_some();
    let reacts = |module: &&str| {
        (files.may_have("states", module) || has_salt && !modules::has(module))
            && find(ctx, &format!("{module}.mod_watch")).is_some()
    };
    names
        .into_iter()
        .filter(reacts)
        .map(str::to_owned)
        .collect()
}

/// What stock says of a declaration without a required argument.
pub(crate) fn missing_argument(described: &Map, low: &Map) -> Option<String> {
    let list = |key: &str| {
        described
            .get(key)
            .and_then(Value::as_array)
            .unwrap_or_default()
    };
    let (args, defaults) = (list("args"), list("defaults"));
    let required = &args[..args.len().saturating_sub(defaults.len())];
    let missing = required
        .iter()
        .filter_map(Value::as_str)
        .find(|arg| !low.contains(arg))?;
    let name = full_name(low);
    Some(format!("Missing parameter {missing} for state {name}"))
}

/// Whether states of a module in Python can be joined (`mod_aggregate`).
pub(crate) fn joins(ctx: &Context, module: &str) -> bool {
    modules::find(module, "mod_aggregate").is_none()
        && find(ctx, &format!("{module}.mod_aggregate")).is_some()
}

/// What `mod_aggregate` makes of a call and of those that may be joined with it.
pub(crate) fn joined(states: &MinionStates, low: &Map, others: &[&Map]) -> Option<Map> {
    let name = format!("{}.mod_aggregate", low.str("state")?);
    // As in stock, the one that the others are joined with is marked.
    let mut low = low.clone();
    low.set("__agg__", true);
    let chunks = std::iter::once(&low).chain(others.iter().copied());
    let args = vec![
        name.as_str().into(),
        low.clone().into(),
        Value::Array(chunks.cloned().map(Value::from).collect()),
        states.so_far().into(),
    ];
    let ctx = states.context();
    let mut service = Run {
        states,
        test: false,
    };
    match ask(&ctx, "plain", args, &mut service) {
        Ok(Value::Map(joined)) => Some(joined),
        Ok(_) => None,
        Err(e) => {
            log::error!("{name}: {}", e.message());
            None
        }
    }
}

/// Calls `mod_init` of a module before the first of its states, until it says that it is done.
fn begin(
    states: &MinionStates,
    ctx: &Context,
    low: &Map,
    service: &mut Run<'_>,
) -> Result<(), CallError> {
    let module = low.str("state").unwrap_or_default();
    let begun = || states.begun.lock().unwrap_or_else(PoisonError::into_inner);
    if begun().iter().any(|name| name == module) {
        return Ok(());
    }
    let name = format!("{module}.mod_init");
    if find(ctx, &name).is_none() {
        return Ok(());
    }
    let args = vec![name.into(), low.clone().into()];
    if ask(ctx, "plain", args, service)?.truthy() {
        begun().push(module.to_owned());
    }
    Ok(())
}

/// Runs a state function in Python.
pub(crate) fn apply(states: &MinionStates, ctx: Arc<Context>, low: &Map, test: bool) -> Map {
    let name = low.get("name").cloned().unwrap_or_default();
    let mut ctx = ctx;
    if low.get("parallel").is_some_and(Value::truthy) {
        ctx = super::apart(&ctx);
    }
    let filled = match crate::slots::fill(&ctx, low, &states.slots) {
        Ok(filled) => filled.into_owned(),
        Err(e) => return StateOutcome::bad(exception(&e)).into_map(&name),
    };
    let mut extra = Map::new();
    for (key, value) in filled.iter() {
        // The function that `mod_watch` stands in for is told, too.
        if key
            .as_str()
            .is_some_and(|key| !is_engine_key(key) || key == "sfun")
        {
            extra.0.push((key.clone(), value.clone()));
        }
    }
    let full = full_name(low);
    let described = find(&ctx, &full);
    let by = described.as_ref().and_then(|one| one.str("by"));
    let by = by.map(|by| python_modules::whose(&ctx, by));
    ctx.python.note(&full, by.as_deref());
    let args = vec![full.into(), filled.into(), extra.into(), test.into()];
    let mut service = Run { states, test };
    let answer = begin(states, &ctx, low, &mut service)
        .and_then(|()| ask(&ctx, "state", args, &mut service));
    match answer {
        Ok(answer) => complete(answer).unwrap_or_else(|why| {
            // As in stock, where the name is that of the check.
            StateOutcome::bad(format!("An exception occurred in this state: {why}"))
                .into_map(&"later".into())
        }),
        Err(CallError::Invocation(why)) if why.contains("is an invalid keyword argument for") => {
            StateOutcome::bad(why).into_map(&name)
        }
        Err(e) => StateOutcome::bad(exception(&e)).into_map(&name),
    }
}

/// Checks a return and gives it its form (`salt/state.py verify_ret`, `munge_ret_for_export`).
fn complete(answer: Value) -> Result<Map, String> {
    let Value::Map(mut map) = answer else {
        return Err("Malformed state return. Data must be a dictionary type.".to_owned());
    };
    let missing: Vec<&str> = ["name", "result", "changes", "comment"]
        .into_iter()
        .filter(|key| !map.contains(key))
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(format!(
            "The following keys were not present in the state return: {missing}."
        ));
    }
    if !matches!(map.get("changes"), Some(Value::Map(_))) {
        return Err("'Changes' should be a dictionary.".to_owned());
    }
    let result = map
        .get("result")
        .filter(|result| **result != Value::Nil)
        .map(Value::truthy);
    map.set("result", result);
    if let Some(Value::Array(lines)) = map.get("comment") {
        let texts: Option<Vec<&str>> = lines.iter().map(Value::as_str).collect();
        let Some(texts) = texts else {
            return Err("the comment is a list of other things than texts".to_owned());
        };
        let text = texts.join("\n");
        map.set("comment", text);
    }
    Ok(map)
}

/// All functions of files, by name: their descriptions.
pub(crate) fn described(ctx: &Context) -> Vec<(String, Map)> {
    if !python_files::files(&ctx.opts).has_kind("states") {
        return Vec::new();
    }
    descriptions(ask(ctx, "list", vec!["states".into()], &mut About))
}

/// Those of an installed Salt's functions that are `wanted`.
pub(crate) fn installed(ctx: &Context, wanted: impl Fn(&str) -> bool) -> Vec<(String, Map)> {
    let mut names = python_modules::installed_names(ctx, "states");
    names.retain(|name| wanted(name));
    if names.is_empty() {
        return Vec::new();
    }
    let args = vec!["states".into(), names.into()];
    descriptions(ask(ctx, "describe", args, &mut About))
}

fn descriptions(list: Result<Value, CallError>) -> Vec<(String, Map)> {
    match list {
        Ok(Value::Map(map)) => map
            .0
            .into_iter()
            .filter_map(|(name, one)| Some((name.as_str()?.to_owned(), one.into_map()?)))
            .collect(),
        Ok(_) => Vec::new(),
        Err(e) => {
            log::error!("Python states: {}", e.message());
            Vec::new()
        }
    }
}

fn about(what: &str, name: &str) -> Result<Value, PythonError> {
    let native = name
        .split_once('.')
        .and_then(|(module, function)| modules::find(module, function));
    match what {
        "has" => Ok(standing(native.is_some(), name, STOCK_RENAMED).into()),
        "doc" => Ok(native.map(|f| f.doc).into()),
        "names" => {
            let names = modules::functions().into_iter();
            Ok(names.map(|(name, _)| name).collect::<Vec<_>>().into())
        }
        _ => Nothing.ask(what, &[]),
    }
}

/// What modules may ask while they are loaded.
struct About;

impl Service for About {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        about(
            what,
            args.get(1).and_then(Value::as_str).unwrap_or_default(),
        )
    }
}

/// What a state may ask while it runs.
struct Run<'a> {
    states: &'a MinionStates,
    test: bool,
}

impl Service for Run<'_> {
    fn ask(&mut self, what: &str, args: &[Value]) -> Result<Value, PythonError> {
        let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
        match (what, text(0)) {
            ("run", "running") => Ok(self.states.so_far().into()),
            ("run", "lowstate") => {
                let calls = self.states.run.low.iter();
                let low = calls.map(|low| Value::from((**low).clone()));
                Ok(Value::Array(low.collect()))
            }
            ("run", _) => Ok(Map::new().into()),
            ("call", "states") => {
                let positional = args.get(2).and_then(Value::as_array).unwrap_or_default();
                let keywords = args.get(3).and_then(Value::as_map).cloned();
                self.call(text(1), positional, keywords.unwrap_or_default())
            }
            _ => about(what, text(1)),
        }
    }
}

impl Run<'_> {
    /// `__states__["module.function"](*args, **kwargs)` of a state of ours.
    fn call(&self, name: &str, args: &[Value], mut low: Map) -> Result<Value, PythonError> {
        let found = name
            .split_once('.')
            .and_then(|(module, fun)| Some((module, fun, modules::find(module, fun)?)));
        let Some((module, fun, function)) = found else {
            let missing = CallError::raised("KeyError", python::repr(&name.into()));
            return Err(python_error(&missing));
        };
        let names = std::iter::once("name").chain(function.args.iter().map(|arg| arg.name));
        for (name, value) in names.zip(args) {
            low.set(name, value.clone());
        }
        let id = low.get("name").cloned().unwrap_or_default();
        for (key, value) in [
            ("state", module.into()),
            ("fun", fun.into()),
            ("__id__", id),
        ] {
            low.set(key, value);
        }
        let ret = self.states.apply(function, &low, self.test);
        // A value and a return code, as of execution functions.
        Ok(vec![Value::from(ret), Value::Int(0)].into())
    }
}
