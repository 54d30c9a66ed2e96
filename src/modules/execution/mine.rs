//! `mine`: values that minions publish on the master for each other (`salt/modules/mine.py`, `salt/utils/mine.py`).
//!
//! Not supported: `get_docker`, which reads `docker.ps` of other minions.

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, Context, config, find_for, python};
use halite_channel::Identity;
use halite_config::paths::minion::cache;
use halite_sys::daemon::write_atomic;
use halite_target::Target;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::path::PathBuf;

/// Marks a value with access restrictions.
const ACL: &str = "__saltmine_acl__";
/// The restricted value.
const DATA: &str = "__data__";
/// Key of the mine in the data store of a minion without a master.
const LOCAL: &str = "mine_cache";

pub(super) const MODULE: Module = Module {
    name: "mine",
    functions: &[
        Function::new("update", update, "Sends the values of mine_functions, or of the given functions, to the master; clear replaces all values.")
            .args(&[opt("clear", Lit::Bool(false)), opt("mine_functions", Lit::Nil)]),
        Function::new("send", send, "Runs a function and stores its value in the mine under the given name; mine_function names another function, allow_tgt and allow_tgt_type restrict who may read it.")
            .args(&[req("name")])
            .varargs()
            .keywords(),
        Function::new("get", get, "Values of one or several functions from the mines of the targeted minions.")
            .args(&[
                req("tgt"),
                req("fun"),
                opt("tgt_type", Lit::Str("glob")),
                opt("exclude_minion", Lit::Bool(false)),
            ]),
        Function::new("delete", delete, "Removes a value from this minion's mine.")
            .args(&[req("fun")]),
        Function::new("flush", flush, "Removes all values from this minion's mine."),
        Function::new("valid", valid, "The functions in mine_functions that this minion has."),
    ],
};

/// One entry of `mine_functions` (`parse_function_definition`).
#[derive(Debug, Default, PartialEq)]
struct Definition {
    function: Option<String>,
    args: Vec<Value>,
    kwargs: Map,
    acl: Map,
}

fn definition(value: &Value) -> Definition {
    let mut found = Definition::default();
    match value {
        Value::Map(map) => found.kwargs = map.clone(),
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Map(map) => {
                        for (key, value) in map.iter() {
                            found.kwargs.set(python::str(key), value.clone());
                        }
                    }
                    other => found.args.push(other.clone()),
                }
            }
        }
        _ => {}
    }
    found.function = found
        .kwargs
        .remove("mine_function")
        .filter(Value::truthy)
        .map(|f| python::str(&f));
    found.acl = take_acl(&mut found.kwargs);
    found
}

fn take_acl(kwargs: &mut Map) -> Map {
    let mut acl = Map::new();
    for key in ["allow_tgt", "allow_tgt_type"] {
        if let Some(value) = kwargs.remove(key).filter(Value::truthy) {
            acl.set(key, value);
        }
    }
    acl
}

/// The value as stored: with its access rule, if any (`wrap_acl_structure`).
fn with_acl(value: Value, acl: Map) -> Value {
    if !acl.contains("allow_tgt") {
        return value;
    }
    let mut entry = halite_wire::map! {DATA => value, ACL => 1};
    entry.0.extend(acl.0);
    entry.into()
}

/// `mine_functions` of the configuration, the master and the pillar, merged.
pub fn configured(ctx: &Context) -> Option<Map> {
    let master = ctx.pillar.get("master").and_then(Value::as_map);
    let places = [Some(&*ctx.opts), master, Some(&*ctx.pillar)];
    let values = places
        .into_iter()
        .flatten()
        .filter_map(|place| place.get("mine_functions"));
    match config::merged(values)? {
        Value::Map(map) if !map.is_empty() => Some(map),
        _ => None,
    }
}

fn available(ctx: &Context, name: &str) -> bool {
    let known = find_for(ctx, name).is_some();
    if !known {
        log::error!("Function {name} in mine_functions not available");
    }
    known
}

fn update(call: &mut Call<'_>) -> Result {
    let functions = match call.arg("mine_functions") {
        Value::Map(map) if !map.is_empty() => map.clone(),
        Value::Array(names) if !names.is_empty() => names
            .iter()
            .map(|name| (python::str(name), Map::new()))
            .collect(),
        given if !given.truthy() => match configured(call.ctx) {
            Some(map) => map,
            None => return Ok(Value::Nil),
        },
        _ => return Ok(Value::Nil),
    };
    let clear = call.flag("clear");
    let mut data = Map::new();
    for (alias, value) in functions.iter() {
        let alias = python::str(alias);
        let found = definition(value);
        let name = found.function.unwrap_or_else(|| alias.clone());
        if !available(call.ctx, &name) {
            continue;
        }
        match call.salt(&name, found.args, found.kwargs) {
            Ok(value) => data.set(alias, with_acl(value, found.acl)),
            Err(e) => log::error!("Function {name} in mine.update failed to execute: {e}"),
        }
    }
    store(call.ctx, data, clear)
}

fn send(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let mut kwargs = call.bound.kwargs.clone();
    kwargs
        .0
        .retain(|(key, _)| !key.as_str().is_some_and(|k| k.starts_with("__")));
    let function = match kwargs.remove("mine_function") {
        Some(function) if function.truthy() => python::str(&function),
        _ => name.clone(),
    };
    let acl = take_acl(&mut kwargs);
    let args = call.bound.varargs.clone();
    match call.salt(&function, args, kwargs) {
        Ok(value) => store(
            call.ctx,
            halite_wire::map! {name => with_acl(value, acl)},
            false,
        ),
        Err(e) => {
            log::error!("Function {function} in mine.send failed to execute: {e}");
            Ok(false.into())
        }
    }
}

fn get(call: &mut Call<'_>) -> Result {
    let ctx = call.ctx;
    if is_local(ctx) {
        return local_get(call);
    }
    let load = halite_wire::map! {
        "cmd" => "_mine_get", "id" => ctx.id.as_str(), "tgt" => call.arg("tgt").clone(),
        "fun" => call.arg("fun").clone(), "tgt_type" => call.arg("tgt_type").clone(),
    };
    let mut answer = ctx.master.call(&load)?;
    if call.flag("exclude_minion")
        && let Value::Map(map) = &mut answer
    {
        map.remove(&ctx.id);
    }
    Ok(answer)
}

fn delete(call: &mut Call<'_>) -> Result {
    let ctx = call.ctx;
    let fun = call.arg("fun");
    if is_local(ctx) {
        let mut mine = local(ctx);
        mine.remove(&python::str(fun));
        return store_locally(ctx, mine);
    }
    send_to_master(
        ctx,
        halite_wire::map! {"cmd" => "_mine_delete", "id" => ctx.id.as_str(), "fun" => fun.clone()},
    )
}

fn flush(call: &mut Call<'_>) -> Result {
    let ctx = call.ctx;
    if is_local(ctx) {
        return store_locally(ctx, Map::new());
    }
    send_to_master(
        ctx,
        halite_wire::map! {"cmd" => "_mine_flush", "id" => ctx.id.as_str()},
    )
}

fn valid(call: &mut Call<'_>) -> Result {
    let Some(functions) = configured(call.ctx) else {
        return Ok(Value::Nil);
    };
    let mut out = Map::new();
    for (alias, value) in functions.iter() {
        let alias = python::str(alias);
        let found = definition(value);
        let Some(function) = found.function else {
            if available(call.ctx, &alias) {
                out.set(alias, value.clone());
            }
            continue;
        };
        if !available(call.ctx, &function) {
            continue;
        }
        let mut args = found.args;
        let keywords = found.kwargs.0.into_iter();
        args.extend(keywords.map(|pair| Value::Map(Map(vec![pair]))));
        out.set(alias, halite_wire::map! {function => args});
    }
    Ok(out.into())
}

fn store(ctx: &Context, data: Map, clear: bool) -> Result {
    if is_local(ctx) {
        let mut mine = if clear { Map::new() } else { local(ctx) };
        for (name, value) in data.0 {
            mine.set(python::str(&name), value);
        }
        return store_locally(ctx, mine);
    }
    send_to_master(
        ctx,
        halite_wire::map! {
            "cmd" => "_mine", "data" => data, "id" => ctx.id.as_str(), "clear" => clear,
        },
    )
}

/// Sends a request whose answer is ignored. Stock reports success before it contacts the master; here an unreachable
/// master yields `false`.
fn send_to_master(ctx: &Context, load: Map) -> Result {
    match ctx.master.call(&load) {
        Ok(_) => Ok(true.into()),
        Err(e) => {
            log::warn!("Unable to send mine data to master: {e}");
            Ok(false.into())
        }
    }
}

fn is_local(ctx: &Context) -> bool {
    ctx.opts.str("file_client") == Some("local") || !ctx.master.has_master()
}

/// The file of stock's `data` module.
fn datastore(ctx: &Context) -> PathBuf {
    cache::datastore(&ctx.cachedir)
}

fn all_local(ctx: &Context) -> Map {
    let bytes = std::fs::read(datastore(ctx)).unwrap_or_default();
    match msgpack::decode(&bytes) {
        Ok(Value::Map(map)) => map,
        _ => Map::new(),
    }
}

fn local(ctx: &Context) -> Map {
    let mine = all_local(ctx).remove(LOCAL);
    mine.and_then(Value::into_map).unwrap_or_default()
}

fn store_locally(ctx: &Context, mine: Map) -> Result {
    let mut all = all_local(ctx);
    all.set(LOCAL, mine);
    let bytes = msgpack::encode_map(&all, Profile::Local);
    let written = halite_sys::daemon::make_dir(&ctx.cachedir, 0o755)
        .and_then(|()| write_atomic(&datastore(ctx), &bytes, 0o600));
    if let Err(e) = written {
        log::error!("{}: {e}", datastore(ctx).display());
        return Ok(false.into());
    }
    Ok(true.into())
}

/// Without a master there is only this minion's own mine, without access restrictions.
fn local_get(call: &Call<'_>) -> Result {
    let ctx = call.ctx;
    let kind = python::str(call.arg("tgt_type"));
    let target = Target::parse(call.arg("tgt"), &kind, None)
        .map_err(|_| CallError::raised("KeyError", format!("'{kind}'")))?;
    let me = Identity {
        id: ctx.id.clone(),
        grains: ctx.grains.clone(),
        pillar: ctx.pillar.clone(),
    };
    let mut out = Map::new();
    if !target.matches(&me) {
        return Ok(out.into());
    }
    let (names, several): (Vec<String>, bool) = match call.arg("fun") {
        Value::Str(text) => {
            let mut names: Vec<String> = text.split(',').map(str::to_owned).collect();
            names.sort();
            names.dedup();
            let several = names.len() > 1;
            (names, several)
        }
        list @ Value::Array(_) => (list.str_list(), true),
        _ => return Ok(out.into()),
    };
    let mine = local(ctx);
    for name in names {
        let Some(entry) = mine.get(&name) else {
            continue;
        };
        let value = match entry.as_map().filter(|m| m.contains(ACL)) {
            Some(restricted) => restricted.get(DATA).cloned().unwrap_or_default(),
            None => entry.clone(),
        };
        if several {
            out.set(name, halite_wire::map! {ctx.id.as_str() => value})
        } else {
            out.set(ctx.id.as_str(), value)
        }
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::super::call;
    use super::*;
    use halite_wire::map;

    fn ctx(dir: &tempfile::TempDir) -> Context {
        let functions = map! {
            "test.ping" => Vec::<Value>::new(),
            "alias" => vec![
                Value::from(map! {"mine_function" => "test.arg"}), 1.into(), map! {"k" => "v"}.into(),
                map! {"allow_tgt" => "web*"}.into(),
            ],
            "no.such" => Value::Nil,
        };
        Context {
            id: "m1".into(),
            opts: std::sync::Arc::new(
                map! {"file_client" => "local", "mine_functions" => functions},
            ),
            pillar: map! {"mine_functions" => map! {"test.true" => map! {}, "test.ping" => "x"}}
                .into(),
            cachedir: dir.path().into(),
            ..Context::default()
        }
    }

    fn run(ctx: &Context, fun: &str, args: &[Value]) -> Value {
        call(ctx, fun, args).ret
    }

    #[test]
    fn mine_without_a_master_is_local() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = ctx(&dir);
        let get = |fun: &str| run(&ctx, "mine.get", &["*".into(), fun.into()]);
        assert_eq!(get("test.ping"), Map::new().into());
        assert_eq!(run(&ctx, "mine.update", &[]), true.into());
        assert_eq!(get("test.ping"), map! {"m1" => true}.into());
        assert_eq!(get("test.true"), map! {"m1" => true}.into());
        let value = map! {"args" => vec![Value::from(1)], "kwargs" => map! {"k" => "v"}};
        assert_eq!(get("alias"), map! {"m1" => value}.into());
        let sent = run(
            &ctx,
            "mine.send",
            &["own".into(), "mine_function=test.echo".into(), "x".into()],
        );
        assert_eq!(sent, true.into());
        assert_eq!(
            get("own,test.ping"),
            map! {"own" => map! {"m1" => "x"}, "test.ping" => map! {"m1" => true}}.into()
        );
        assert_eq!(run(&ctx, "mine.delete", &["own".into()]), true.into());
        assert_eq!(get("own"), Map::new().into());
        let other = run(&ctx, "mine.get", &["x*".into(), "test.ping".into()]);
        assert_eq!(other, Map::new().into());
        assert_eq!(run(&ctx, "mine.flush", &[]), true.into());
        assert_eq!(get("test.ping"), Map::new().into());
        assert_eq!(run(&ctx, "mine.send", &["no.such".into()]), false.into());
    }

    #[test]
    fn definitions_parse_as_in_stock() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = ctx(&dir);
        let valid = run(&ctx, "mine.valid", &[]);
        let want = map! {
            "test.true" => map! {}, "test.ping" => Vec::<Value>::new(),
            "alias" => map! {"test.arg" => vec![Value::from(1), map! {"k" => "v"}.into()]},
        };
        assert_eq!(valid, want.into());
        let rule = definition(&map! {"allow_tgt" => "a", "x" => 1, "allow_tgt_type" => ""}.into());
        assert_eq!(
            (rule.kwargs, rule.acl),
            (map! {"x" => 1}, map! {"allow_tgt" => "a"})
        );
        assert_eq!(definition(&Value::Nil), Definition::default());
    }

    #[test]
    fn acl_only_with_a_target() {
        assert_eq!(
            with_acl(1.into(), map! {"allow_tgt_type" => "grain"}),
            1.into()
        );
        let entry = with_acl(1.into(), map! {"allow_tgt" => "a"});
        assert_eq!(entry, map! {DATA => 1, ACL => 1, "allow_tgt" => "a"}.into());
    }
}
