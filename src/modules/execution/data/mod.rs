//! `data`: a small data store on the minion, the file `datastore` in `cachedir`.

mod literal;

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python};
use halite_config::paths::minion::cache;
use halite_sys::daemon::write_atomic;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::path::PathBuf;

pub(super) const MODULE: Module = Module {
    name: "data",
    functions: &[
        Function::new("clear", clear, "Removes all stored values."),
        Function::new("load", |c| Ok(load(c).into()), "All stored values."),
        Function::new("items", |c| Ok(load(c).into()), "All stored values."),
        Function::new("dump", dump, "Replaces all stored values by a map.").args(args![new_data]),
        Function::new("update", update, "Stores a value under a key.").args(args![key, value]),
        Function::new(
            "cas",
            cas,
            "Stores a value under a key if its current value is the expected one.",
        )
        .args(args![key, value, old_value]),
        Function::new(
            "pop",
            pop,
            "Removes and returns a value, or returns the default.",
        )
        .args(args![key, default = None]),
        Function::new(
            "get",
            get,
            "The value of a key, or those of a list of keys; the default if missing.",
        )
        .args(args![key, default = None]),
        Function::new(
            "keys",
            |c| {
                Ok(load(c)
                    .0
                    .into_iter()
                    .map(|(k, _)| k)
                    .collect::<Vec<_>>()
                    .into())
            },
            "The stored keys.",
        ),
        Function::new(
            "values",
            |c| {
                Ok(load(c)
                    .0
                    .into_iter()
                    .map(|(_, v)| v)
                    .collect::<Vec<_>>()
                    .into())
            },
            "The stored values.",
        ),
        Function::new("has_key", has_key, "Whether a key is stored.").args(args![key]),
    ],
};

fn path(call: &Call<'_>) -> PathBuf {
    cache::datastore(&call.ctx.cachedir)
}

/// A missing or unreadable store counts as empty.
fn load(call: &Call<'_>) -> Map {
    let content = std::fs::read(path(call)).unwrap_or_default();
    let value = msgpack::decode(&content).ok();
    value.and_then(Value::into_map).unwrap_or_default()
}

/// Only `data.dump` reports whether saving worked, as in stock.
fn save(call: &Call<'_>, store: &Map) -> bool {
    let content = msgpack::encode_map(store, Profile::Local);
    write_atomic(&path(call), &content, 0o600).is_ok()
}

fn clear(call: &mut Call<'_>) -> Result {
    // It may not exist.
    let _ = std::fs::remove_file(path(call));
    Ok(true.into())
}

fn dump(call: &mut Call<'_>) -> Result {
    let data = match call.arg("new_data") {
        Value::Map(map) => map.clone(),
        Value::Str(text) => match literal::parse(text)? {
            Value::Map(map) => map,
            _ => return Ok(false.into()),
        },
        other => {
            let text = format!("malformed node or string: {}", python::repr(other));
            return Err(CallError::raised("ValueError", text));
        }
    };
    Ok(save(call, &data).into())
}

fn key(call: &Call<'_>) -> Result {
    match call.arg("key") {
        Value::Array(_) => Err(CallError::Type("unhashable type: 'list'".into())),
        Value::Map(_) => Err(CallError::Type("unhashable type: 'dict'".into())),
        key => Ok(key.clone()),
    }
}

fn find<'a>(store: &'a mut Map, key: &Value) -> Option<&'a mut Value> {
    store.0.iter_mut().find(|(k, _)| k == key).map(|(_, v)| v)
}

fn update(call: &mut Call<'_>) -> Result {
    let mut store = load(call);
    let key = key(call)?;
    let value = call.arg("value").clone();
    match find(&mut store, &key) {
        Some(slot) => *slot = value,
        None => store.0.push((key, value)),
    }
    save(call, &store);
    Ok(true.into())
}

fn cas(call: &mut Call<'_>) -> Result {
    let mut store = load(call);
    match find(&mut store, &key(call)?) {
        Some(slot) if slot == call.arg("old_value") => *slot = call.arg("value").clone(),
        _ => return Ok(false.into()),
    }
    save(call, &store);
    Ok(true.into())
}

fn pop(call: &mut Call<'_>) -> Result {
    let mut store = load(call);
    let key = key(call)?;
    let at = store.0.iter().position(|(k, _)| *k == key);
    let value = at.map(|at| store.0.remove(at).1);
    save(call, &store);
    Ok(value.unwrap_or_else(|| call.arg("default").clone()))
}

fn get(call: &mut Call<'_>) -> Result {
    let mut store = load(call);
    let default = call.arg("default").clone();
    let keys: Vec<Value> = match call.arg("key") {
        Value::Str(text) => {
            let found = store.get(text).cloned();
            return Ok(found.unwrap_or(default));
        }
        Value::Array(keys) => keys.clone(),
        Value::Map(keys) => keys.iter().map(|(k, _)| k.clone()).collect(),
        other => {
            let class = python::type_name(other);
            return Err(CallError::Type(format!("'{class}' object is not iterable")));
        }
    };
    let found = keys.iter().map(|key| find(&mut store, key).cloned());
    let values: Vec<Value> = match default {
        Value::Nil => found.flatten().collect(),
        default => found
            .map(|v| v.unwrap_or_else(|| default.clone()))
            .collect(),
    };
    Ok(values.into())
}

fn has_key(call: &mut Call<'_>) -> Result {
    let key = key(call)?;
    Ok(find(&mut load(call), &key).is_some().into())
}
