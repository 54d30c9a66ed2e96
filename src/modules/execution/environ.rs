//! `environ`: the environment variables that a job's commands inherit.
//!
//! A job runs in its own process, so a change lasts as long as the job, as in a stock minion with `multiprocessing`.

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, python};
use halite_sys::environment;
use halite_wire::map;
use halite_wire::{Map, Value};

pub(super) const MODULE: Module = Module {
    name: "environ",
    functions: &[
        Function::new("get", get, "The value of a variable.")
            .args(&[req("key"), opt("default", Lit::Str(""))]),
        Function::new(
            "has_value",
            has_value,
            "Whether a variable is set, optionally to a given value.",
        )
        .args(&[req("key"), opt("value", Lit::Nil)]),
        Function::new("item", item, "The values of one variable or of several.")
            .args(&[req("keys"), opt("default", Lit::Str(""))]),
        Function::new(
            "items",
            |_| Ok(environment::all().into_iter().collect::<Map>().into()),
            "All variables.",
        ),
        Function::new(
            "setenv",
            setenv,
            "Sets variables from a map; false removes or empties one.",
        )
        .args(&[
            req("environ"),
            opt("false_unsets", Lit::Bool(false)),
            opt("clear_all", Lit::Bool(false)),
            opt("update_minion", Lit::Bool(false)),
            opt("permanent", Lit::Bool(false)),
        ]),
        Function::new(
            "setval",
            |c| Ok(set(c.arg("key"), c.arg("val"), is_true(c, "false_unsets"))),
            "Sets a variable; false removes or empties it.",
        )
        .args(&[
            req("key"),
            req("val"),
            opt("false_unsets", Lit::Bool(false)),
            opt("permanent", Lit::Bool(false)),
        ]),
    ],
};

/// `is True`.
fn is_true(call: &Call<'_>, name: &str) -> bool {
    *call.arg(name) == Value::Bool(true)
}

/// The new value; nil if the variable was removed, false if it cannot be set.
fn set(key: &Value, value: &Value, unset: bool) -> Value {
    let Some(key) = key.as_str() else {
        return false.into();
    };
    let text = match value {
        Value::Bool(false) if unset => {
            // An invalid name is not set in stock either.
            environment::set(key, None);
            return Value::Nil;
        }
        Value::Bool(false) => "",
        Value::Str(text) => text.as_str(),
        _ => return false.into(),
    };
    if environment::set(key, Some(text)) {
        text.into()
    } else {
        false.into()
    }
}

fn setenv(call: &mut Call<'_>) -> Result {
    let Value::Map(wanted) = call.arg("environ").clone() else {
        return Ok(false.into());
    };
    let unset = is_true(call, "false_unsets");
    let mut out = Map::new();
    if is_true(call, "clear_all") {
        for (key, _) in environment::all() {
            if !wanted.contains(&key) {
                let done = set(&key.as_str().into(), &false.into(), unset);
                out.set(key, done);
            }
        }
    }
    for (key, value) in wanted.iter() {
        if !matches!(value, Value::Str(_) | Value::Bool(false)) {
            return Ok(false.into());
        }
        out.0.push((key.clone(), set(key, value, unset)));
    }
    if is_true(call, "update_minion") && super::find_for(call.ctx, "event.fire").is_some() {
        let event = map! {
            "environ" => wanted,
            "false_unsets" => call.arg("false_unsets").clone(),
            "clear_all" => call.arg("clear_all").clone(),
            "permanent" => call.arg("permanent").clone(),
        };
        call.salt(
            "event.fire",
            vec![event.into(), "environ_setenv".into()],
            Map::new(),
        )?;
    }
    Ok(out.into())
}

fn get(call: &mut Call<'_>) -> Result {
    let Some(key) = call.arg("key").as_str() else {
        return Ok(false.into());
    };
    Ok(environment::get(key).map_or_else(|| call.arg("default").clone(), Value::Str))
}

fn has_value(call: &mut Call<'_>) -> Result {
    let Some(key) = call.arg("key").as_str() else {
        return Ok(false.into());
    };
    let wanted = call.arg("value");
    Ok(environment::get(key)
        .is_some_and(|value| wanted.is_nil() || wanted.is_str(&value))
        .into())
}

fn item(call: &mut Call<'_>) -> Result {
    let keys = match call.arg("keys") {
        Value::Array(list) => list.clone(),
        key @ Value::Str(_) => vec![key.clone()],
        _ => Vec::new(),
    };
    let mut out = Map::new();
    for key in keys {
        let Some(name) = key.as_str() else {
            let class = python::type_name(&key);
            let text = format!("str expected, not {class}");
            return Err(super::CallError::Type(text));
        };
        let value = environment::get(name);
        out.set(
            name,
            value.map_or_else(|| call.arg("default").clone(), Value::Str),
        );
    }
    Ok(out.into())
}
