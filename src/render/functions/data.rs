//! `test.*`, `defaults.*` and functions that change their arguments in place
//! (`salt/modules/test.py`, `defaults.py`, `slsutil.py`).

use super::{Call, CallError, CallResult, Function, FunctionContext, Run};
use crate::merge::update;
use halite_jinja::{Cx, Error, Obj, PyDict};
use halite_wire::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "test.ping",
        params: &[],
        required: 0,
        run: Run::Data(|_, _| Ok(true.into())),
    },
    Function {
        name: "test.true",
        params: &[],
        required: 0,
        run: Run::Data(|_, _| Ok(true.into())),
    },
    Function {
        name: "test.false",
        params: &[],
        required: 0,
        run: Run::Data(|_, _| Ok(false.into())),
    },
    Function {
        name: "test.echo",
        params: &["text"],
        required: 1,
        run: Run::Data(|_, c| Ok(c.get("text").cloned().unwrap_or_default())),
    },
    Function {
        name: "test.arg",
        params: &["*", "**"],
        required: 0,
        run: Run::Data(arg),
    },
    Function {
        name: "test.kwarg",
        params: &["**"],
        required: 0,
        run: Run::Data(|_, c| Ok(Value::Map(c.more.clone()))),
    },
    Function {
        name: "test.exception",
        params: &["message"],
        required: 0,
        run: Run::Data(exception),
    },
    Function {
        name: "slsutil.update",
        params: &["dest", "upd", "recursive_update", "merge_lists"],
        required: 2,
        run: Run::Live(update_live),
    },
    Function {
        name: "defaults.update",
        params: &[
            "dest",
            "defaults",
            "merge_lists",
            "in_place",
            "convert_none",
        ],
        required: 2,
        run: Run::Live(defaults_update),
    },
    Function {
        name: "defaults.merge",
        params: &["dest", "src", "merge_lists", "in_place", "convert_none"],
        required: 2,
        run: Run::Live(defaults_merge),
    },
    Function {
        name: "defaults.deepcopy",
        params: &["source"],
        required: 1,
        run: Run::Data(|_, c| Ok(c.get("source").cloned().unwrap_or_default())),
    },
];

fn arg(_: &FunctionContext, call: &Call) -> CallResult {
    Ok(Value::Map(
        halite_wire::map! {"args" => call.rest.clone(), "kwargs" => call.more.clone()},
    ))
}

fn exception(_: &FunctionContext, call: &Call) -> CallResult {
    Err(CallError::Other(match call.some("message") {
        None => "Test Exception".to_owned(),
        Some(_) => call.text("message"),
    }))
}

fn as_map(value: Option<&Obj>) -> Result<Map, Error> {
    let value = value.map(Obj::to_value).transpose()?;
    value.and_then(Value::into_map).ok_or_else(|| {
        Error::type_error("Cannot update using non-dict types in dictupdate.update()")
    })
}

fn truthy(value: Option<&Obj>, default: bool) -> Result<bool, Error> {
    value.map_or(Ok(default), Obj::truthy)
}

/// Changes the template's own dict to `merged` and returns the dict.
fn put_back(dest: Option<&Obj>, merged: &Map) -> Result<Obj, Error> {
    let Some(Obj::Dict(dict)) = dest else {
        return Ok(Obj::from(merged));
    };
    assign(dict, merged)?;
    Ok(Obj::Dict(dict.clone()))
}

/// Gives a template's dict the entries of a map, as Python code does that changes its argument: what stays the same, and dicts inside of
/// it, are the same objects afterwards.
///
/// # Errors
/// A key cannot be hashed.
pub fn assign(dict: &PyDict, map: &Map) -> Result<(), Error> {
    for (key, value) in map.iter() {
        let key = Obj::from(key);
        let held = dict.borrow().get(&key)?.cloned();
        let before = held.as_ref().and_then(|held| held.to_value().ok());
        if before.as_ref() == Some(value) {
            continue;
        }
        match (held, before, value) {
            (Some(Obj::Dict(inner)), Some(Value::Map(before)), Value::Map(map))
                if before
                    .iter()
                    .all(|(key, _)| map.iter().any(|(other, _)| other == key)) =>
            {
                assign(&inner, map)?;
            }
            _ => {
                dict.borrow_mut().insert(key, Obj::from(value))?;
            }
        }
    }
    Ok(())
}

fn update_live(_: &FunctionContext, _: &mut Cx, args: &[Option<Obj>]) -> Result<Obj, Error> {
    let (mut dest, upd) = (as_map(args[0].as_ref())?, as_map(args[1].as_ref())?);
    if truthy(args[2].as_ref(), true)? {
        update(&mut dest, &upd, truthy(args[3].as_ref(), false)?)
    } else {
        for (key, value) in upd.0 {
            match dest.0.iter_mut().find(|(k, _)| *k == key) {
                Some(slot) => slot.1 = value,
                None => dest.0.push((key, value)),
            }
        }
    }
    put_back(args[0].as_ref(), &dest)
}

/// Each dict of a dict on top of the same defaults.
fn defaults_update(_: &FunctionContext, _: &mut Cx, args: &[Option<Obj>]) -> Result<Obj, Error> {
    let convert = truthy(args[4].as_ref(), true)?;
    let lists = truthy(args[2].as_ref(), true)?;
    let defaults = map_or_none(args[1].as_ref(), convert)?;
    let mut filled = Map::new();
    for (name, own) in as_map(args[0].as_ref())?.0 {
        let own = map_or_none(Some(&Obj::from(own)), convert)?;
        let mut node = defaults.clone();
        update(&mut node, &own, lists);
        filled.0.push((name, node.into()));
    }
    in_place_or_new(args, &filled)
}

/// `None` counts as an empty dict if `convert` is set.
fn map_or_none(value: Option<&Obj>, convert: bool) -> Result<Map, Error> {
    match value {
        Some(Obj::None) if convert => Ok(Map::new()),
        other => as_map(other),
    }
}

/// What becomes of the result of `defaults.*`: the first argument, unless the fourth one, `in_place`, is false.
fn in_place_or_new(args: &[Option<Obj>], result: &Map) -> Result<Obj, Error> {
    if truthy(args[3].as_ref(), true)? {
        put_back(args[0].as_ref(), result)
    } else {
        Ok(Obj::from(result))
    }
}

/// `None` counts as an empty dict unless `convert_none` is false.
fn defaults_merge(_: &FunctionContext, _: &mut Cx, args: &[Option<Obj>]) -> Result<Obj, Error> {
    let convert = truthy(args[4].as_ref(), true)?;
    let mut dest = map_or_none(args[0].as_ref(), convert)?;
    let src = map_or_none(args[1].as_ref(), convert)?;
    update(&mut dest, &src, truthy(args[2].as_ref(), false)?);
    in_place_or_new(args, &dest)
}
