//! `git.config_set` and `git.config_unset`.

use super::{git, output, text};
use crate::declare::{Result, State, StateOutcome, old_new};
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

/// Where the setting is: keywords, and how a sentence about it begins; or why that is not known.
fn place(s: &State<'_, '_>) -> Result<(Map, String), String> {
    let name = s.name();
    if s.kwargs.get("global").is_some_and(Value::truthy) {
        return Ok((map! {"global" => true}, format!("Global key '{name}'")));
    }
    match s.text("repo") {
        None => Err("Non-global config options require the 'repo' argument to be set".to_owned()),
        Some(repo) => Ok((map! {"cwd" => repo}, format!("'{name}'"))),
    }
}

/// All values of the setting; nil if it has none.
fn values(s: &mut State<'_, '_>, place: &Map) -> Result<Value> {
    let mut kwargs = place.clone();
    kwargs.set("all", true);
    kwargs.set("ignore_retcode", true);
    let name = s.name();
    git(s, "config_get", vec![name.into()], kwargs)
}

pub(super) fn set(s: &mut State<'_, '_>) -> Result {
    if !s.arg("value").is_nil() && !s.arg("multivar").is_nil() {
        return Ok(StateOutcome::bad(
            "Only one of 'value' and 'multivar' is permitted",
        ));
    }
    let (place, subject) = match place(s) {
        Ok(found) => found,
        Err(why) => return Ok(StateOutcome::bad(why)),
    };
    let multi = !s.arg("multivar").is_nil();
    let wanted: Vec<String> = if multi {
        match s.arg("multivar") {
            Value::Array(list) => list.iter().map(python::str).collect(),
            other => python::str(other).split(',').map(str::to_owned).collect(),
        }
    } else {
        let value = s.arg("value");
        if value.is_nil() {
            return Ok(StateOutcome::bad(
                "One of 'value' and 'multivar' is required",
            ));
        }
        vec![python::str(value)]
    };
    let shown = if multi {
        python::str(&wanted.clone().into())
    } else {
        format!("'{}'", wanted[0])
    };
    let before = values(s, &place)?;
    let list = Value::from(wanted.clone());
    if before == list {
        return Ok(StateOutcome::good(format!(
            "{subject} is already set to {shown}"
        )));
    }
    let verb = if before.is_nil() {
        "added as"
    } else {
        "set to"
    };
    if s.test {
        let text = format!("{subject} would be {verb} {shown}");
        return Ok(StateOutcome::would(text).changes(old_new(before, list)));
    }
    let mut kwargs = place.clone();
    if multi {
        kwargs.set("multivar", list.clone());
    } else {
        kwargs.set("value", wanted[0].as_str());
    }
    let name = s.name();
    if let Err(fault) = git(s, "config_set", vec![name.as_str().into()], kwargs) {
        return Ok(StateOutcome::bad(format!(
            "Failed to set {subject} to {shown}: {}",
            output(fault)?
        )));
    }
    let after = values(s, &place)?;
    let mut changes = Map::new();
    if after != before {
        changes.set(name, old_new(before, after.clone()));
    }
    if after != list {
        let text = format!("Failed to set {subject} to {shown}");
        return Ok(StateOutcome::bad(text).changes(changes));
    }
    Ok(StateOutcome::good(format!("{subject} was {verb} {shown}")).changes(changes))
}

pub(super) fn unset(s: &mut State<'_, '_>) -> Result {
    let (place, _) = match place(s) {
        Ok(found) => found,
        Err(why) => return Ok(StateOutcome::bad(why)),
    };
    let all = s.kwargs.get("all").is_some_and(Value::truthy);
    let name = s.name();
    let regexp = format!("^{}$", name.trim_start_matches('^').trim_end_matches('$'));
    let matching = |s: &mut State<'_, '_>| {
        let mut kwargs = place.clone();
        kwargs.set("ignore_retcode", true);
        if s.arg("value_regex").truthy() {
            kwargs.set("value_regex", s.arg("value_regex").clone());
        }
        git(s, "config_get_regexp", vec![regexp.as_str().into()], kwargs)
    };
    let before = matching(s)?.into_map().unwrap_or_default();
    if before.is_empty() {
        return Ok(StateOutcome::good("No matching keys are set"));
    }
    let keys: Vec<String> = before.iter().map(|(key, _)| python::str(key)).collect();
    let many: Vec<String> = before
        .iter()
        .filter_map(|(key, values)| {
            let values = values.as_array().filter(|list| list.len() > 1)?;
            let list: Vec<String> = values.iter().map(python::str).collect();
            Some(format!("{} ({})", python::str(key), list.join(", ")))
        })
        .collect();
    if !all && !many.is_empty() {
        return Ok(StateOutcome::bad(format!(
            "Multivar(s) matched by the key expression (set 'all' to True to force removal): {}",
            many.join("; ")
        )));
    }
    if s.test {
        let text = format!("{} key(s) would have value(s) unset", keys.len());
        return Ok(StateOutcome::would(text).changes(before));
    }
    for key in &keys {
        let mut kwargs = place.clone();
        kwargs.set("all", all);
        if s.arg("value_regex").truthy() {
            kwargs.set("value_regex", s.arg("value_regex").clone());
        }
        if let Err(fault) = git(s, "config_unset", vec![key.as_str().into()], kwargs) {
            return Ok(StateOutcome::bad(format!(
                "Failed to unset '{key}': {}",
                text(fault)?
            )));
        }
    }
    let after = matching(s)?.into_map().unwrap_or_default();
    let mut changes = Map::new();
    for (key, values) in before.iter() {
        let key = python::str(key);
        let now = after.get(&key).cloned().unwrap_or(Value::Nil);
        if now != *values {
            changes.set(key, old_new(values.clone(), now));
        }
    }
    if !after.is_empty() {
        return Ok(StateOutcome::bad("Failed to unset all matching keys").changes(changes));
    }
    let text = format!("{} key(s) had value(s) unset", keys.len());
    Ok(StateOutcome::good(text).changes(changes))
}
