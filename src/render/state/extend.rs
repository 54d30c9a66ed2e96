//! `extend` and `exclude` (`salt/state.py State.reconcile_extend`, `_apply_exclude`).

use super::{first_key, internal, is_requisite};
use halite_target::fnmatch;
use halite_wire::{Map, Value};

/// Merges `__extend__` into the declarations that it extends. With `strict`, an id found by name must also
/// have the state type.
pub(super) fn reconcile(high: &mut Map, strict: bool) -> Vec<String> {
    let mut errors = Vec::new();
    let Some(Value::Array(extend)) = high.remove("__extend__") else {
        return errors;
    };
    let excluded = excluded_sls(high);
    for chunk in extend {
        let Value::Map(chunk) = chunk else { continue };
        for (name, body) in chunk.0 {
            let (Value::Str(name), Value::Map(body)) = (name, body) else {
                continue;
            };
            if let Err(e) = extend_one(high, name, body, strict, &excluded) {
                errors.push(e);
            }
        }
    }
    errors
}

fn excluded_sls(high: &Map) -> Vec<String> {
    let list = high.get("__exclude__").and_then(Value::as_array);
    list.unwrap_or_default()
        .iter()
        .filter_map(|item| match item {
            Value::Str(sls) => Some(sls.clone()),
            Value::Map(map) => map.str("sls").map(str::to_owned),
            _ => None,
        })
        .collect()
}

fn extend_one(
    high: &mut Map,
    mut name: String,
    body: Map,
    strict: bool,
    excluded: &[String],
) -> Result<(), String> {
    let Some(kind) = body
        .iter()
        .find(|(k, _)| !internal(k))
        .and_then(|(k, _)| k.as_str())
    else {
        return Ok(());
    };
    let sls = body.str("__sls__").unwrap_or("base");
    let known = high
        .get(&name)
        .and_then(Value::as_map)
        .is_some_and(|b| b.contains(kind));
    if !known {
        let ids = find_name(&name, kind, high, strict);
        let [(id, _)] = ids.as_slice() else {
            let env = body.str("__env__").unwrap_or("base");
            return Err(format!(
                "Cannot extend ID '{name}' in '{env}:{sls}'. It is not part of the high state.\n\
                 This is likely due to a missing include statement or an incorrectly typed ID.\n\
                 Ensure that a state with an ID of '{name}' is available\n\
                 in environment '{env}' and to SLS '{sls}'"
            ));
        };
        name = id.clone();
    }
    if excluded.iter().any(|e| e == sls) {
        log::debug!("{sls} is excluded, so that it does not extend {name}");
        return Ok(());
    }
    let Some(Value::Map(target)) = high.get_mut(&name) else {
        return Ok(());
    };
    for (state, run) in body.0 {
        let (Value::Str(state), Value::Array(run)) = (state, run) else {
            continue;
        };
        if state.starts_with("__") {
            continue;
        }
        match target.get_mut(&state) {
            Some(Value::Array(list)) => run.into_iter().for_each(|arg| merge(list, arg)),
            _ => target.set(state, run),
        }
    }
    Ok(())
}

/// Applies one argument of an extension: it replaces the function, adds to a requisite, or replaces the
/// argument of that name.
fn merge(list: &mut Vec<Value>, arg: Value) {
    let mut done = false;
    for slot in list.iter_mut() {
        match (&arg, &mut *slot) {
            (Value::Str(_), Value::Str(_)) => {
                *slot = arg.clone();
                done = true;
            }
            (Value::Map(new), Value::Map(old)) => {
                let (Some(key), Some(old_key)) = (first_key(new), first_key(old)) else {
                    continue;
                };
                if key == old_key {
                    let key = key.to_owned();
                    match (old.get_mut(&key), new.get(&key)) {
                        (Some(Value::Array(have)), Some(Value::Array(more)))
                            if is_requisite(&key) =>
                        {
                            have.extend(more.iter().cloned());
                        }
                        _ => *slot = arg.clone(),
                    }
                    done = true;
                } else if key == "name" && old_key == "names" {
                    *slot = arg.clone();
                }
            }
            _ => {}
        }
    }
    if !done {
        list.push(arg);
    }
}

/// Ids that match a name: the id itself, all ids of an SLS, or ids with that `name` (`salt/state.py
/// find_name`).
pub(super) fn find_name(
    name: &str,
    state: &str,
    high: &Map,
    strict: bool,
) -> Vec<(String, String)> {
    if let Some(body) = high.get(name)
        && (!strict || body.as_map().is_some_and(|b| b.contains(state)))
    {
        return vec![(name.to_owned(), state.to_owned())];
    }
    let bodies = high
        .iter()
        .filter_map(|(id, body)| Some((id.as_str()?, body.as_map()?)));
    if state == "sls" {
        return bodies
            .filter(|(_, body)| body.str("__sls__") == Some(name))
            .filter_map(|(id, body)| Some((id.to_owned(), first_key(body)?.to_owned())))
            .collect();
    }
    let named = |arg: &Value| {
        arg.as_map()
            .is_some_and(|m| m.len() == 1 && m.iter().all(|(_, v)| v.is_str(name)))
    };
    bodies
        .filter(|(_, body)| {
            let list = body.get(state).and_then(Value::as_array);
            list.is_some_and(|list| list.iter().any(named))
        })
        .map(|(id, _)| (id.to_owned(), state.to_owned()))
        .collect()
}

/// Removes what `__exclude__` names, by id or by glob of SLS names.
pub(super) fn exclude(high: &mut Map) {
    let Some(Value::Array(list)) = high.remove("__exclude__") else {
        return;
    };
    let mut sls: Vec<String> = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    for item in &list {
        match item {
            Value::Str(name) => sls.push(name.clone()),
            Value::Map(map) if map.len() == 1 => {
                sls.extend(map.str("sls").map(str::to_owned));
                ids.extend(map.str("id").map(str::to_owned));
            }
            _ => {}
        }
    }
    high.0.retain(|(id, body)| {
        if ids.iter().any(|i| id.is_str(i)) {
            return false;
        }
        let from = body.as_map().and_then(|b| b.str("__sls__"));
        internal(id) || !from.is_some_and(|from| sls.iter().any(|glob| fnmatch(from, glob)))
    });
}
