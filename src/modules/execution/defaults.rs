//! `defaults`: default values of formulas, and merging maps.

use super::declare::{Function, Module, Result, args};
use super::nested::{DELIMITER, traverse};
use super::{Call, CallError, python};
use crate::files::FileClient;
use halite_render::merge::{MergeError, update as merge_into};
use halite_wire::{Map, Value, yaml};

pub(super) const MODULE: Module = Module {
    name: "defaults",
    functions: &[
        Function::new(
            "get",
            get,
            "A default value of a formula, from its file defaults.yaml or defaults.json.",
        )
        .args(args![key, default = ""]),
        Function::new("merge", merge, "One map merged into another.").args(args![
            dest,
            src,
            merge_lists = False,
            in_place = True,
            convert_none = True
        ]),
        Function::new(
            "deepcopy",
            |c| Ok(c.arg("source").clone()),
            "A copy of a value.",
        )
        .args(args![source]),
        Function::new(
            "update",
            update,
            "Fills up each map of a map with defaults.",
        )
        .args(args![
            dest,
            defaults,
            merge_lists = True,
            in_place = True,
            convert_none = True
        ]),
    ],
};

/// The defaults file of a formula on the file server.
fn load(call: &Call<'_>, formula: &str) -> Result<Option<Value>> {
    let client = FileClient::new(call.ctx)?;
    for kind in ["yaml", "json"] {
        let url = format!("salt://{formula}/defaults.{kind}");
        let Some(content) = client.contents(&url, "base")? else {
            continue;
        };
        let text = String::from_utf8_lossy(&content);
        let value = match kind {
            "yaml" => yaml::parse(&text)
                .map_err(|e| CallError::raised("yaml.scanner.ScannerError", e.message))?,
            _ => halite_wire::json::parse(text.as_bytes())
                .map_err(|e| CallError::raised("json.decoder.JSONDecodeError", e.to_string()))?,
        };
        let value = if value.truthy() {
            value
        } else {
            Map::new().into()
        };
        return Ok(Some(value));
    }
    Ok(None)
}

fn get(call: &mut Call<'_>) -> Result {
    let key = python::str(call.arg("key"));
    let (formula, path) = key.split_once(':').unwrap_or((&key, ""));
    let found = load(call, formula)?;
    if path.is_empty() {
        return Ok(found.unwrap_or_default());
    }
    let found = match &found {
        Some(Value::Map(map)) => traverse(map, &path.into(), DELIMITER),
        _ => None,
    };
    Ok(found
        .cloned()
        .unwrap_or_else(|| call.arg("default").clone()))
}

fn not_maps() -> CallError {
    CallError::Type(MergeError.to_string())
}

fn merged(dest: &Value, src: &Value, lists: bool) -> Result<Map> {
    let (Value::Map(dest), Value::Map(src)) = (dest, src) else {
        return Err(not_maps());
    };
    let mut dest = dest.clone();
    merge_into(&mut dest, src, lists);
    Ok(dest)
}

/// A value; nil becomes an empty map if `convert` is set.
fn converted(value: &Value, convert: bool) -> Value {
    match value {
        Value::Nil if convert => Map::new().into(),
        value => value.clone(),
    }
}

fn merge(call: &mut Call<'_>) -> Result {
    let convert = call.flag("convert_none");
    if call.arg("dest").is_nil() && convert && call.flag("in_place") {
        return Err(CallError::Type(
            "Can't perform in-place merge into NoneType".into(),
        ));
    }
    let dest = converted(call.arg("dest"), convert);
    let src = converted(call.arg("src"), convert);
    Ok(merged(&dest, &src, call.flag("merge_lists"))?.into())
}

fn update(call: &mut Call<'_>) -> Result {
    let convert = call.flag("convert_none");
    if call.arg("dest").is_nil() && call.flag("in_place") {
        return Err(CallError::Type(
            "Can't perform in-place update into NoneType".into(),
        ));
    }
    let nodes = converted(call.arg("dest"), convert);
    let defaults = converted(call.arg("defaults"), convert);
    let Value::Map(nodes) = nodes else {
        let class = python::type_name(&nodes);
        let text = format!("'{class}' object has no attribute 'items'");
        return Err(CallError::raised("AttributeError", text));
    };
    let mut filled = Map::new();
    for (name, own) in nodes.iter() {
        let own = converted(own, convert);
        let node = merged(&defaults, &own, call.flag("merge_lists"))?;
        filled.0.push((name.clone(), node.into()));
    }
    Ok(filled.into())
}
