//! Custom grains: the file `grains` beside the configuration.
//!
//! As in stock, an impossible change is reported as text and is no error.

use super::super::declare::Result;
use super::super::nested::traverse;
use super::super::{Call, CallError, find_for, python};
use halite_sys::daemon::write_atomic;
use halite_wire::{Map, Value, yaml};
use std::path::{Path, PathBuf};

/// The current value at a path.
fn current(call: &Call<'_>, key: &str, delimiter: &str) -> Option<Value> {
    traverse(&call.ctx.grains, &key.into(), delimiter).cloned()
}

fn key(call: &Call<'_>) -> String {
    python::str(call.arg("key"))
}

fn delimiter(call: &Call<'_>) -> String {
    call.text("delimiter").unwrap_or_default()
}

pub fn setvals(call: &mut Call<'_>) -> Result {
    let Some(grains) = call.arg("grains").as_map().cloned() else {
        let text = "setvals grains must be a dictionary.";
        return Err(CallError::raised("salt.exceptions.SaltException", text));
    };
    let (destructive, refresh) = (call.flag("destructive"), call.arg("refresh_pillar").clone());
    write(call, grains, destructive, refresh)
}

pub fn setval(call: &mut Call<'_>) -> Result {
    let grains = Map(vec![(call.arg("key").clone(), call.arg("val").clone())]);
    let (destructive, refresh) = (call.flag("destructive"), call.arg("refresh_pillar").clone());
    write(call, grains, destructive, refresh)
}

/// Writes the grains file and has the minion reload its grains.
fn write(call: &mut Call<'_>, grains: Map, destructive: bool, refresh: Value) -> Result {
    let file = file(call);
    let mut kept = match std::fs::read_to_string(&file) {
        Err(_) => Map::new(),
        Ok(text) => match yaml::parse(&text) {
            Ok(value) => value.into_map().unwrap_or_default(),
            Err(e) => return Ok(format!("Unable to read existing grains file: {e}").into()),
        },
    };
    for (key, value) in grains.iter() {
        let at = kept.0.iter().position(|(k, _)| k == key);
        match (at, value.is_nil() && destructive) {
            (Some(at), true) => drop(kept.0.remove(at)),
            (None, true) => {}
            (Some(at), false) => kept.0[at].1 = value.clone(),
            (None, false) => kept.0.push((key.clone(), value.clone())),
        }
    }
    let text = yaml::emit(&kept.into(), false);
    if let Err(e) = write_atomic(&file, text.as_bytes(), 0o644) {
        log::error!(
            "Unable to write to grains file at {}: {e}. Check permissions.",
            file.display()
        );
    }
    let opts = &call.ctx.opts;
    if !opts.get("local").is_some_and(Value::truthy)
        && find_for(call.ctx, "saltutil.refresh_grains").is_some()
    {
        let refresh = Map(vec![("refresh_pillar".into(), refresh)]);
        call.salt("saltutil.refresh_grains", Vec::new(), refresh)?;
    }
    Ok(grains.into())
}

fn file(call: &Call<'_>) -> PathBuf {
    let conf = Path::new(call.ctx.opts.str("conf_file").unwrap_or_default());
    if conf.is_dir() {
        conf.join("grains")
    } else {
        conf.with_file_name("grains")
    }
}

/// The new value of a path's first key when `value` is set at the end of the path.
fn headed<'k>(
    call: &Call<'_>,
    key: &'k str,
    delimiter: &str,
    mut value: Value,
) -> (&'k str, Value) {
    let mut head = key;
    while !delimiter.is_empty()
        && let Some((before, rest)) = head.rsplit_once(delimiter)
    {
        head = before;
        let above = current(call, head, delimiter).unwrap_or_else(|| Map::new().into());
        value = match above {
            Value::Map(mut map) => {
                map.set(rest, value);
                map.into()
            }
            other => other,
        };
    }
    (head, value)
}

fn save(call: &mut Call<'_>, key: &str, value: Value, destructive: bool) -> Result {
    let grains = Map(vec![(key.into(), value)]);
    write(call, grains, destructive, true.into())
}

pub fn append(call: &mut Call<'_>) -> Result {
    let (key, delimiter) = (key(call), delimiter(call));
    let found = current(call, &key, &delimiter).unwrap_or_else(|| Value::Array(Vec::new()));
    let mut list = match found {
        Value::Array(list) => list,
        Value::Nil if call.flag("convert") => Vec::new(),
        other if call.flag("convert") => vec![other],
        _ => return Ok(format!("The key {key} is not a valid list").into()),
    };
    let value = call.arg("val").clone();
    if list.contains(&value) {
        let value = python::str(&value);
        return Ok(format!("The val {value} was already in the list {key}").into());
    }
    match value {
        Value::Array(more) => list.extend(more),
        one => list.push(one),
    }
    let (head, value) = headed(call, &key, &delimiter, list.into());
    save(call, head, value, false)
}

pub fn remove(call: &mut Call<'_>) -> Result {
    let (key, delimiter) = (key(call), delimiter(call));
    let found = current(call, &key, &delimiter).unwrap_or_else(|| Value::Array(Vec::new()));
    let Value::Array(mut list) = found else {
        return Ok(format!("The key {key} is not a valid list").into());
    };
    let value = call.arg("val");
    let Some(at) = list.iter().position(|item| item == value) else {
        let value = python::str(value);
        return Ok(format!("The val {value} was not in the list {key}").into());
    };
    list.remove(at);
    let (head, value) = headed(call, &key, &delimiter, list.into());
    save(call, head, value, false)
}

pub fn delkey(call: &mut Call<'_>) -> Result {
    let (key, force) = (key(call), call.flag("force"));
    place(call, &key, Value::Nil, force, true, super::DELIMITER)
}

pub fn delval(call: &mut Call<'_>) -> Result {
    let (key, force, destructive) = (key(call), call.flag("force"), call.flag("destructive"));
    place(call, &key, Value::Nil, force, destructive, super::DELIMITER)
}

pub fn set(call: &mut Call<'_>) -> Result {
    let (key, value, delimiter) = (key(call), call.arg("val").clone(), delimiter(call));
    let (force, destructive) = (call.flag("force"), call.flag("destructive"));
    place(call, &key, value, force, destructive, &delimiter)
}

fn is_complex(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::Array(_))
}

fn state_return(comment: String, changes: Value, result: bool) -> Result {
    Ok(halite_wire::map! {"comment" => comment, "changes" => changes, "result" => result}.into())
}

fn place(
    call: &mut Call<'_>,
    key: &str,
    value: Value,
    force: bool,
    destructive: bool,
    delimiter: &str,
) -> Result {
    let none = || Value::from(Map::new());
    let found = current(call, key, delimiter);
    if found.as_ref() == Some(&value) && (!value.is_nil() || !destructive) {
        return state_return("Grain is already set".to_owned(), none(), true);
    }
    if let Some(found) = found.as_ref().filter(|v| !v.is_nil() && !force) {
        let what = match (is_complex(found), is_complex(&value)) {
            (true, _) => Some("but is"),
            (false, true) => Some("and the given value is"),
            (false, false) => None,
        };
        if let Some(what) = what {
            let comment = format!(
                "The key '{key}' exists {what} a dict or a list. Use 'force=True' to overwrite."
            );
            return state_return(comment, none(), false);
        }
    }
    let (mut head, mut value) = (key, value);
    while !delimiter.is_empty()
        && let Some((before, rest)) = head.rsplit_once(delimiter)
    {
        head = before;
        let above = current(call, head, delimiter).unwrap_or_else(none);
        value = match above {
            Value::Map(mut map) => {
                if value.is_nil() && destructive {
                    drop(map.remove(rest))
                } else {
                    map.set(rest, value)
                }
                map.into()
            }
            Value::Array(list) => in_list(list, rest, value).into(),
            other if force || other.is_str(rest) => Map(vec![(rest.into(), value)]).into(),
            other => {
                let comment = format!(
                    "The key '{head}' value is '{}', which is different from the provided key '{rest}'. \
                     Use 'force=True' to overwrite.",
                    python::str(&other)
                );
                return state_return(comment, none(), false);
            }
        };
    }
    match save(call, head, value, destructive)? {
        Value::Map(changes) => state_return(String::new(), changes.into(), true),
        text => state_return(python::str(&text), none(), false),
    }
}

/// Replaces items that are the name or maps with it; otherwise appends a map.
fn in_list(mut list: Vec<Value>, name: &str, value: Value) -> Vec<Value> {
    let mut updated = false;
    for item in &mut list {
        if item.is_str(name) {
            *item = Map(vec![(name.into(), value.clone())]).into();
            updated = true;
        } else if let Value::Map(map) = item
            && map.contains(name)
        {
            map.set(name, value.clone());
            updated = true;
        }
    }
    if !updated {
        list.push(Map(vec![(name.into(), value)]).into());
    }
    list
}
