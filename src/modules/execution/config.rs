//! `config`: values from the minion's configuration, grains and pillar.

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::nested::{DELIMITER, traverse, update};
use super::{Call, python, sdb};
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value};

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
        Function::new("dot_vals", dot_vals, "All configuration values whose names start with the given word and a dot.")
            .args(&[req("value")]),
        Function::new("backup_mode", backup_mode, "The given backup mode, or the configured one.")
            .args(&[opt("backup", Lit::Str(""))]),
        Function::new("manage_mode", manage_mode, "A file mode as four octal digits.").args(&[req("mode")]),
        Function::new("valid_fileproto", valid_fileproto, "Whether a URI has a scheme that files can be fetched from.")
            .args(&[req("uri")]),
        Function::new("items", |c| Ok(Map::clone(&c.ctx.opts).into()), "The whole configuration."),
    ],
};

/// Defaults of stock's module that apply to this minion.
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
    let ctx = call.ctx;
    let delimiter = call.text("delimiter").unwrap_or_default();
    let (master, defaults) = (master(call), defaults());
    if !call.arg("merge").is_nil() {
        // Unknown strategies count as `recurse`.
        let mut all = defaults;
        for over in [&master, &*ctx.pillar, &*ctx.grains, &ctx.opts] {
            if call.arg("merge").is_str("overwrite") {
                over.iter()
                    .for_each(|(k, v)| all.set(python::str(k), v.clone()))
            } else {
                update(&mut all, over, false)
            }
        }
        let found = traverse(&all, call.arg("key"), &delimiter);
        return sdb::value_of(ctx, found.unwrap_or(call.arg("default")), false);
    }
    let places = [
        ("omit_opts", &*ctx.opts),
        ("omit_grains", &*ctx.grains),
        ("omit_pillar", &*ctx.pillar),
        ("omit_master", &master),
        ("", &defaults),
    ];
    let found = places
        .iter()
        .filter(|(omit, _)| !call.flag(omit))
        .find_map(|(_, data)| traverse(data, call.arg("key"), &delimiter));
    sdb::value_of(ctx, found.unwrap_or(call.arg("default")), false)
}

fn backup_mode(call: &mut Call<'_>) -> Result {
    if call.flag("backup") {
        return Ok(call.arg("backup").clone());
    }
    let name = [Value::from("backup_mode")];
    call.salt("config.option", name.to_vec(), Map::new())
}

/// `salt/utils/files.py normalize_mode`.
fn manage_mode(call: &mut Call<'_>) -> Result {
    let mode = match call.arg("mode") {
        Value::Nil => return Ok(Value::Nil),
        other => python::str(other),
    };
    let digits = mode.replace("0o", "0");
    let digits = digits
        .trim_matches('"')
        .trim_matches('\'')
        .trim_start_matches('0');
    Ok(format!("{digits:0>4}").into())
}

/// Salt's `VALID_PROTOS`.
fn valid_fileproto(call: &mut Call<'_>) -> Result {
    const PROTOCOLS: [&str; 7] = ["http", "https", "ftp", "salt", "file", "s3", "swift"];
    let uri = call.text("uri").unwrap_or_default();
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme.to_lowercase());
    Ok(scheme
        .is_some_and(|s| PROTOCOLS.contains(&s.as_str()))
        .into())
}

fn option(call: &mut Call<'_>) -> Result {
    let ctx = call.ctx;
    let name = python::str(call.arg("value"));
    let (master, defaults) = (master(call), defaults());
    let places = [
        ("omit_opts", &*ctx.opts),
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
    // From lowest to highest priority; the last one wins.
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
        ("omit_opts", &*call.ctx.opts),
        ("omit_master", &master),
        ("omit_pillar", &*call.ctx.pillar),
    ];
    let used = places.iter().filter(|(omit, _)| !call.flag(omit));
    let found = merged(used.filter_map(|(_, data)| data.get(&name)));
    let found = found.or_else(|| defaults().get(&name).cloned());
    Ok(found.unwrap_or_else(|| call.arg("default").clone()))
}

/// Merges values from highest to lowest priority like stock's `config.merge`: text ends the search, maps are merged
/// (higher priority wins), lists are appended, and values of another type than the first are skipped.
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
