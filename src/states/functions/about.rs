//! `sys.list_state_functions` and its siblings: what state functions there are.

use crate::declare::StateFunction;
use crate::modules::functions;
use halite_modules::execution::declare::Result;
use halite_modules::execution::{Call, python};
use halite_target::fnmatch;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;

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
    let names = chosen(&patterns(call)).into_iter().map(|(name, _)| name);
    Ok(names.collect::<Vec<_>>().into())
}

pub(super) fn list_modules(call: &mut Call<'_>) -> Result {
    let modules: BTreeSet<String> = chosen(&patterns(call))
        .into_iter()
        .filter_map(|(name, _)| Some(name.split_once('.')?.0.to_owned()))
        .collect();
    Ok(modules.into_iter().collect::<Vec<_>>().into())
}

pub(super) fn doc(call: &mut Call<'_>) -> Result {
    let docs = chosen(&patterns(call))
        .into_iter()
        .map(|(name, f)| (name, Value::from(f.doc)));
    Ok(docs.collect::<Map>().into())
}

pub(super) fn argspec(call: &mut Call<'_>) -> Result {
    let pattern = call.text("module").unwrap_or_default();
    let specs = chosen(&[pattern])
        .into_iter()
        .map(|(name, f)| (name, Value::Map(spec(f))));
    Ok(specs.collect::<Map>().into())
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
