//! `publish`: jobs and runners this minion requests from the master (`salt/modules/publish.py`).

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python};
use halite_channel::link::LinkError;
use halite_wire::yaml::yamlify_arg;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// Seconds between polls for returns.
const PAUSE: f64 = 0.3;

const ARGS: &[Arg] = &[
    req("tgt"),
    req("fun"),
    opt("arg", Lit::Nil),
    opt("tgt_type", Lit::Str("glob")),
    opt("returner", Lit::Str("")),
    opt("timeout", Lit::Int(5)),
];

const ARGS_VIA: &[Arg] = &[
    req("tgt"),
    req("fun"),
    opt("arg", Lit::Nil),
    opt("tgt_type", Lit::Str("glob")),
    opt("returner", Lit::Str("")),
    opt("timeout", Lit::Int(5)),
    opt("via_master", Lit::Nil),
];

pub(super) const MODULE: Module = Module {
    name: "publish",
    functions: &[
        Function::new("publish", |c| publish(c, false), "Runs a function on other minions, if the master's option peer allows it, and returns their results.")
            .args(ARGS_VIA),
        Function::new("full_data", |c| publish(c, true), "Like publish.publish, with all data of each return.")
            .args(ARGS),
        Function::new("runner", runner, "Calls a runner function on the master, if its option peer_run allows it.")
            .args(&[req("fun"), opt("arg", Lit::Nil), opt("timeout", Lit::Int(5))]),
    ],
};

/// The function's arguments, parsed as YAML into a list (`_parse_args`).
fn arguments(call: &Call<'_>) -> Vec<Value> {
    let read = match call.arg("arg") {
        Value::Str(text) => yamlify_arg(text),
        other => other.clone(),
    };
    match read {
        Value::Nil => Vec::new(),
        Value::Array(list) => list,
        one => vec![one],
    }
}

fn no_parse(call: &Call<'_>) -> Value {
    let own = call.ctx.opts.get("no_parse").cloned();
    own.unwrap_or_else(|| Vec::<Value>::new().into())
}

fn seconds(call: &Call<'_>) -> Result<f64> {
    let given = call.arg("timeout");
    match given {
        Value::Int(n) => Ok(*n as f64),
        Value::Float(f) => Ok(*f),
        other => python::str(other).parse().map_err(|_| {
            CallError::raised(
                "TypeError",
                format!("the timeout {} is not a number", python::repr(other)),
            )
        }),
    }
}

fn check_master(call: &Call<'_>) -> Result<()> {
    let Some(wanted) = call.text("via_master").filter(|m| !m.is_empty()) else {
        return Ok(());
    };
    let list = match call.ctx.opts.get("master") {
        Some(Value::Str(one)) => vec![one.clone()],
        Some(other) => other.str_list(),
        None => Vec::new(),
    };
    // The minion talks to one master at a time, so only the current one can be meant.
    if list.len() == 1 && list[0].split(':').next() == Some(wanted.as_str()) {
        return Ok(());
    }
    Err(CallError::Invocation(format!(
        "Could not find match for {wanted} in list of configured masters {} when using `via_master` option",
        python::repr(&list.into())
    )))
}

fn publish(call: &mut Call<'_>, full: bool) -> Result {
    let master = &call.ctx.master;
    let fun = python::str(call.arg("fun"));
    if !master.has_master() {
        log::error!("nothing is published: there is no master");
        return Ok(Map::new().into());
    }
    if fun.starts_with("publish.") {
        log::info!("publish calls cannot be published");
        return Ok(Map::new().into());
    }
    if !full {
        check_master(call)?;
    }
    let timeout = seconds(call)?;
    let id = call.ctx.id.as_str();
    let load = halite_wire::map! {
        "cmd" => "minion_pub", "fun" => fun.as_str(), "arg" => arguments(call),
        "tgt" => call.arg("tgt").clone(), "tgt_type" => call.arg("tgt_type").clone(),
        "ret" => call.arg("returner").clone(), "tmo" => call.arg("timeout").clone(),
        "form" => if full { "full" } else { "clean" }, "id" => id, "no_parse" => no_parse(call),
    };
    let started = match master.call(&load) {
        Err(LinkError::Silence) => return Ok(format!("'{fun}' publish timed out").into()),
        other => other?,
    };
    let Some(started) = started.as_map().filter(|m| !m.is_empty()) else {
        return Ok(Map::new().into());
    };
    let expected: BTreeSet<String> = started
        .get("minions")
        .map(Value::str_list)
        .unwrap_or_default()
        .into_iter()
        .collect();
    if expected.is_empty() {
        return Ok(Value::Nil);
    }
    let load = halite_wire::map! {
        "cmd" => "pub_ret", "id" => id, "jid" => started.get("jid").cloned().unwrap_or_default(),
    };
    let mut waited = 0.0;
    loop {
        let returns = master.call(&load)?.into_map().unwrap_or_default();
        let all = expected.iter().all(|id| returns.contains(id));
        if all || waited > timeout {
            return Ok(if full { returns.into() } else { clean(returns) });
        }
        waited += PAUSE;
        std::thread::sleep(Duration::from_secs_f64(PAUSE));
    }
}

fn clean(returns: Map) -> Value {
    let plain = returns.0.into_iter().map(|(id, one)| {
        let value = one.into_map().and_then(|mut m| m.remove("ret"));
        (id, value.unwrap_or_default())
    });
    Map(plain.collect()).into()
}

fn runner(call: &mut Call<'_>) -> Result {
    let master = &call.ctx.master;
    if !master.has_master() {
        return Ok("No access to master. If using salt-call with --local, please remove.".into());
    }
    let fun = python::str(call.arg("fun"));
    let load = halite_wire::map! {
        "cmd" => "minion_runner", "fun" => fun.as_str(), "arg" => arguments(call),
        "tmo" => call.arg("timeout").clone(), "id" => call.ctx.id.as_str(), "no_parse" => no_parse(call),
    };
    match master.call(&load) {
        Err(LinkError::Silence) => Ok(format!("'{fun}' runner publish timed out").into()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Context, call};
    use super::*;

    #[test]
    fn without_a_master_nothing_is_published() {
        let ctx = Context::default();
        for fun in ["publish.publish", "publish.full_data"] {
            let got = call(&ctx, fun, &["*".into(), "test.ping".into()]);
            assert_eq!(got.ret, Map::new().into());
        }
        let got = call(&ctx, "publish.runner", &["test.ping".into()]);
        assert!(got.ret.as_str().unwrap().starts_with("No access to master"));
    }

    #[test]
    fn returns_without_their_frames() {
        let returns = halite_wire::map! {"a" => halite_wire::map! {"ret" => 1, "out" => "x"}, "b" => halite_wire::map! {}};
        assert_eq!(
            clean(returns),
            halite_wire::map! {"a" => 1, "b" => Value::Nil}.into()
        );
    }
}
