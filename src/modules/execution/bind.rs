//! Binding of wire arguments to a function's declared arguments.
//!
//! Checks run in stock's order and use its texts: unknown keywords are a `SaltInvocationError` (`salt/minion.py
//! load_args_and_kwargs`); everything else is the `TypeError` of the Python call itself.

use super::declare::Function;
use super::{CallError, python};
use crate::execution::declare::Result;
use halite_wire::yaml::{job_input, keyword_map};
use halite_wire::{Map, Value};

/// How the refusal of unknown keywords begins.
pub const INVALID_KEYWORDS: &str = "The following keyword arguments are not valid";

/// Bound arguments: one value per declared name, then the variable ones.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// In the order of [`Function::args`].
    pub named: Vec<Value>,
    /// `*args`.
    pub varargs: Vec<Value>,
    /// `**kwargs`.
    pub kwargs: Map,
}

/// Separates positional arguments from keywords and adds `__pub_<key>` from the job. Arguments of scheduled jobs are
/// passed as they are: text is never parsed for keywords.
///
/// # Errors
/// [`CallError::Invocation`], naming every keyword the function does not accept.
pub fn load(function: &Function, args: &[Value], job: Option<&Map>) -> Result<(Vec<Value>, Map)> {
    let scheduled = job.is_some_and(|job| job.contains("schedule"));
    let (positional, keyword) = if scheduled {
        unparsed(args)
    } else {
        job_input(args)
    };
    let mut kwargs = Map::new();
    let mut invalid = Vec::new();
    for (key, value) in keyword.0 {
        let name = python::str(&key);
        if name.starts_with("__pub_") {
            // Who asks is told by the job alone.
            continue;
        }
        if function.accepts(&name) {
            kwargs.set(name, value);
        } else {
            invalid.push(format!("{name}={}", python::str(&value)));
        }
    }
    if !invalid.is_empty() {
        return Err(CallError::Invocation(format!(
            "{INVALID_KEYWORDS}: {}",
            invalid.join(", ")
        )));
    }
    if let Some(job) = job.filter(|_| function.keywords) {
        for (key, value) in job.iter() {
            kwargs.set(format!("__pub_{}", python::str(key)), value.clone());
        }
    }
    Ok((positional, kwargs))
}

/// Separates marked maps only.
fn unparsed(args: &[Value]) -> (Vec<Value>, Map) {
    let (mut positional, mut keyword) = (Vec::new(), Map::new());
    for arg in args {
        match keyword_map(arg) {
            Some(pairs) => keyword.0.extend(pairs.cloned()),
            None => positional.push(arg.clone()),
        }
    }
    (positional, keyword)
}

/// Binds values the way a Python call does.
///
/// # Errors
/// [`CallError::Type`] with CPython's text.
pub fn bind(function: &Function, positional: Vec<Value>, kwargs: Map) -> Result<Bound> {
    if function.python.is_some() {
        return Ok(Bound {
            varargs: positional,
            kwargs,
            ..Bound::default()
        });
    }
    let given = positional.len();
    let count = function.args.len();
    let mut slots: Vec<Option<Value>> = vec![None; count];
    let mut varargs = Vec::new();
    for (i, value) in positional.into_iter().enumerate() {
        match slots.get_mut(i) {
            Some(slot) if !function.keyword_only => *slot = Some(value),
            _ => varargs.push(value),
        }
    }
    let mut open = Map::new();
    for (key, value) in kwargs.0 {
        let name = python::str(&key);
        match function.args.iter().position(|a| a.name == name) {
            Some(at) if slots[at].is_some() => {
                return Err(type_error(
                    function,
                    &format!("got multiple values for argument '{name}'"),
                ));
            }
            Some(at) => slots[at] = Some(value),
            None if function.keywords => open.0.push((key, value)),
            None => {
                return Err(type_error(
                    function,
                    &format!("got an unexpected keyword argument '{name}'"),
                ));
            }
        }
    }
    if given > count && !function.varargs {
        return Err(too_many(function, given));
    }
    check_missing(function, &slots)?;
    let named: Vec<Value> = slots
        .into_iter()
        .zip(function.args)
        .map(|(slot, arg)| slot.or(arg.default.map(|d| d.value())).unwrap_or_default())
        .collect();
    for (arg, value) in function.args.iter().zip(&named) {
        check_value(function, arg.name, value)?;
    }
    for (key, value) in open.iter() {
        check_value(function, &python::str(key), value)?;
    }
    for value in &varargs {
        check_value(function, "*", value)?;
    }
    Ok(Bound {
        named,
        varargs,
        kwargs: open,
    })
}

/// Rejects line breaks and options where the function declares that they must not be.
fn check_value(function: &Function, name: &str, value: &Value) -> Result<()> {
    let why = if function.lines.is_some_and(|but| !but.contains(&name)) && any(value, &has_break) {
        "may not contain line breaks"
    } else if function.names.contains(&name) && any(value, &is_option) {
        "may not be an option"
    } else {
        return Ok(());
    };
    Err(CallError::Invocation(format!(
        "The argument '{name}' {why}"
    )))
}

/// Whether a text, or one in a list or map, is like that.
fn any(value: &Value, is: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::Str(text) => is(text),
        Value::Bytes(bytes) => is(&String::from_utf8_lossy(bytes)),
        Value::Array(list) => list.iter().any(|v| any(v, is)),
        Value::Map(map) => map.iter().any(|(k, v)| any(k, is) || any(v, is)),
        _ => false,
    }
}

fn has_break(text: &str) -> bool {
    text.contains(['\n', '\r', '\0'])
}

/// Whether a program would take one of the comma-separated words for an option. A dash alone is a name.
pub fn is_option(text: &str) -> bool {
    let mut words = text.split(',').map(str::trim);
    words.any(|word| word.starts_with('-') && word != "-")
}

fn type_error(function: &Function, text: &str) -> CallError {
    CallError::Type(format!("{}() {text}", function.inner))
}

fn too_many(function: &Function, given: usize) -> CallError {
    let most = function.args.len();
    let least = function.args.iter().filter(|a| a.default.is_none()).count();
    let takes = if least == most {
        format!("{most} positional argument{}", plural(most))
    } else {
        format!("from {least} to {most} positional arguments")
    };
    let verb = if given == 1 { "was" } else { "were" };
    type_error(function, &format!("takes {takes} but {given} {verb} given"))
}

fn check_missing(function: &Function, slots: &[Option<Value>]) -> Result<()> {
    let missing: Vec<String> = function
        .args
        .iter()
        .zip(slots)
        .filter(|(arg, slot)| slot.is_none() && arg.default.is_none())
        .map(|(arg, _)| format!("'{}'", arg.name))
        .collect();
    let names = match missing.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [most @ .., last] => format!("{}, and {last}", most.join(", ")),
    };
    let count = missing.len();
    Err(type_error(
        function,
        &format!(
            "missing {count} required positional argument{}: {names}",
            plural(count)
        ),
    ))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
