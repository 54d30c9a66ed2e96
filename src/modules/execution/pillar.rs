//! `pillar`: the data that the master compiled for this minion.
//!
//! As in 3008.3, returned values are masked unless `unmask` is given (`salt/utils/secret.py serial`); `pillar.raw` is
//! not masked. `items` and functions based on it have the master compile a new pillar, or compile it here without a
//! master.

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::nested::{DELIMITER, traverse, update};
use super::{Call, CallError, python};
use crate::pillar;
use halite_channel::pillar_request::PillarQuery;
use halite_wire::secret::masked;
use halite_wire::{Map, Value, yaml};
use std::sync::Arc;

/// Shown by stock as the default of `pillar.get` when none is given.
const NOT_SET: &str = "<Constant.NOT_SET>";

const ALL: &[Arg] = &[
    opt("pillar", Lit::Nil),
    opt("pillar_enc", Lit::Nil),
    opt("pillarenv", Lit::Nil),
    opt("saltenv", Lit::Nil),
    opt("unmask", Lit::Nil),
];
const GET: &[Arg] = &[
    req("key"),
    opt("default", Lit::Str(NOT_SET)),
    opt("merge", Lit::Bool(false)),
    opt("merge_nested_lists", Lit::Nil),
    opt("delimiter", Lit::Str(DELIMITER)),
    opt("pillarenv", Lit::Nil),
    opt("saltenv", Lit::Nil),
    opt("unmask", Lit::Nil),
];

pub(super) const MODULE: Module = Module {
    name: "pillar",
    functions: &[
        Function::new("items", items, "The whole pillar, or the given parts.").args(ALL).varargs().keyword_only(),
        Function::new("data", items, "Alias of pillar.items.").args(ALL).varargs().keyword_only(),
        Function::new("ls", ls, "The top-level keys of the pillar.").args(ALL).varargs().keyword_only(),
        Function::new("get", get, "One value of the pillar by its path, or the default; with merge, a default map or list is merged with the pillar.")
            .args(GET),
        Function::new("fetch", get, "Alias of pillar.get.").inner("get").args(GET),
        Function::new("item", item, "The given values, each a path with delimiters.")
            .args(&[
                opt("default", Lit::Nil),
                opt("delimiter", Lit::Nil),
                opt("pillarenv", Lit::Nil),
                opt("saltenv", Lit::Nil),
                opt("unmask", Lit::Nil),
            ])
            .varargs()
            .keyword_only(),
        Function::new("raw", raw, "The minion's current pillar, or one of its top-level values, unmasked.")
            .args(&[opt("key", Lit::Nil), opt("unmask", Lit::Nil)]),
        Function::new("keys", keys, "The keys of a map in the pillar.")
            .args(&[req("key"), opt("delimiter", Lit::Str(DELIMITER)), opt("unmask", Lit::Nil)]),
        Function::new("ext", ext, "The pillar with an additional external pillar, given as a map of its name to its arguments; the master must allow it with on_demand_ext_pillar.")
            .args(&[req("external"), opt("pillar", Lit::Nil), opt("unmask", Lit::Nil)]),
        Function::new("filter_by", filter_by, "Selects the map entry whose key, possibly a glob, matches a pillar value.")
            .args(&[
                req("lookup_dict"),
                req("pillar"),
                opt("merge", Lit::Nil),
                opt("default", Lit::Str("default")),
                opt("base", Lit::Nil),
            ]),
        Function::new("obfuscate", obfuscate, "Like pillar.items, with types instead of values.")
            .args(ALL)
            .varargs()
            .keyword_only(),
        Function::new("file_exists", file_exists, "Whether a file exists in pillar_roots; for masterless minions.")
            .args(&[req("path"), opt("saltenv", Lit::Nil)]),
    ],
};

fn obfuscate(call: &mut Call<'_>) -> Result {
    let shown = if call.bound.varargs.is_empty() {
        compiled(call)?
    } else {
        values_by_name(call, &*source(call)?, &"".into(), DELIMITER)
    };
    // Stock masks before checking types, so most values are strings.
    let shown = self::shown(call, shown.into(), false);
    Ok(obfuscated(shown))
}

fn obfuscated(value: Value) -> Value {
    match value {
        Value::Map(map) => Map(map.0.into_iter().map(|(k, v)| (k, obfuscated(v))).collect()).into(),
        Value::Array(list) => Value::Array(list.into_iter().map(obfuscated).collect()),
        other => format!("<{}>", python::type_name(&other)).into(),
    }
}

fn file_exists(call: &mut Call<'_>) -> Result {
    let none = Map::new();
    let roots = call.ctx.opts.get("pillar_roots").and_then(Value::as_map);
    let roots = roots.unwrap_or(&none);
    let (path, env) = (python::str(call.arg("path")), call.arg("saltenv"));
    let mut dirs = roots
        .iter()
        .filter(|(name, _)| !env.truthy() || name == env)
        .flat_map(|(_, dirs)| dirs.str_list());
    Ok(dirs
        .any(|dir| std::path::Path::new(&dir).join(&path).is_file())
        .into())
}

fn shown(call: &Call<'_>, value: Value, plain: bool) -> Value {
    let unmask = match call.arg("unmask") {
        // What a user asked for is masked, not what a template reads.
        Value::Nil => plain || call.is_internal(),
        given => given.truthy(),
    };
    if unmask { value } else { masked(value) }
}

/// A text argument unless nil.
fn text_arg(call: &Call<'_>, name: &str) -> Option<String> {
    call.text(name)
}

/// A newly compiled pillar according to the arguments: `pillar.items` of stock before masking.
fn compiled(call: &Call<'_>) -> Result<Map> {
    let opts = &call.ctx.opts;
    let own = |key: &str| opts.str(key).map(str::to_owned);
    let from_saltenv = opts
        .get("pillarenv_from_saltenv")
        .is_some_and(Value::truthy);
    let pillarenv = text_arg(call, "pillarenv").or_else(|| {
        if from_saltenv {
            text_arg(call, "saltenv")
                .filter(|env| !env.is_empty())
                .or_else(|| own("saltenv"))
        } else {
            own("pillarenv")
        }
    });
    let mut over = call.arg("pillar").clone();
    if over.truthy() && call.arg("pillar_enc").truthy() {
        let renderer = python::str(call.arg("pillar_enc"));
        pillar::decrypt_given(opts, &mut over, &renderer).map_err(|why| {
            CallError::Command(format!("Failed to decrypt pillar override: {why}"))
        })?;
    }
    if over.truthy() && over.as_map().is_none() {
        log::error!("Pillar data must be a dictionary");
    }
    let query = PillarQuery {
        pillarenv,
        pillar_override: over.into_map().unwrap_or_default(),
        saltenv: None,
        ..PillarQuery::of(opts)
    };
    compile(call, &query)
}

/// Without a master connection, the pillar the minion already has.
fn compile(call: &Call<'_>, query: &PillarQuery) -> Result<Map> {
    let ctx = call.ctx;
    if !ctx.master.has_master() && !pillar::is_local(&ctx.opts) {
        return Ok(Map::clone(&ctx.pillar));
    }
    pillar::compile_fresh(ctx, query, super::template_functions)
}

/// The pillar for `get` and `item`: if an environment is given, that environment's pillar, already masked as in
/// stock.
fn source(call: &Call<'_>) -> Result<Arc<Map>> {
    if call.arg("pillarenv").is_nil() && call.arg("saltenv").is_nil() {
        return Ok(call.ctx.pillar.clone());
    }
    let compiled = compiled(call)?;
    Ok(Arc::new(if mask_off(call) || call.is_internal() {
        compiled
    } else {
        masked(compiled.into()).into_map().unwrap_or_default()
    }))
}

/// Only `pillar.items` uses this option, as in stock.
fn mask_off(call: &Call<'_>) -> bool {
    call.ctx
        .opts
        .get("pillar_mask_output")
        .and_then(Value::as_bool)
        == Some(false)
}

fn items(call: &mut Call<'_>) -> Result {
    if call.bound.varargs.is_empty() {
        let all = compiled(call)?;
        return Ok(shown(call, all.into(), mask_off(call)));
    }
    // With names this is `pillar.item`, which stock calls without `unmask`.
    let values = values_by_name(call, &*source(call)?, &"".into(), DELIMITER);
    Ok(if call.is_internal() {
        values.into()
    } else {
        masked(values.into())
    })
}

fn ext(call: &mut Call<'_>) -> Result {
    let external = match call.arg("external") {
        Value::Str(text) => yaml::parse(text)
            .map_err(|e| CallError::raised("salt.utils.yamlloader.YAMLError", e.to_string()))?,
        other => other.clone(),
    };
    let query = PillarQuery {
        ext: Some(external),
        pillar_override: call.arg("pillar").as_map().cloned().unwrap_or_default(),
        ..PillarQuery::of(&call.ctx.opts)
    };
    let found = compile(call, &query)?;
    Ok(shown(call, found.into(), false))
}

fn ls(call: &mut Call<'_>) -> Result {
    let names: Vec<Value> = if call.bound.varargs.is_empty() {
        compiled(call)?.iter().map(|(k, _)| k.clone()).collect()
    } else {
        call.bound.varargs.clone()
    };
    Ok(names.into())
}

fn values_by_name(call: &Call<'_>, pillar: &Map, default: &Value, delimiter: &str) -> Map {
    let mut out = Map::new();
    for key in &call.bound.varargs {
        let found = traverse(pillar, key, delimiter);
        out.0.push((key.clone(), found.unwrap_or(default).clone()));
    }
    out
}

fn item(call: &mut Call<'_>) -> Result {
    let default = match call.arg("default") {
        Value::Nil => Value::from(""),
        given => given.clone(),
    };
    let delimiter = call
        .text("delimiter")
        .unwrap_or_else(|| DELIMITER.to_owned());
    let out = values_by_name(call, &*source(call)?, &default, &delimiter);
    Ok(shown(call, out.into(), false))
}

fn get(call: &mut Call<'_>) -> Result {
    let ctx = call.ctx;
    let delimiter = call.text("delimiter").unwrap_or_default();
    let pillar = source(call)?;
    let found = traverse(&pillar, call.arg("key"), &delimiter);
    let default = match call.arg("default") {
        unset if unset.is_str(NOT_SET) => None,
        given => Some(given.clone()),
    };
    let wanted = call.flag("merge");
    if let Some(merged) = merged(call, default.as_ref(), found).filter(|_| wanted) {
        return Ok(shown(call, merged, false));
    }
    let missing = found.is_none() && default.is_none();
    if missing
        && ctx
            .opts
            .get("pillar_raise_on_missing")
            .is_some_and(Value::truthy)
    {
        return Err(no_key(call));
    }
    let value = found.cloned().or(default).unwrap_or_else(|| "".into());
    Ok(shown(call, value, false))
}

fn no_key(call: &Call<'_>) -> CallError {
    let text = format!("Pillar key not found: {}", python::str(call.arg("key")));
    CallError::raised("KeyError", python::repr(&text.into()))
}

/// The default merged with the pillar; `None` if their types are incompatible.
fn merged(call: &Call<'_>, default: Option<&Value>, found: Option<&Value>) -> Option<Value> {
    let lists = match call.arg("merge_nested_lists") {
        Value::Nil => call
            .ctx
            .opts
            .get("pillar_merge_lists")
            .is_some_and(Value::truthy),
        given => given.truthy(),
    };
    match (default?, found) {
        (given, None) if given.as_map().is_some() || given.as_array().is_some() => {
            Some(given.clone())
        }
        (Value::Map(given), Some(Value::Map(own))) => {
            let mut out = given.clone();
            update(&mut out, own, lists);
            Some(out.into())
        }
        (Value::Array(given), Some(Value::Array(own))) => {
            let mut out = given.clone();
            out.extend(own.iter().filter(|v| !given.contains(v)).cloned());
            Some(out.into())
        }
        _ => None,
    }
}

fn raw(call: &mut Call<'_>) -> Result {
    let value = match call.arg("key") {
        key if key.truthy() => {
            let found = call.ctx.pillar.iter().find(|(k, _)| k == key);
            found.map_or_else(|| Map::new().into(), |(_, v)| v.clone())
        }
        _ => Map::clone(&call.ctx.pillar).into(),
    };
    Ok(shown(call, value, true))
}

fn keys(call: &mut Call<'_>) -> Result {
    let delimiter = call.text("delimiter").unwrap_or_default();
    let found = traverse(&call.ctx.pillar, call.arg("key"), &delimiter);
    match found {
        None => Err(no_key(call)),
        Some(Value::Map(map)) => {
            let keys: Vec<Value> = map.iter().map(|(k, _)| k.clone()).collect();
            Ok(keys.into())
        }
        Some(_) => Err(CallError::raised(
            "ValueError",
            format!(
                "Pillar value in key {} is not a dict",
                python::str(call.arg("key"))
            ),
        )),
    }
}

fn filter_by(call: &mut Call<'_>) -> Result {
    super::nested::filter_by(call, &call.ctx.pillar, "pillar")
}
