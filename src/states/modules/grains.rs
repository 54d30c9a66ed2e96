//! `grains`: the file of a minion's own grains.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule =
    StateModule {
        name: "grains",
        functions: &[
            StateFunction::new(
                "absent",
                absent,
                "Ensures that a grain has no value or, if destructive, does not exist.",
            )
            .args(args![destructive = False, delimiter = ":", force = False]),
            StateFunction::new(
                "append",
                append,
                "Ensures that an existing list has a value.",
            )
            .args(args![value, convert = False, delimiter = ":"]),
            StateFunction::new(
                "exists",
                exists,
                "Ensures that a grain is set; changes nothing.",
            )
            .args(args![delimiter = ":"]),
            StateFunction::new(
                "list_absent",
                list_absent,
                "Ensures that a list lacks values.",
            )
            .args(args![value, delimiter = ":"]),
            StateFunction::new(
                "list_present",
                list_present,
                "Ensures that a list has values.",
            )
            .args(args![value, delimiter = ":"]),
            StateFunction::new("present", present, "Ensures that a grain has a value.")
                .args(args![value, delimiter = ":", force = False]),
        ],
    };

/// The name with colons. The delimiter is a pattern, as in stock.
fn name(s: &State<'_, '_>) -> Result<String> {
    let delimiter = s.text("delimiter").unwrap_or_default();
    let pattern =
        regex::Regex::new(&delimiter).map_err(|e| CallError::raised("re.error", e.to_string()))?;
    Ok(pattern.replace_all(&s.name(), ":").into_owned())
}

fn find<'m>(grains: &'m Map, name: &str) -> Option<&'m Value> {
    if let Some(value) = grains.get(name) {
        return Some(value);
    }
    let mut parts = name.split(':');
    let mut at = grains.get(parts.next()?)?;
    for part in parts {
        at = at.as_map()?.get(part)?;
    }
    Some(at)
}

fn current(s: &State<'_, '_>, name: &str) -> Option<Value> {
    find(&s.ctx().grains, name).cloned()
}

/// `grains.set`, as a state's outcome.
fn set(s: &mut State<'_, '_>, name: &str, value: Value, more: Map) -> Result {
    let ret = s.salt_with("grains.set", [name.into(), value], more)?;
    let ret = ret.into_map().unwrap_or_default();
    let comment = ret.get("comment").map(python::str).unwrap_or_default();
    let changes = ret.get("changes").cloned().unwrap_or_default();
    Ok(StateOutcome::new(ret.get("result").and_then(Value::as_bool), comment).changes(changes))
}

fn exists(s: &mut State<'_, '_>) -> Result {
    let name = name(s)?;
    Ok(match current(s, &name) {
        Some(_) => StateOutcome::good("Grain exists"),
        None => StateOutcome::bad("Grain does not exist"),
    }
    .with("name", name))
}

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, value) = (name(s)?, s.arg("value").clone());
    let found = current(s, &name);
    let outcome = if found.as_ref() == Some(&value) {
        StateOutcome::good("Grain is already set")
    } else if s.test && found.is_none() {
        StateOutcome::would(format!("Grain {name} is set to be added"))
            .changes(map! {"new" => name.as_str()})
    } else if s.test {
        StateOutcome::would(format!("Grain {name} is set to be changed"))
            .changes(map! {"changed" => map! {name.as_str() => value}})
    } else {
        let force = s.pick(&["force"]);
        let shown = python::str(&value);
        let mut outcome = set(s, &name, value, force)?;
        if outcome.result == Some(true) && outcome.changes.truthy() {
            outcome.comment = format!("Set grain {name} to {shown}");
        }
        outcome
    };
    Ok(outcome.with("name", name))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let (name, destructive) = (name(s)?, s.flag("destructive"));
    let Some(found) = current(s, &name) else {
        return Ok(StateOutcome::good(format!("Grain {name} does not exist")).with("name", name));
    };
    let told = if destructive {
        map! {"deleted" => name.as_str()}
    } else {
        map! {"grain" => name.as_str(), "value" => Value::Nil}
    };
    let outcome = if s.test {
        match (destructive, found.is_nil()) {
            (true, _) => {
                StateOutcome::would(format!("Grain {name} is set to be deleted")).changes(told)
            }
            (false, false) => StateOutcome::would(format!(
                "Value for grain {name} is set to be deleted (None)"
            ))
            .changes(told),
            (false, true) => StateOutcome::would(""),
        }
    } else {
        let more = s.pick(&["destructive", "force"]);
        let mut outcome = set(s, &name, Value::Nil, more)?;
        if outcome.result == Some(true) && outcome.changes.truthy() {
            outcome.changes = told.into();
            outcome.comment = if destructive {
                format!("Grain {name} was deleted")
            } else {
                format!("Value for grain {name} was set to None")
            };
        }
        outcome
    };
    Ok(outcome.with("name", name))
}

fn not_a_list(name: &str) -> StateOutcome {
    StateOutcome::bad(format!("Grain {name} is not a valid list"))
}

fn list_present(s: &mut State<'_, '_>) -> Result {
    let name = name(s)?;
    Ok(add_to_list(s, &name)?.with("name", name))
}

fn add_to_list(s: &mut State<'_, '_>, name: &str) -> Result {
    let mut value = s.arg("value").clone();
    let found = current(s, name);
    let mut notes = String::new();
    let mut list = match found.clone() {
        Some(Value::Array(list)) => list,
        Some(other) if other.truthy() => return Ok(not_a_list(name)),
        _ => Vec::new(),
    };
    if let Value::Array(wanted) = &value {
        let (known, fresh): (Vec<Value>, Vec<Value>) =
            wanted.iter().cloned().partition(|v| list.contains(v));
        if !list.is_empty() && fresh.is_empty() {
            return Ok(already(name, &value));
        }
        if !known.is_empty() {
            notes = format!(
                "Removed value {} from update due to value found in \"{name}\" (or pending).\n",
                python::str(&known.into())
            );
        }
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        for item in fresh {
            if once.contains(&item) {
                &mut twice
            } else {
                &mut once
            }
            .push(item);
        }
        if !twice.is_empty() {
            notes.push_str(&format!(
                "Removed value {} from update due to value already pending in \"{name}\".\n",
                python::str(&twice.into())
            ));
        }
        value = once.into();
    } else if list.contains(&value) {
        return Ok(already(name, &value));
    }
    let shown = python::str(&value);
    if s.test {
        let text = match list.is_empty() {
            true => format!("Grain {name} is set to be added"),
            false => format!("Value {shown} is set to be appended to grain {name}"),
        };
        let old = found.unwrap_or_else(|| "".into());
        return Ok(StateOutcome::would(text).changes(map! {"new" => old}));
    }
    if found.is_some_and(|v| v.is_nil()) {
        return Err(CallError::Type(
            "argument of type 'NoneType' is not iterable".to_owned(),
        ));
    }
    let answer = s.salt("grains.append", [name.into(), value.clone()])?;
    match value {
        Value::Array(more) => list.extend(more),
        one => list.push(one),
    }
    // Below a grain that is no map nothing can be set.
    let done = answer.as_map().and_then(|m| find(m, name)) == Some(&list.into());
    Ok(if done {
        StateOutcome::good(format!("{notes}Append value {shown} to grain {name}"))
            .changes(map! {"new" => answer})
    } else {
        StateOutcome::bad(format!("Failed append value {shown} to grain {name}"))
    })
}

fn already(name: &str, value: &Value) -> StateOutcome {
    let value = python::str(value);
    StateOutcome::good(format!(
        "Value {value} is already in grain {name} (or pending)"
    ))
}

fn list_absent(s: &mut State<'_, '_>) -> Result {
    let name = name(s)?;
    let mut list = match current(s, &name) {
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(other) if other.truthy() => return Ok(not_a_list(&name).with("name", name)),
        _ => {
            return Ok(
                StateOutcome::good(format!("Grain {name} does not exist")).with("name", name)
            );
        }
    };
    let (mut lines, mut deleted) = (Vec::new(), Vec::new());
    for value in match s.arg("value").clone() {
        Value::Array(list) => list,
        one => vec![one],
    } {
        let shown = python::str(&value);
        match list.iter().position(|v| *v == value) {
            None => lines.push(format!("Value {shown} is absent from grain {name}")),
            Some(at) => {
                if s.test {
                    lines.push(format!(
                        "Value {shown} in grain {name} is set to be deleted"
                    ));
                } else {
                    list.remove(at);
                    lines.push(format!("Value {shown} was deleted from grain {name}"));
                }
                deleted.push(value);
            }
        }
    }
    let comment = lines.join("\n");
    if deleted.is_empty() {
        return Ok(StateOutcome::good(comment).with("name", name));
    }
    let mut outcome = StateOutcome::would(comment);
    if !s.test {
        // At once: the grains that functions see are those of before this state.
        let done = set(s, &name, list.into(), map! {"force" => true})?;
        outcome.result = done.result;
        if done.result != Some(true) {
            return Ok(done.with("name", name));
        }
    }
    Ok(outcome
        .changes(map! {"deleted" => deleted})
        .with("name", name))
}

fn append(s: &mut State<'_, '_>) -> Result {
    let (name, value) = (name(s)?, s.arg("value").clone());
    let (shown, convert) = (python::str(&value), s.flag("convert"));
    let pending = match current(s, &name) {
        None => {
            return Ok(StateOutcome::bad(format!("Grain {name} does not exist")).with("name", name));
        }
        Some(Value::Array(list)) if list.contains(&value) => {
            return Ok(StateOutcome::good(format!(
                "Value {shown} is already in the list for grain {name}"
            ))
            .with("name", name));
        }
        Some(Value::Array(_)) => format!("Value {shown} in grain {name} is set to be added"),
        Some(_) if convert => {
            format!("Grain {name} is set to be converted to list and value {shown} will be added")
        }
        Some(_) => return Ok(not_a_list(&name).with("name", name)),
    };
    let outcome = if s.test {
        StateOutcome::would(pending)
    } else {
        let args = [Value::from(name.as_str()), value.clone(), convert.into()];
        s.salt("grains.append", args)?;
        StateOutcome::good(format!("Value {shown} was added to grain {name}"))
    };
    Ok(outcome.changes(map! {"added" => value}).with("name", name))
}
