//! The master's functions, on a minion beside a master. They run through `halite-run`, because the minion has none of
//! the master's code.

use super::super::command_helpers::program_beside;
use super::super::declare::Result;
use super::super::{Call, CallError, python};
use halite_sys::command::Helper;
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout; orchestration of a fleet may take hours.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// Stock's message (`salt/modules/saltutil.py wheel`).
const NOT_ON_MASTER: &str =
    "This command can only be executed on a minion that is located on the master.";

/// The configuration directory, if it also has a master's configuration.
fn place(call: &Call<'_>) -> Result<PathBuf> {
    let file = Path::new(call.ctx.opts.str("conf_file").unwrap_or_default());
    let dir = file.parent().filter(|dir| dir.join("master").is_file());
    let dir = dir.ok_or_else(|| CallError::Command(NOT_ON_MASTER.to_owned()))?;
    Ok(dir.to_owned())
}

/// Runs it and evaluates `full_return`.
fn ask(
    call: &Call<'_>,
    kind: &str,
    fun: &str,
    arg: Vec<Value>,
    kwarg: Map,
    user: &str,
) -> Result<Map> {
    let dir = place(call)?.to_string_lossy().into_owned();
    let order = halite_wire::map! {"kind" => kind, "fun" => fun, "arg" => arg, "kwarg" => kwarg, "user" => user};
    let command = |e: &dyn std::fmt::Display| CallError::Command(format!("halite-run: {e}"));
    let program = program_beside("halite-run");
    let helper = Helper {
        stdin: Some(serde_json::to_vec(&Value::Map(order)).map_err(|e| command(&e))?),
        ..Helper::new([program.as_str(), "-c", &dir, "--order"])
    };
    let done = helper.run(TIMEOUT).map_err(|e| command(&e))?;
    let Ok(Value::Map(mut answer)) = halite_wire::json::parse(&done.stdout) else {
        let stderr = String::from_utf8_lossy(&done.stderr);
        return Err(command(&stderr.trim_end()));
    };
    if answer.contains("missing") {
        return Err(CallError::raised("KeyError", format!("'{fun}'")));
    }
    match answer.remove("data") {
        Some(Value::Map(data)) => Ok(data),
        _ => Err(command(&answer.str("error").unwrap_or_default())),
    }
}

/// Keywords without those the job adds.
fn without_pub_keys(kwargs: &Map) -> Map {
    let plain = |key: &Value| !key.as_str().is_some_and(|key| key.starts_with("__"));
    kwargs
        .iter()
        .filter(|(key, _)| plain(key))
        .cloned()
        .collect()
}

fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        Value::Nil => Vec::new(),
        one => vec![one.clone()],
    }
}

pub(super) fn runner(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let mut kwarg = call.arg("kwarg").as_map().cloned().unwrap_or_default();
    kwarg.0.extend(without_pub_keys(&call.bound.kwargs).0);
    let user = call
        .bound
        .kwargs
        .str("__pub_user")
        .unwrap_or("UNKNOWN")
        .to_owned();
    let arg = list(call.arg("arg"));
    let mut data = ask(call, "runner", &name, arg, kwarg, &user)?;
    if call.flag("full_return") {
        Ok(data.into())
    } else {
        Ok(data.remove("return").unwrap_or_default())
    }
}

pub(super) fn wheel(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let (args, kwargs) = (
        call.bound.varargs.clone(),
        without_pub_keys(&call.bound.kwargs),
    );
    Ok(ask(call, "wheel", &name, args, kwargs, "UNKNOWN")?.into())
}

/// `cmd` and `cmd_iter`: an iterator becomes one map in a job's return.
pub(super) fn cmd(call: &mut Call<'_>) -> Result {
    let mut kwarg = without_pub_keys(&call.bound.kwargs);
    for what in ["batch", "subset"] {
        if kwarg.get(what).is_some_and(Value::truthy) {
            return Err(CallError::Invocation(format!(
                "{what} is not supported here"
            )));
        }
    }
    if call.flag("ssh") {
        return Err(CallError::Invocation(
            "ssh is not supported here".to_owned(),
        ));
    }
    for key in ["tgt", "fun", "timeout", "tgt_type", "ret", "kwarg"] {
        kwarg.set(key, call.arg(key).clone());
    }
    kwarg.set("arg", list(call.arg("arg")));
    let mut data = ask(call, "cmd", "", Vec::new(), kwarg, "")?;
    Ok(data.remove("return").unwrap_or_default())
}
