//! `config`: values of the minion's configuration, with grains and pillar behind it.

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::nested::{DELIMITER, traverse};
use super::{Call, Fault, python};
use crate::map;
use crate::target::fnmatch;
use crate::wire::{Map, Value};

const NO: Lit = Lit::Bool(false);

pub(super) const MODULE: Module = Module {
    name: "config",
    functions: &[
        Function::new("get", get, "A value by its path from the configuration, else the grains, else the pillar, else the master's configuration in the pillar.")
            .args(&[
                req("key"),
                opt("default", Lit::Str("")),
                opt("delimiter", Lit::Str(DELIMITER)),
                opt("merge", Lit::Nil),
                opt("omit_opts", NO),
                opt("omit_pillar", NO),
                opt("omit_master", NO),
                opt("omit_grains", NO),
            ]),
        Function::new("option", option, "A value by its plain name from the same places; with wildcard, all that match a glob.")
            .args(&[
                req("value"),
                opt("default", Lit::Nil),
                opt("omit_opts", NO),
                opt("omit_grains", NO),
                opt("omit_pillar", NO),
                opt("omit_master", NO),
                opt("omit_all", NO),
                opt("wildcard", NO),
            ]),
        Function::new("merge", merge, "The values of a plain name from the configuration, the master's configuration in the pillar and the pillar, merged.")
            .args(&[
                req("value"),
                opt("default", Lit::Str("")),
                opt("omit_opts", NO),
                opt("omit_master", NO),
                opt("omit_pillar", NO),
            ]),
        Function::new("dot_vals", dot_vals, "All configuration values whose names begin with the given word and a dot.")
            .args(&[req("value")]),
        Function::new("items", |c| Ok(c.ctx.opts.clone().into()), "The whole configuration."),
    ],
};

/// What stock's module knows without any configuration, as far as this minion has use for it.
fn defaults() -> Map {
    map! {"test.foo" => "unconfigured", "ca.cert_base_path" => "/etc/pki"}
}

fn master(call: &Call<'_>) -> Map {
    call.ctx
        .pillar
        .get("master")
        .cloned()
        .and_then(Value::into_map)
        .unwrap_or_default()
}

fn get(call: &mut Call<'_>) -> Result {
    if call.flag("merge") {
        return Err(Fault::Command(
            "This minion has no 'merge' in config.get; ask for the places one by one".to_owned(),
        ));
    }
    let ctx = call.ctx;
    let delimiter = call.text("delimiter").unwrap_or_default();
    let (master, defaults) = (master(call), defaults());
    let places = [
        ("omit_opts", &ctx.opts),
        ("omit_grains", &*ctx.grains),
        ("omit_pillar", &*ctx.pillar),
        ("omit_master", &master),
        ("", &defaults),
    ];
    let found = places
        .iter()
        .filter(|(omit, _)| !call.flag(omit))
        .find_map(|(_, data)| traverse(data, call.arg("key"), &delimiter));
    Ok(found.unwrap_or(call.arg("default")).clone())
}

fn option(call: &mut Call<'_>) -> Result {
    let ctx = call.ctx;
    let name = python::str(call.arg("value"));
    let (master, defaults) = (master(call), defaults());
    let places = [
        ("omit_opts", &ctx.opts),
        ("omit_grains", &*ctx.grains),
        ("omit_pillar", &*ctx.pillar),
        ("omit_master", &master),
        ("", &defaults),
    ];
    let omit_all = call.flag("omit_all");
    let used = places
        .iter()
        .filter(|(omit, _)| omit.is_empty() || !(omit_all || call.flag(omit)));
    if !call.flag("wildcard") {
        let found = used.clone().find_map(|(_, data)| data.get(&name));
        return Ok(match (found, call.arg("default")) {
            (Some(found), _) => found.clone(),
            (None, Value::Nil) => "".into(),
            (None, default) => default.clone(),
        });
    }
    // From the weakest place to the strongest; the last one wins.
    let mut out = Map::new();
    for (_, data) in used.rev() {
        for (key, value) in data.iter() {
            let key = python::str(key);
            if fnmatch(&key, &name) {
                out.set(key, value.clone());
            }
        }
    }
    Ok(match call.arg("default") {
        default if out.is_empty() && !default.is_nil() => default.clone(),
        _ => out.into(),
    })
}

fn merge(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("value"));
    let master = master(call);
    let places = [
        ("omit_opts", &call.ctx.opts),
        ("omit_master", &master),
        ("omit_pillar", &*call.ctx.pillar),
    ];
    let used = places.iter().filter(|(omit, _)| !call.flag(omit));
    let found = merged(used.filter_map(|(_, data)| data.get(&name)));
    let found = found.or_else(|| defaults().get(&name).cloned());
    Ok(found.unwrap_or_else(|| call.arg("default").clone()))
}

/// Merges values from the strongest to the weakest as stock's `config.merge`: text ends the
/// search, maps are joined (the stronger wins), lists are appended, and what does not fit the
/// first value is left out.
pub(super) fn merged<'a>(values: impl Iterator<Item = &'a Value>) -> Option<Value> {
    let mut found: Option<Value> = None;
    for value in values {
        found = Some(match (found, value) {
            (None, value) => value.clone(),
            (Some(Value::Map(strong)), Value::Map(weak)) => {
                let mut both = weak.clone();
                for (key, value) in strong.0 {
                    match both.0.iter_mut().find(|(k, _)| *k == key) {
                        Some((_, slot)) => *slot = value,
                        None => both.0.push((key, value)),
                    }
                }
                both.into()
            }
            (Some(Value::Array(mut strong)), Value::Array(weak)) => {
                strong.extend(weak.iter().cloned());
                strong.into()
            }
            (Some(strong), _) => strong,
        });
        if matches!(found, Some(Value::Str(_))) {
            break;
        }
    }
    found.filter(|v| !v.is_nil())
}

fn dot_vals(call: &mut Call<'_>) -> Result {
    let prefix = format!("{}.", python::str(call.arg("value")));
    let mut out = Map::new();
    for (key, value) in master(call).iter().chain(call.ctx.opts.iter()) {
        let key = python::str(key);
        if key.starts_with(&prefix) {
            out.set(key, value.clone());
        }
    }
    Ok(out.into())
}
