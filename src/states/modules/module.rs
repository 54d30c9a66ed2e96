//! `module`: execution functions as states (`salt/states/module.py`), in the old form (`name: x.y`) and the new one
//! (`x.y: [arguments]`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::execution::declare::Function;
use halite_modules::execution::python_returners;
use halite_modules::execution::{CallError, find_listed, python};
use halite_modules::returners;
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "module",
    functions: &[
        StateFunction::new(
            "mod_watch",
            run,
            "Calls the functions when a watched state changes.",
        )
        .keywords(),
        StateFunction::new("run", run, "Calls execution functions.").keywords(),
        StateFunction::new(
            "wait",
            wait,
            "Calls execution functions only when a watched state changes.",
        )
        .keywords(),
        StateFunction::new("watch", wait, "The same as wait.").keywords(),
    ],
};

/// Requisites and the like that `module.run` passes over in the new form.
fn wait(_: &mut State<'_, '_>) -> Result {
    Ok(StateOutcome::good(""))
}

fn run(s: &mut State<'_, '_>) -> Result {
    let mut functions = Map::new();
    for (key, value) in s.kwargs.iter() {
        if key.as_str().is_some_and(|key| key.contains('.')) {
            functions.0.push((key.clone(), value.clone()));
        }
    }
    if functions.is_empty() {
        by_name(s)
    } else {
        by_keys(s, &functions)
    }
}

/// Whether what a function returned means success.
fn is_good(ret: &Value) -> bool {
    match ret {
        Value::Bool(yes) => *yes,
        Value::Map(map) => {
            if map
                .get("retcode")
                .is_some_and(|code| code.as_int().is_none_or(|code| code != 0) && !code.is_nil())
            {
                return false;
            }
            match (map.get("result"), map.get("return")) {
                (Some(Value::Bool(yes)), _) => *yes,
                (_, Some(Value::Map(inner))) => nested_good(inner),
                _ => nested_good(map),
            }
        }
        _ => true,
    }
}

/// Whether no map inside has `result: False`, as the results of `state.single` would.
fn nested_good(map: &Map) -> bool {
    map.iter().all(|(_, value)| match value {
        Value::Map(inner) => inner
            .get("result")
            .and_then(Value::as_bool)
            .unwrap_or_else(|| nested_good(inner)),
        _ => true,
    })
}

/// Names of arguments without default that were not given.
fn missing(function: &Function, positional: usize, kwargs: &Map) -> Vec<&'static str> {
    let required = function
        .args
        .iter()
        .enumerate()
        .filter(|(_, arg)| arg.default.is_none());
    let unmet = required.filter(|(at, arg)| *at >= positional && !kwargs.contains(arg.name));
    unmet.map(|(_, arg)| arg.name).collect()
}

/// The new form: a map of functions to lists of arguments.
fn by_keys(s: &mut State<'_, '_>, functions: &Map) -> Result {
    let names: Vec<String> = functions.iter().map(|(key, _)| python::str(key)).collect();
    let shown = Value::from(names.clone());
    let known = |name: &&String| find_listed(s.ctx(), name).is_none();
    let unknown: Vec<&str> = names.iter().filter(known).map(String::as_str).collect();
    if !unknown.is_empty() {
        let mut text = format!(
            "Unavailable function{}: {}.",
            plural(&unknown),
            unknown.join(", ")
        );
        let rest: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !unknown.contains(name))
            .collect();
        if s.test && !rest.is_empty() {
            text.push_str(&format!(
                " Function{} {} to be executed.",
                plural(&rest),
                rest.join(", ")
            ));
        }
        return Ok(StateOutcome::bad(text).with("name", shown));
    }
    if s.test {
        let text = format!(
            "Function{} {} to be executed.",
            plural(&names),
            names.join(", ")
        );
        return Ok(StateOutcome::would(text).with("name", shown));
    }
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    let mut changes = Map::new();
    for (name, (_, given)) in names.iter().zip(functions.iter()) {
        let (positional, kwargs) = arguments(given);
        if let Some(function) = find_listed(s.ctx(), name) {
            let missing = missing(function, positional.len(), &kwargs);
            if !missing.is_empty() {
                bad.push(format!(
                    "'{name}' failed: Missing arguments: {}",
                    missing.join(", ")
                ));
                continue;
            }
        }
        let ret = match s.salt_with(name, positional, kwargs.clone()) {
            Ok(ret) => ret,
            Err(CallError::Invocation(text)) => {
                bad.push(format!("'{name}' failed: {text}"));
                continue;
            }
            Err(CallError::Type(text)) => {
                bad.push(format!("'{name}' failed: {text}"));
                continue;
            }
            Err(other) => return Err(other),
        };
        deliver(s, name, &ret, kwargs.get("returner"));
        let text = match &ret {
            Value::Map(map) => map
                .get("comment")
                .map_or_else(|| "Success".to_owned(), python::str),
            plain => python::str(plain),
        };
        if is_good(&ret) {
            good.push(format!("{name}: {text}"));
            changes.set(name, ret);
        } else {
            bad.push(match &ret {
                Value::Map(map) => {
                    let why = map.str("comment").unwrap_or("(error message N/A)");
                    format!("'{name}' failed: {why}")
                }
                Value::Array(_) => format!("'{name}' failed: (error message N/A)"),
                plain => format!("'{name}': {}", python::str(plain)),
            });
        }
    }
    let result = bad.is_empty();
    bad.extend(good);
    Ok(StateOutcome::new(Some(result), bad.join(", "))
        .changes(changes)
        .with("name", shown))
}

fn plural<T>(list: &[T]) -> &'static str {
    if list.len() == 1 { "" } else { "s" }
}

/// Positional arguments and keywords of a list such as `[1, {a: b}]`.
fn arguments(given: &Value) -> (Vec<Value>, Map) {
    let (mut positional, mut kwargs) = (Vec::new(), Map::new());
    let items = match given {
        Value::Nil => Vec::new(),
        Value::Array(list) => list.clone(),
        other => vec![other.clone()],
    };
    for item in items {
        match item {
            Value::Map(map) => {
                for (key, value) in map.0 {
                    kwargs.set(python::str(&key), value);
                }
            }
            other => positional.push(other),
        }
    }
    (positional, kwargs)
}

/// The old form: the function is the name, arguments are declared beside it.
fn by_name(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let Some(function) = find_listed(s.ctx(), &name) else {
        return Ok(StateOutcome::bad(format!(
            "Module function {name} is not available"
        )));
    };
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Module function {name} is set to execute"
        )));
    }
    let mut kwargs = Map::new();
    let mut positional = Vec::new();
    // `m_name` stands for an argument `name`, which is taken.
    let given = |key: &str| {
        s.kwargs
            .get(&format!("m_{key}"))
            .or_else(|| s.kwargs.get(key))
    };
    for arg in function.args {
        let value = match arg.name {
            // The state's own name is the function.
            "name" | "fun" | "names" | "state" | "saltenv" => s
                .kwargs
                .get(&format!("m_{}", arg.name))
                .or_else(|| s.kwargs.get(arg.name)),
            other => given(other),
        };
        if let Some(value) = value {
            kwargs.set(arg.name, value.clone());
        }
    }
    match s.kwargs.get("args") {
        None | Some(Value::Nil) => {}
        Some(Value::Array(list)) => positional.extend(list.iter().cloned()),
        Some(_) => return Ok(StateOutcome::bad("'args' must be a list.")),
    }
    if function.keywords {
        for (key, value) in s
            .kwargs
            .get("kwargs")
            .and_then(Value::as_map)
            .into_iter()
            .flat_map(Map::iter)
        {
            kwargs.set(python::str(key), value.clone());
        }
    } else if let Some(Value::Map(more)) = s.kwargs.get("kwargs") {
        for (key, value) in more.iter() {
            kwargs.set(python::str(key), value.clone());
        }
    }
    let missing = missing(function, positional.len(), &kwargs);
    if !missing.is_empty() {
        // A declaration has a `name` and a `fun` of its own.
        let shown = missing.iter().map(|name| match *name {
            "name" | "fun" | "names" | "state" => format!("m_{name}"),
            other => other.to_owned(),
        });
        let shown: Vec<String> = shown.collect();
        return Ok(StateOutcome::bad(format!(
            "The following arguments are missing: {}",
            shown.join(" ")
        )));
    }
    let ret = match s.salt_with(&name, positional, kwargs) {
        Ok(ret) => ret,
        Err(fault) => {
            return Ok(StateOutcome::bad(format!(
                "Module function {name} threw an exception. Exception: {}",
                fault.message()
            )));
        }
    };
    deliver(s, &name, &ret, s.kwargs.get("returner").cloned().as_ref());
    let good = is_good(&ret);
    let comment = format!("Module function {name} executed");
    Ok(StateOutcome::new(Some(good), comment).changes(halite_wire::map! {"ret" => ret}))
}

/// Hands a result to a returner that the state names.
fn deliver(s: &State<'_, '_>, fun: &str, ret: &Value, returner: Option<&Value>) {
    let Some(returner) = returner.and_then(Value::as_str) else {
        return;
    };
    let ctx = s.ctx();
    let jid = ctx
        .job
        .as_ref()
        .and_then(|job| job.str("jid"))
        .unwrap_or_default();
    let load = halite_wire::map! {
        "id" => ctx.id.as_str(), "ret" => returner, "fun" => fun, "jid" => jid, "return" => ret.clone(),
    };
    let selection = returners::ReturnerSelection::for_job(ctx, &load);
    python_returners::run(ctx, &selection, load);
}
