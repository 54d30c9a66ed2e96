//! `event`: fires events on the master's or the minion's bus (`salt/modules/event.py`).

use super::Call;
use super::declare::{Function, Lit, Module, Result, opt, req};
use crate::bus;
use halite_wire::{Map, Value};

pub(super) const MODULE: Module = Module {
    name: "event",
    functions: &[
        Function::new("send", send, "Fires an event on the master's bus with data, other keywords and, on request, environment, grains and pillar.")
            .args(&[
                req("tag"),
                opt("data", Lit::Nil),
                opt("preload", Lit::Nil),
                opt("with_env", Lit::Bool(false)),
                opt("with_grains", Lit::Bool(false)),
                opt("with_pillar", Lit::Bool(false)),
                opt("with_env_opts", Lit::Bool(false)),
            ])
            .keywords(),
        Function::new("fire", fire, "Fires an event on this minion's own bus.").args(&[req("data"), req("tag")]),
        Function::new("fire_master", fire_master, "Fires an event on the master's bus.")
            .args(&[req("data"), req("tag"), opt("preload", Lit::Nil)]),
    ],
};

/// Whether there is no master (`file_client: local`, `master_type: disable`).
fn is_masterless(call: &Call<'_>) -> bool {
    let opts = &call.ctx.opts;
    let is = |key: &str, value: &str| opts.str(key) == Some(value);
    let local = opts.get("local").is_some_and(Value::truthy)
        || is("file_client", "local")
        || is("master_type", "disable");
    local && !opts.get("use_master_when_local").is_some_and(Value::truthy)
}

fn fire(call: &mut Call<'_>) -> Result {
    let tag = call.text("tag").unwrap_or_default();
    let Some(data) = call.arg("data").as_map() else {
        log::debug!("event.fire: event data must be a map");
        return Ok(false.into());
    };
    Ok(fire_locally(call, &tag, data).into())
}

fn fire_locally(call: &Call<'_>, tag: &str, data: &Map) -> bool {
    match bus::fire(&call.ctx.opts, tag, data) {
        Ok(()) => true,
        Err(e) => {
            log::debug!("event {tag}: {e}");
            false
        }
    }
}

fn fire_master(call: &mut Call<'_>) -> Result {
    let tag = call.text("tag").unwrap_or_default();
    if is_masterless(call) {
        log::warn!("Local mode detected. Event with tag {tag} will NOT be sent.");
        return Ok(false.into());
    }
    let (data, preload) = (call.arg("data").clone(), call.arg("preload").clone());
    Ok(at_master(call, &tag, data, &preload).into())
}

/// Fires an event at the master; whether it was accepted.
fn at_master(call: &Call<'_>, tag: &str, data: Value, preload: &Value) -> bool {
    let mut load = halite_wire::map! {
        "id" => call.ctx.id.as_str(), "tag" => tag, "data" => data, "cmd" => "_minion_event",
    };
    for (key, value) in preload.as_map().into_iter().flat_map(Map::iter) {
        if let Some(key) = key.as_str() {
            load.set(key, value.clone());
        }
    }
    match call.ctx.master.call(&load) {
        Ok(_) => true,
        Err(e) => {
            log::error!("cannot send event {tag} to the master: {e}");
            false
        }
    }
}

fn send(call: &mut Call<'_>) -> Result {
    let tag = call.text("tag").unwrap_or_default();
    let data = collected(call);
    if is_masterless(call) {
        return Ok(fire_locally(call, &tag, &data).into());
    }
    let preload = call.arg("preload").clone();
    Ok(at_master(call, &tag, data.into(), &preload).into())
}

/// The data of `event.send`; the argument `data` takes precedence.
fn collected(call: &Call<'_>) -> Map {
    let ctx = call.ctx;
    let environ: Map = std::env::vars_os()
        .map(|(k, v)| {
            let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
            (Value::from(text(k)), Value::from(text(v)))
        })
        .collect();
    let mut out = Map::new();
    for (flag, name, all) in [
        ("with_env", "environ", &environ),
        ("with_grains", "grains", &*ctx.grains),
        ("with_pillar", "pillar", &*ctx.pillar),
    ] {
        match call.arg(flag) {
            Value::Array(names) => {
                let wanted = all.iter().filter(|(k, _)| names.contains(k)).cloned();
                out.set(name, wanted.collect::<Map>());
            }
            given if given.truthy() => out.set(name, all.clone()),
            _ => {}
        }
    }
    if call.flag("with_env_opts") {
        let option = |name: &str| ctx.opts.get(name).cloned().unwrap_or_default();
        let env = Some(option("saltenv")).filter(|v| !v.is_nil());
        out.set("saltenv", env.unwrap_or_else(|| "base".into()));
        out.set("pillarenv", option("pillarenv"));
    }
    let data = call.arg("data").as_map().into_iter().flat_map(Map::iter);
    for (key, value) in call.bound.kwargs.iter().chain(data) {
        out.0.retain(|(k, _)| k != key);
        out.0.push((key.clone(), value.clone()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Context, call};
    use super::*;

    #[test]
    fn without_a_bus_or_a_master_nothing_is_fired() {
        let ctx = Context {
            opts: std::sync::Arc::new(
                halite_wire::map! {"sock_dir" => "/nonexistent", "id" => "m", "hash_type" => "sha256"},
            ),
            ..Context::default()
        };
        let fired = |fun: &str, args: &[Value]| call(&ctx, fun, args).ret;
        let data: Value = halite_wire::map! {"a" => 1}.into();
        assert_eq!(
            fired("event.fire", &[data.clone(), "t".into()]),
            false.into()
        );
        assert_eq!(
            fired("event.fire", &["no map".into(), "t".into()]),
            false.into()
        );
        assert_eq!(
            fired("event.fire_master", &[data, "t".into()]),
            false.into()
        );
    }
}
