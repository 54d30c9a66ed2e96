//! Slots: arguments that are computed when the state runs (`__slot__:salt:module.function(...)`, `salt/state.py
//! State.format_slots`).

use halite_modules::execution::{CallError, Context, invoke_listed, python};
use halite_wire::yaml::yamlify_arg;
use halite_wire::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;

const PREFIX: &str = "__slot__:";

/// Which slots are heeded.
#[derive(Clone, Debug, Default)]
pub enum AllowedSlots {
    /// All: the declarations are the caller's own.
    #[default]
    All,
    /// Those of these functions, which stand in the files of the run ([`halite_render::written_slots`]).
    Functions(BTreeSet<String>),
}

impl AllowedSlots {
    /// Those of the files that this thread has rendered.
    pub fn written() -> AllowedSlots {
        AllowedSlots::Functions(halite_render::written_slots::functions())
    }
}

/// A declaration with its slots filled in, those of lists and maps among the arguments included.
///
/// # Errors
/// What a function raises; [`CallError::Missing`] if there is none of that name.
pub fn fill<'a>(
    ctx: &Context,
    low: &'a Map,
    allowed: &AllowedSlots,
) -> Result<Cow<'a, Map>, CallError> {
    if !low.iter().any(|(_, value)| has_slot(value)) {
        return Ok(Cow::Borrowed(low));
    }
    let mut filled = low.clone();
    for (_, value) in &mut filled.0 {
        if has_slot(value) {
            *value = fill_value(ctx, value, allowed)?;
        }
    }
    Ok(Cow::Owned(filled))
}

fn has_slot(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.starts_with(PREFIX),
        Value::Array(list) => list.iter().any(has_slot),
        Value::Map(map) => map.iter().any(|(_, value)| has_slot(value)),
        _ => false,
    }
}

/// A value with its slots filled in.
pub fn fill_value(
    ctx: &Context,
    value: &Value,
    allowed: &AllowedSlots,
) -> Result<Value, CallError> {
    Ok(match value {
        Value::Str(text) if text.starts_with(PREFIX) => slot(ctx, text, allowed)?,
        Value::Array(list) => Value::Array(
            list.iter()
                .map(|v| fill_value(ctx, v, allowed))
                .collect::<Result<_, _>>()?,
        ),
        Value::Map(map) => {
            let filled = map
                .iter()
                .map(|(k, v)| Ok((k.clone(), fill_value(ctx, v, allowed)?)));
            Value::Map(Map(filled.collect::<Result<_, CallError>>()?))
        }
        other => other.clone(),
    })
}

/// `salt:fun(args).path ~ text`; anything else stays as it is.
fn slot(ctx: &Context, text: &str, allowed: &AllowedSlots) -> Result<Value, CallError> {
    let rest = &text[PREFIX.len()..];
    let Some(call) = rest.strip_prefix("salt:") else {
        log::warn!("Malformed slot: {text}");
        return Ok(text.into());
    };
    let Some((fun, args, rest)) = split(call) else {
        log::warn!("Malformed slot: {text}");
        return Ok(text.into());
    };
    if let AllowedSlots::Functions(names) = allowed
        && !names.contains(fun)
    {
        log::warn!(
            "the slot {PREFIX}salt:{fun}(...) is left as it is: no SLS file of this run has it, so it comes from data"
        );
        return Ok(text.into());
    }
    let (mut positional, mut kwargs) = (Vec::new(), Map::new());
    for arg in arguments(args) {
        match arg.split_once('=').filter(|(key, _)| is_name(key.trim())) {
            Some((key, value)) => kwargs.set(key.trim(), yamlify_arg(value.trim())),
            None => positional.push(yamlify_arg(&arg)),
        }
    }
    let (mut ret, _) =
        invoke_listed(ctx, fun, positional, kwargs).map_err(|fault| match fault {
            CallError::Raised(class, name) if class == "KeyError" && name == format!("'{fun}'") => {
                CallError::Missing(format!("the function '{fun}' is not available"))
            }
            other => other,
        })?;
    let (path, append) = match rest.split_once('~') {
        Some((path, append)) => (path.trim(), Some(append.trim())),
        None => (rest.trim(), None),
    };
    if let Some(path) = path.strip_prefix('.') {
        for key in path.split('.') {
            ret = ret
                .as_map()
                .and_then(|map| map.get(key))
                .cloned()
                .unwrap_or_default();
        }
    }
    Ok(match append {
        Some(append) => {
            // As in a shell, quotes around the text do not belong to it.
            let quoted = |quote: char| append.strip_prefix(quote)?.strip_suffix(quote);
            let text = quoted('"').or_else(|| quoted('\'')).unwrap_or(append);
            format!("{}{text}", python::str(&ret)).into()
        }
        None => ret,
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Function, text between its parentheses, and what follows.
fn split(call: &str) -> Option<(&str, &str, &str)> {
    let (fun, rest) = call.split_once('(')?;
    let (mut depth, mut quote) = (1, None);
    for (at, c) in rest.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    return Some((fun.trim(), &rest[..at], &rest[at + 1..]));
                }
            }
            _ => {}
        }
    }
    None
}

/// Arguments, without the quotes around them.
fn arguments(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let (mut one, mut depth, mut quote) = (String::new(), 0, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), c) => one.push(c),
            (None, '"' | '\'') if depth == 0 => quote = Some(c),
            (None, ',') if depth == 0 => all.push(std::mem::take(&mut one).trim().to_owned()),
            (None, c) => {
                depth += match c {
                    '[' | '{' | '(' => 1,
                    ']' | '}' | ')' => -1,
                    _ => 0,
                };
                one.push(c);
            }
        }
    }
    if !one.trim().is_empty() || !all.is_empty() {
        all.push(one.trim().to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn filled(text: &str) -> Value {
        fill_value(&Context::default(), &text.into(), &AllowedSlots::All).unwrap()
    }

    #[test]
    fn slots_are_calls() {
        assert_eq!(
            filled("__slot__:salt:test.echo(hi) ~ there"),
            "hithere".into()
        );
        assert_eq!(filled("__slot__:salt:test.echo('a, b')"), "a, b".into());
        assert_eq!(filled("__slot__:salt:test.echo(text=3)"), Value::Int(3));
        assert_eq!(
            filled("__slot__:salt:test.echo({a: {b: 1}}).a.b"),
            Value::Int(1)
        );
        assert_eq!(filled("__slot__:other"), "__slot__:other".into());
        assert_eq!(filled("plain"), "plain".into());
        let low = map! {"name" => "x", "env" => vec![Value::from("__slot__:salt:test.echo(1)")]};
        let low = fill(&Context::default(), &low, &AllowedSlots::All).unwrap();
        assert_eq!(low.get("env"), Some(&vec![Value::Int(1)].into()));
    }

    #[test]
    fn what_no_file_has_is_left() {
        let allowed = AllowedSlots::Functions(["test.echo".to_owned()].into());
        let fill = |text: &str| fill_value(&Context::default(), &text.into(), &allowed).unwrap();
        assert_eq!(fill("__slot__:salt:test.echo(a)"), "a".into());
        let other = "__slot__:salt:test.ping()";
        assert_eq!(fill(other), other.into());
    }
}
