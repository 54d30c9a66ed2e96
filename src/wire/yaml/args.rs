//! Command line arguments as values (`salt/utils/args.py`).

use super::parse;
use crate::pytext::{is_decimal, is_word};
use crate::{Map, Value};

/// The value of a command line argument (`salt/utils/args.py yamlify_arg`).
///
/// Numbers, booleans, `{...}` and `[...]` become values; anything that would lose text, or is not YAML, stays
/// text. Never fails.
pub fn yamlify_arg(arg: &str) -> Value {
    converted(arg).unwrap_or_else(|| Value::Str(arg.to_owned()))
}

/// The value, or `None` to keep the text.
fn converted(arg: &str) -> Option<Value> {
    let trimmed = arg.trim();
    if matches!(trimmed, "" | "---" | "...") || arg.contains(['\t', '\r', '\n']) {
        return None;
    }
    let digits = trimmed.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if digits && trimmed.contains('_') {
        return None;
    }
    if arg == "None" {
        return Some(Value::Nil);
    }
    // libyaml rejects a map without its first key.
    if trimmed == ":" || trimmed.starts_with(": ") {
        return None;
    }
    let value = parse(arg).ok()?;
    if arg.contains('#') {
        // The part after '#' would be lost as a comment.
        return (!matches!(value, Value::Str(_) | Value::Nil)).then_some(value);
    }
    match value {
        Value::Map(_) if !arg.starts_with('{') => None,
        Value::Array(_) if !arg.starts_with('[') => None,
        Value::Str(s) if s.is_empty() && matches!(arg, "|" | "!") => None,
        Value::Nil if arg == "!" => None,
        Value::Bytes(_) => None,
        value => Some(value),
    }
}

/// Splits `name=value` where the name is an identifier (dots and dashes allowed after its first letter) and the
/// value does not start with `=` or hold a line feed (`salt/utils/args.py parse_kwarg`).
pub fn parse_kwarg(arg: &str) -> Option<(&str, &str)> {
    let (name, value) = arg.split_once('=')?;
    let first = name.chars().next()?;
    let named = is_word(first) && !is_decimal(first);
    let rest = name.chars().all(|c| is_word(c) || c == '.' || c == '-');
    let line = value.strip_suffix('\n').unwrap_or(value);
    (named && rest && !value.starts_with('=') && !line.contains('\n')).then_some((name, line))
}

/// Positional and keyword arguments of a function call given on the command line
/// (`salt/utils/args.py parse_input` with `condition=False`). The values of the keyword arguments in
/// `verbatim` (its `no_parse`) stay text.
pub fn parse_input(args: &[String], verbatim: &[&str]) -> (Vec<Value>, Map) {
    let mut positional = Vec::new();
    let mut keyword = Map::new();
    for arg in args {
        match parse_kwarg(arg) {
            Some((name, value)) if verbatim.contains(&name) => keyword.set(name, value),
            Some((name, value)) => keyword.set(name, yamlify_arg(value)),
            None => positional.push(yamlify_arg(arg)),
        }
    }
    (positional, keyword)
}

/// The map of an argument that holds keywords instead of a value: it has `__kwarg__`, and only `true` will do
/// (reference `salt-protocol.md` 5.3).
pub fn keyword_map(arg: &Value) -> Option<impl Iterator<Item = &(Value, Value)>> {
    let map = arg.as_map()?;
    let marked = map.get("__kwarg__").and_then(Value::as_bool) == Some(true);
    marked.then(|| map.iter().filter(|(name, _)| !name.is_str("__kwarg__")))
}

/// Positional and keyword arguments of a job as a minion reads them (`salt/minion.py load_args_and_kwargs`): the
/// pairs of marked maps and every text `name=value` are keywords, at any position. A keyword given twice is there
/// twice.
pub fn job_input(args: &[Value]) -> (Vec<Value>, Map) {
    let mut positional = Vec::new();
    let mut keyword = Map::new();
    for arg in args {
        if let Some(pairs) = keyword_map(arg) {
            keyword.0.extend(pairs.cloned());
            continue;
        }
        match arg.as_str().and_then(parse_kwarg) {
            Some((name, value)) => keyword.0.push((name.into(), yamlify_arg(value))),
            None => positional.push(arg.clone()),
        }
    }
    (positional, keyword)
}

/// Positional and keyword arguments of a load whose texts are parsed as on the command line
/// (`salt/utils/args.py parse_input` with `condition=False`). The values of keywords in `no_parse` stay text.
pub fn load_input(args: &[Value], no_parse: &[String]) -> (Vec<Value>, Map) {
    let mut positional = Vec::new();
    let mut keyword = Map::new();
    for arg in args {
        match arg {
            Value::Str(text) => match parse_kwarg(text) {
                Some((name, value)) if no_parse.iter().any(|n| n == name) => {
                    keyword.set(name, value)
                }
                Some((name, value)) => keyword.set(name, yamlify_arg(value)),
                None => positional.push(yamlify_arg(text)),
            },
            other => match keyword_map(other) {
                Some(pairs) => {
                    for (name, value) in pairs {
                        match name {
                            Value::Str(name) => keyword.set(name.as_str(), value.clone()),
                            other => keyword.0.push((other.clone(), value.clone())),
                        }
                    }
                }
                None => positional.push(other.clone()),
            },
        }
    }
    (positional, keyword)
}

/// [`load_input`] in the form in which arguments are published: keywords go into one map at the end
/// (`salt/utils/args.py condition_input`).
pub fn wire_input(args: &[Value], no_parse: &[String]) -> Vec<Value> {
    let (mut positional, keyword) = load_input(args, no_parse);
    if !keyword.is_empty() {
        let mut map = crate::map! {"__kwarg__" => true};
        map.0.extend(keyword.0);
        positional.push(map.into());
    }
    positional
}
