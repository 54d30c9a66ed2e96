//! `sys.list_state_functions` and its siblings: what state functions there are.

use crate::declare::StateFunction;
use crate::modules::functions;
use crate::runner::python_states;
use halite_modules::execution::declare::Result;
use halite_modules::execution::sys::listed;
use halite_modules::execution::{Call, Context, python, python_modules};
use halite_target::fnmatch;
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Names of modules, of functions, or globs.
fn patterns(call: &Call<'_>) -> Vec<String> {
    call.bound.varargs.iter().map(python::str).collect()
}

fn is_match(pattern: &str, name: &str) -> bool {
    let module = name.split('.').next().unwrap_or_default();
    if pattern.contains('*') {
        fnmatch(name, pattern)
    } else {
        pattern.is_empty() || pattern == name || pattern == module
    }
}

/// The functions of any of the patterns; all if there is none.
fn chosen(patterns: &[String]) -> Vec<(String, &'static StateFunction)> {
    let mut all = functions();
    all.retain(|(name, _)| patterns.is_empty() || patterns.iter().any(|p| is_match(p, name)));
    all
}

pub(super) fn list_functions(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call);
    let mut names: BTreeMap<_, _> = python_modules::installed_names(call.ctx, "states")
        .into_iter()
        .map(|name| (name, "legacy_salt"))
        .collect();
    names.extend(functions().into_iter().map(|(name, _)| (name, "halite")));
    let files = python_states::described(call.ctx).into_iter();
    names.extend(files.map(|(name, _)| (name, "python")));
    names.retain(|name, _| patterns.is_empty() || patterns.iter().any(|p| is_match(p, name)));
    Ok(listed(names, call.bound.kwargs.get("origin")))
}

pub(super) fn list_modules(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call);
    let ours = chosen(&patterns).into_iter().map(|(name, _)| name);
    let modules: BTreeSet<String> = ours
        .chain(
            in_python(call.ctx, &patterns)
                .into_iter()
                .map(|(name, _)| name),
        )
        .filter_map(|name| Some(name.split_once('.')?.0.to_owned()))
        .collect();
    Ok(modules.into_iter().collect::<Vec<_>>().into())
}

pub(super) fn doc(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call);
    let mut docs: Map = chosen(&patterns)
        .into_iter()
        .map(|(name, f)| (name, Value::from(f.doc)))
        .collect();
    for (name, described) in in_python(call.ctx, &patterns) {
        let text = |key| described.get(key).filter(|text| text.truthy()).cloned();
        if let (Some(about), Some((module, _))) = (text("module_doc"), name.split_once('.')) {
            docs.set(module, about);
        }
        docs.set(name, text("doc"));
    }
    Ok(docs.into())
}

pub(super) fn argspec(call: &mut Call<'_>) -> Result {
    let pattern = call.text("module").unwrap_or_default();
    let patterns = [pattern];
    let mut specs: Map = chosen(&patterns)
        .into_iter()
        .map(|(name, f)| (name, Value::Map(spec(f))))
        .collect();
    for (name, described) in in_python(call.ctx, &patterns) {
        specs.set(name, python_spec(&described));
    }
    Ok(specs.into())
}

/// The functions in Python of any of the patterns.
fn in_python(ctx: &Context, patterns: &[String]) -> Vec<(String, Map)> {
    let is_wanted = |name: &str| patterns.is_empty() || patterns.iter().any(|p| is_match(p, name));
    let mut all = python_states::described(ctx);
    all.retain(|(name, _)| is_wanted(name));
    let ours: BTreeSet<String> = functions().into_iter().map(|(name, _)| name).collect();
    let known: BTreeSet<String> = all.iter().map(|(name, _)| name.clone()).collect();
    all.extend(python_states::installed(ctx, |name| {
        is_wanted(name) && !ours.contains(name) && !known.contains(name)
    }));
    all
}

fn python_spec(described: &Map) -> Map {
    let some = |key: &str| {
        let value = described.get(key).cloned().unwrap_or_default();
        if value.truthy() { value } else { Value::Nil }
    };
    halite_wire::map! {
        "args" => some("args"), "defaults" => some("defaults"),
        "varargs" => some("varargs"), "kwargs" => some("keywords"),
    }
}

fn spec(function: &StateFunction) -> Map {
    let mut args = vec![Value::from("name")];
    args.extend(function.args.iter().map(|arg| Value::from(arg.name)));
    let defaults: Vec<Value> = function
        .args
        .iter()
        .filter_map(|arg| arg.default)
        .map(|d| d.value())
        .collect();
    let defaults = if defaults.is_empty() {
        Value::Nil
    } else {
        defaults.into()
    };
    let keywords = if function.keywords {
        Value::Bool(true)
    } else {
        Value::Nil
    };
    halite_wire::map! {"args" => args, "defaults" => defaults, "varargs" => Value::Nil, "kwargs" => keywords}
}
