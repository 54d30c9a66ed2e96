//! `runner` and `wheel`: functions of the master for an authenticated client (`salt/master.py
//! ClearFuncs.runner`, `wheel`; reference `salt-protocol.md` 7.3).
//!
//! A runner runs in a process of its own and is answered at once; a wheel function runs here and its result is
//! the answer.

use super::caller;
use super::context::Context;
use crate::access::rules::{self, CallApi};
use crate::args::Args;
use crate::functions::{Call, RUNNER_ROLE};
use halite_sys::exit::ExitError;
use halite_sys::process::RoleSpec;
use halite_sys::slots::Slots;
use halite_wire::{Map, Value};

/// Longest function name; the longest in Salt has 40 letters.
const LONGEST_NAME: usize = 100;

/// Handles a request of either kind.
pub(crate) fn request(
    worker: &mut Context,
    api: CallApi,
    mut load: Map,
    peer: &str,
) -> Result<Value, ExitError> {
    let jid = worker.new_jid();
    let fun = load.str("fun").unwrap_or_default().to_owned();
    let low = match api {
        CallApi::Runner => match load.remove("kwarg") {
            Some(Value::Map(low)) => low,
            _ => Map::new(),
        },
        CallApi::Wheel => {
            let mut low = load.clone();
            for field in caller::PROOF {
                low.remove(field);
            }
            low
        }
    };
    let declared = (worker.lent.declared)(api, &fun);
    let args = Args::from_low(low, declared);
    let asked = match &args {
        Ok(args) => rules::Call::of_function(&fun, args, declared),
        Err(_) => rules::Call::of_unknown_arguments(&fun),
    };
    let user = match caller::prove(worker, api, &load, &asked, (peer, &jid)) {
        Ok(user) => user,
        Err(answer) => return Ok(answer),
    };
    if fun.is_empty() || fun.len() > LONGEST_NAME {
        let why = "the request has no function";
        return Ok(refusal(caller::error("SaltInvocationError", why)));
    }
    let args = match args {
        Ok(args) => args,
        Err(e) => return Ok(refusal(caller::error(e.class(), &e.to_string()))),
    };
    let call = Call {
        fun,
        args,
        jid,
        user,
    };
    match api {
        CallApi::Runner => start(worker, &call),
        CallApi::Wheel => Ok(wheel(worker, &call)),
    }
}

fn refusal(error: Map) -> Value {
    Value::Map(halite_wire::map! {"error" => error})
}

/// Starts the process of a runner; it reports by its events.
fn start(worker: &mut Context, call: &Call) -> Result<Value, ExitError> {
    worker.tell_of_runners();
    let config = &worker.config;
    let most = config
        .runner_processes
        .saturating_add(config.runner_queue_limit);
    let Some(ticket) = Slots::new(config.started_runners(), most).take()? else {
        log::error!(
            "the runner {:?} was refused: {most} are in progress",
            call.fun
        );
        let why = format!(
            "{most} runners are in progress, the maximum of runner_processes and runner_queue_limit; try again later"
        );
        return Ok(refusal(caller::error("SaltClientError", &why)));
    };
    let child = RoleSpec {
        role: RUNNER_ROLE.to_owned(),
        title: format!("halite-master Runner {} {}", plain(&call.fun), call.jid),
        env: Vec::new(),
    }
    .spawn_detached(&call.to_bytes())?;
    log::info!(
        jid = call.jid.as_str(), fun:% = plain(&call.fun);
        "user {} runs the runner {}, jid {}, process {}",
        call.user,
        plain(&call.fun),
        call.jid,
        child.id()
    );
    worker.runners.add(child, ticket, call);
    Ok(Value::Map(halite_wire::map! {
        "tag" => format!("salt/run/{}", call.jid), "jid" => &call.jid,
    }))
}

fn wheel(worker: &mut Context, call: &Call) -> Value {
    let tag = format!("salt/wheel/{}", call.jid);
    let mut data = halite_wire::map! {
        "fun" => format!("wheel.{}", call.fun), "jid" => &call.jid, "tag" => tag.as_str(),
        "user" => call.user.as_str(),
    };
    let done = (worker.lent.wheel)(&worker.config, call);
    log::info!(
        jid = call.jid.as_str(), fun:% = plain(&call.fun);
        "user {} ran the wheel function {}",
        call.user,
        plain(&call.fun)
    );
    data.0.extend(done.0);
    Value::Map(halite_wire::map! {"tag" => tag, "data" => data})
}

/// A name from the network, sanitised for the log and the process list.
fn plain(fun: &str) -> String {
    fun.chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'))
        .collect()
}
