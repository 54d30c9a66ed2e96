//! `grains.*`, `pillar.*`, `config.*`: data of the minion
//! (`salt/modules/grains.py`, `pillar.py`, `config.py`).

use super::{Call, CallError, CallResult, Function, FunctionContext, Run, text_of, traverse_map};
use crate::merge::update;
use halite_target::fnmatch;
use halite_wire::{Map, Value};

const GET: &[&str] = &["key", "default", "delimiter", "ordered"];
const PILLAR_GET: &[&str] = &[
    "key",
    "default",
    "merge",
    "merge_nested_lists",
    "delimiter",
    "pillarenv",
    "saltenv",
];
const CONFIG_GET: &[&str] = &[
    "key",
    "default",
    "delimiter",
    "merge",
    "omit_opts",
    "omit_pillar",
    "omit_master",
    "omit_grains",
];
const OPTION: &[&str] = &[
    "value",
    "default",
    "omit_opts",
    "omit_grains",
    "omit_pillar",
    "omit_master",
    "omit_all",
    "wildcard",
];
const FILTER: &[&str] = &["lookup_dict", "grain", "merge", "default", "base"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "grains.get",
        params: GET,
        required: 1,
        run: Run::Data(grains_get),
    },
    Function {
        name: "grains.fetch",
        params: GET,
        required: 1,
        run: Run::Data(grains_get),
    },
    Function {
        name: "grains.item",
        params: &["*", "**"],
        required: 0,
        run: Run::Data(grains_item),
    },
    Function {
        name: "grains.items",
        params: &["sanitize"],
        required: 0,
        run: Run::Data(|s, _| Ok(map(&s.grains))),
    },
    Function {
        name: "grains.ls",
        params: &[],
        required: 0,
        run: Run::Data(|s, _| Ok(sorted_keys(&s.grains))),
    },
    Function {
        name: "grains.has_value",
        params: &["key"],
        required: 1,
        run: Run::Data(has_value),
    },
    Function {
        name: "grains.equals",
        params: &["key", "value"],
        required: 2,
        run: Run::Data(equals),
    },
    Function {
        name: "grains.filter_by",
        params: FILTER,
        required: 1,
        run: Run::Data(filter_by),
    },
    Function {
        name: "pillar.get",
        params: PILLAR_GET,
        required: 1,
        run: Run::Data(pillar_get),
    },
    Function {
        name: "pillar.fetch",
        params: PILLAR_GET,
        required: 1,
        run: Run::Data(pillar_get),
    },
    Function {
        name: "pillar.item",
        params: &["*", "**"],
        required: 0,
        run: Run::Data(pillar_item),
    },
    Function {
        name: "pillar.items",
        params: &["**"],
        required: 0,
        run: Run::Data(|s, _| Ok(map(&s.pillar))),
    },
    Function {
        name: "pillar.raw",
        params: &["key"],
        required: 0,
        run: Run::Data(pillar_raw),
    },
    Function {
        name: "pillar.ls",
        params: &[],
        required: 0,
        run: Run::Data(|s, _| Ok(keys(&s.pillar))),
    },
    Function {
        name: "pillar.filter_by",
        params: &["lookup_dict", "pillar", "merge", "default", "base"],
        required: 2,
        run: Run::Data(pillar_filter_by),
    },
    Function {
        name: "config.get",
        params: CONFIG_GET,
        required: 1,
        run: Run::Data(config_get),
    },
    Function {
        name: "config.option",
        params: OPTION,
        required: 1,
        run: Run::Data(config_option),
    },
    Function {
        name: "config.merge",
        params: OPTION,
        required: 1,
        run: Run::Data(config_option),
    },
];

fn map(map: &Map) -> Value {
    Value::Map(map.clone())
}

fn keys(map: &Map) -> Value {
    map.iter()
        .map(|(key, _)| key.clone())
        .collect::<Vec<_>>()
        .into()
}

fn sorted_keys(map: &Map) -> Value {
    let mut names: Vec<String> = map
        .iter()
        .filter_map(|(k, _)| k.as_str().map(str::to_owned))
        .collect();
    names.sort();
    names.into()
}

fn delimiter(call: &Call) -> String {
    match call.get("delimiter") {
        None => ":".to_owned(),
        Some(_) => call.text("delimiter"),
    }
}

fn lookup(data: &Map, call: &Call) -> Option<Value> {
    traverse_map(data, &call.text("key"), &delimiter(call))
}

fn grains_get(scope: &FunctionContext, call: &Call) -> CallResult {
    let default = || call.get("default").cloned().unwrap_or_else(|| "".into());
    Ok(lookup(&scope.grains, call).unwrap_or_else(default))
}

fn grains_item(scope: &FunctionContext, call: &Call) -> CallResult {
    item(&scope.grains, call)
}

fn pillar_item(scope: &FunctionContext, call: &Call) -> CallResult {
    item(&scope.pillar, call)
}

/// Each key with its value.
fn item(data: &Map, call: &Call) -> CallResult {
    let default = call
        .more
        .get("default")
        .cloned()
        .unwrap_or_else(|| "".into());
    let delimiter = call.more.str("delimiter").unwrap_or(":");
    let keys = call.rest.iter().map(text_of);
    let found = keys.map(|key| {
        let value = traverse_map(data, &key, delimiter).unwrap_or_else(|| default.clone());
        (key, value)
    });
    Ok(Value::Map(found.collect()))
}

fn has_value(scope: &FunctionContext, call: &Call) -> CallResult {
    Ok(traverse_map(&scope.grains, &call.text("key"), ":")
        .is_some_and(|v| v.truthy())
        .into())
}

fn equals(scope: &FunctionContext, call: &Call) -> CallResult {
    let own = traverse_map(&scope.grains, &call.text("key"), ":").unwrap_or_else(|| "".into());
    Ok((text_of(&own) == call.text("value")).into())
}

fn filter_by(scope: &FunctionContext, call: &Call) -> CallResult {
    let grain = match call.some("grain") {
        None => "os_family".to_owned(),
        Some(_) => call.text("grain"),
    };
    filter(&scope.grains, &grain, call)
}

fn pillar_filter_by(scope: &FunctionContext, call: &Call) -> CallResult {
    filter(&scope.pillar, &call.text("pillar"), call)
}

/// `salt/utils/data.py filter_by`.
fn filter(data: &Map, lookup: &str, call: &Call) -> CallResult {
    let Some(Value::Map(table)) = call.get("lookup_dict") else {
        return Err(CallError::Type("filter_by needs a dictionary".into()));
    };
    let found = traverse_map(data, lookup, ":").unwrap_or_else(|| Value::Array(Vec::new()));
    let values = match &found {
        Value::Array(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    let hit = |value: &Value| {
        let text = text_of(value);
        table
            .iter()
            .find(|(key, _)| fnmatch(&text, &text_of(key)))
            .map(|(_, v)| v.clone())
    };
    let default = || {
        let name = call
            .get("default")
            .cloned()
            .unwrap_or_else(|| "default".into());
        table
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, v)| v.clone())
    };
    let hit = values.iter().find_map(|v| hit(v).filter(|v| !v.is_nil()));
    let mut result = hit.or_else(default).unwrap_or_default();
    if let Some(base) = call
        .some("base")
        .and_then(|name| table.iter().find(|(key, _)| key == name))
    {
        result = match (result, base.1.clone()) {
            (Value::Nil, base) => base,
            (Value::Map(own), Value::Map(mut base)) => {
                update(&mut base, &own, false);
                Value::Map(base)
            }
            (_, Value::Map(_)) => {
                return Err(CallError::Other(
                    "filter_by default and look-up values must both be dictionaries.".into(),
                ));
            }
            (own, _) => own,
        };
    }
    match (call.get("merge").filter(|m| m.truthy()), result) {
        (None, result) => Ok(result),
        (Some(Value::Map(merge)), Value::Nil) => Ok(map(merge)),
        (Some(Value::Map(merge)), Value::Map(mut own)) => {
            update(&mut own, merge, false);
            Ok(Value::Map(own))
        }
        (Some(Value::Map(_)), _) => Err(CallError::Type(
            "Cannot update using non-dict types in dictupdate.update()".into(),
        )),
        (Some(_), _) => Err(CallError::Other(
            "filter_by merge argument must be a dictionary.".into(),
        )),
    }
}

fn pillar_get(scope: &FunctionContext, call: &Call) -> CallResult {
    let found = lookup(&scope.pillar, call);
    let default = call.get("default");
    if call.flag("merge", false) {
        let lists = call.flag("merge_nested_lists", true);
        match (default, found) {
            (Some(Value::Map(default)), Some(Value::Map(own))) => {
                let mut merged = default.clone();
                update(&mut merged, &own, lists);
                return Ok(Value::Map(merged));
            }
            (Some(Value::Array(default)), Some(Value::Array(own))) => {
                let mut merged = default.clone();
                merged.extend(own);
                return Ok(Value::Array(merged));
            }
            (Some(Value::Map(_) | Value::Array(_)), None) => {}
            (_, found) => return Ok(found.or(default.cloned()).unwrap_or_else(|| "".into())),
        }
        return Ok(default.cloned().unwrap_or_default());
    }
    Ok(found
        .or_else(|| default.cloned())
        .unwrap_or_else(|| "".into()))
}

fn pillar_raw(scope: &FunctionContext, call: &Call) -> CallResult {
    let Some(key) = call.some("key") else {
        return Ok(map(&scope.pillar));
    };
    Ok(scope
        .pillar
        .get(&text_of(key))
        .cloned()
        .unwrap_or_else(|| Value::Map(Map::new())))
}

/// Looks in the options of the master, the grains and the pillar, in this order.
fn config_get(scope: &FunctionContext, call: &Call) -> CallResult {
    let from = |data: &Map, omit: &str| {
        if call.flag(omit, false) {
            None
        } else {
            lookup(data, call)
        }
    };
    let found = from(&scope.opts, "omit_opts")
        .or_else(|| from(&scope.grains, "omit_grains"))
        .or_else(|| from(&scope.pillar, "omit_pillar"));
    Ok(found
        .or_else(|| call.get("default").cloned())
        .unwrap_or_else(|| "".into()))
}

fn config_option(scope: &FunctionContext, call: &Call) -> CallResult {
    let name = call.text("value");
    let found = scope.opts.get(&name).or_else(|| scope.pillar.get(&name));
    Ok(found
        .or_else(|| call.get("default"))
        .cloned()
        .unwrap_or_else(|| "".into()))
}
