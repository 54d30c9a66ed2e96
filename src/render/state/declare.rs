//! The declarations of one rendered SLS file: expands short forms, splits off `extend` and `exclude`, and
//! records the order in the file (`salt/state.py BaseHighState._handle_*`).

use super::first_key;
use halite_wire::{Map, Value};

/// The order of the first declaration that has no `order`.
pub(super) const FIRST_ORDER: i64 = 10_000;

/// Expands `state.function: [...]` keys and `id: state.function` entries, and records SLS and environment of
/// each id (`_handle_state_decls`).
pub(super) fn pad_funcs(state: &mut Map, sls: &str, saltenv: &str, errors: &mut Vec<String>) {
    for (id, body) in &mut state.0 {
        let id = id_text(id);
        if id == "__extend__" || id == "__exclude__" {
            continue;
        }
        if let Value::Str(short) = body
            && let Some((module, function)) = split(short)
        {
            *body = Value::Map(halite_wire::map! {
                "__sls__" => sls, "__env__" => saltenv, module => vec![Value::from(function)],
            });
            continue;
        }
        let Value::Map(body) = body else {
            errors.push(format!("ID {id} in SLS {sls} is not a dictionary"));
            continue;
        };
        pad_body(body, &id, sls, errors);
        if !body.contains("__sls__") {
            body.set("__sls__", sls);
        }
        if !body.contains("__env__") {
            body.set("__env__", saltenv);
        }
    }
}

fn pad_body(body: &mut Map, id: &str, sls: &str, errors: &mut Vec<String>) {
    let mut seen: Vec<String> = Vec::new();
    let keys: Vec<String> = body
        .iter()
        .filter_map(|(k, _)| k.as_str().map(str::to_owned))
        .collect();
    for key in keys {
        if key.starts_with('_') || body.get(&key).is_none_or(|v| v.as_array().is_none()) {
            continue;
        }
        let Some((module, function)) = split(&key) else {
            seen.push(key);
            continue;
        };
        if seen.iter().any(|s| s == module) {
            errors.push(format!(
                "ID '{id}' in SLS '{sls}' contains multiple state declarations of the same type"
            ));
            continue;
        }
        rename(body, &key, module, function);
        seen.push(module.to_owned());
    }
}

/// Moves `module.function: [...]` to the end as `module: [..., function]`, like Python's `d[new] =
/// d.pop(old)`.
fn rename(body: &mut Map, key: &str, module: &str, function: &str) {
    if let Some(Value::Array(mut list)) = body.remove(key) {
        list.push(function.into());
        body.set(module, list);
    }
}

/// `module` and `function` of a dotted name. Like Salt, drops anything after a second dot.
fn split(name: &str) -> Option<(&str, &str)> {
    let (module, rest) = name.split_once('.')?;
    Some((module, rest.split('.').next().unwrap_or(rest)))
}

/// Moves `extend` to the list `__extend__` (`_handle_extend`).
pub(super) fn split_extends(state: &mut Map, sls: &str, saltenv: &str, errors: &mut Vec<String>) {
    let Some(extend) = state.remove("extend") else {
        return;
    };
    let Value::Map(mut extend) = extend else {
        errors.push(format!(
            "Extension value in SLS '{sls}' is not a dictionary"
        ));
        return;
    };
    for (id, body) in &mut extend.0 {
        let Value::Map(body) = body else {
            errors.push(format!(
                "Extension name '{}' in SLS '{sls}' is not a dictionary",
                id_text(id)
            ));
            continue;
        };
        if !body.contains("__sls__") {
            body.set("__sls__", sls);
        }
        if !body.contains("__env__") {
            body.set("__env__", saltenv);
        }
        let dotted: Vec<String> = body
            .iter()
            .filter(|(k, v)| {
                v.as_array().is_some()
                    && k.as_str()
                        .is_some_and(|k| !k.starts_with('_') && k.contains('.'))
            })
            .filter_map(|(k, _)| k.as_str().map(str::to_owned))
            .collect();
        for key in dotted {
            if let Some((module, function)) = split(&key) {
                rename(body, &key, module, function);
            }
        }
    }
    push_to(state, "__extend__", Value::Map(extend));
}

/// Moves `exclude` to the list `__exclude__` (`_handle_exclude`).
pub(super) fn split_excludes(state: &mut Map, sls: &str, errors: &mut Vec<String>) {
    let Some(exclude) = state.remove("exclude") else {
        return;
    };
    let Value::Array(list) = exclude else {
        errors.push(format!(
            "Exclude Declaration in SLS {sls} is not formed as a list"
        ));
        return;
    };
    for item in list {
        push_to(state, "__exclude__", item);
    }
}

fn push_to(map: &mut Map, key: &str, item: Value) {
    if let Some(Value::Array(list)) = map.get_mut(key) {
        list.push(item);
        return;
    }
    map.set(key, vec![item]);
}

/// Sets `order` where it is missing, by position in the files (`_handle_iorder`).
pub(super) fn assign_order(state: &mut Map, next: &mut i64) {
    for (_, body) in &mut state.0 {
        let Value::Map(body) = body else { continue };
        for (key, declaration) in &mut body.0 {
            if key.as_str().is_none_or(|k| k.starts_with('_')) {
                continue;
            }
            let Value::Array(list) = declaration else {
                continue;
            };
            let ordered = list
                .iter()
                .any(|arg| arg.as_map().is_some_and(|m| first_key(m) == Some("order")));
            if !ordered {
                list.push(Value::Map(halite_wire::map! {"order" => *next}));
                *next += 1;
            }
        }
    }
}

pub(super) fn id_text(id: &Value) -> String {
    match id {
        Value::Str(s) => s.clone(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => f.to_string(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        _ => "None".to_owned(),
    }
}
