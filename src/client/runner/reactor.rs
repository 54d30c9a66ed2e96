//! `reactor.*`: lists and changes reactions, and turns them on or off (`salt/runners/reactor.py`).
//!
//! Requests and answers are events on the bus. Other listeners must not learn the key of the master's account,
//! so the request carries a proof made with the key; stock's runner sends the key itself, and the reactor
//! accepts that as well.

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_crypto::hmac_hex;
use halite_wire::msgpack::Profile;
use halite_wire::{Map, Value, msgpack};
use std::time::{Duration, Instant};

/// How long to wait for the reactor's answer, as in Salt.
const PATIENCE: Duration = Duration::from_secs(30);
const NAP: Duration = Duration::from_millis(200);

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "reactor.list",
        args: &["?saltenv", "?test"],
        doc: "The reactions: tags with their files.",
        run: |context, _| request_reactor(context, "list", Map::new(), "list-results", "reactors"),
    },
    Function {
        name: "reactor.add",
        args: &["event", "reactors", "?saltenv", "?test"],
        doc: "Adds a reaction to a tag until the master stops: a file or a list of files.",
        run: add,
    },
    Function {
        name: "reactor.delete",
        args: &["event", "?saltenv", "?test"],
        doc: "Removes the reaction to a tag until the master is restarted.",
        run: |context, args| {
            let data = halite_wire::map! {"event" => args.get(0, "event").cloned()};
            request_reactor(context, "delete", data, "delete-complete", "result")
        },
    },
    Function {
        name: "reactor.is_leader",
        args: &[],
        doc: "Whether the reactor reacts to events.",
        run: |context, _| {
            request_reactor(context, "is_leader", Map::new(), "leader/value", "result")
        },
    },
    Function {
        name: "reactor.set_leader",
        args: &["?value"],
        doc: "Turns reactions to events on or, with False, off.",
        run: |context, args| {
            let value = args.get(0, "value").is_none_or(Value::truthy);
            let data = halite_wire::map! {"id" => context.config.id.as_str(), "value" => value};
            request_reactor(context, "set_leader", data, "leader/value", "result")
        },
    },
];

fn add(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let files = match args.get(1, "reactors") {
        Some(Value::Str(one)) => vec![Value::from(one.as_str())],
        Some(Value::Array(list)) => list.clone(),
        _ => {
            let why = "reactors must be the path of a file, or a list of them";
            return Err(RunError::Raised("SaltInvocationError".into(), why.into()));
        }
    };
    let data = halite_wire::map! {"event" => args.get(0, "event").cloned(), "reactors" => files};
    request_reactor(context, "add", data, "add-complete", "result")
}

/// Proves that a request of the run `jid` comes from somebody who has `key`.
pub fn proof(key: &str, jid: &str, tag: &str, data: &Map) -> String {
    let asked: Map = ["event", "reactors", "id", "value"]
        .into_iter()
        .filter_map(|name| data.get(name).map(|value| (name, value.clone())))
        .collect();
    let mut message = format!("{jid}\n{tag}\n").into_bytes();
    message.extend(msgpack::encode_map(&asked, Profile::Local));
    hmac_hex(key.trim_end().as_bytes(), &message)
}

/// Fires `salt/run/<jid>/salt/reactors/manage/<action>` and waits for the answer; returns its field `part`.
fn request_reactor(
    context: &mut RunContext,
    action: &str,
    mut data: Map,
    answer: &str,
    part: &str,
) -> Result<RunnerOutput, RunError> {
    let failed = |why: String| RunError::Unknown(why);
    if !context.config.reactor.0.truthy() {
        return Err(failed("Reactor system is not running.".to_owned()));
    }
    let account = halite_sys::process::user_name();
    let path = context.config.client_key(&account);
    let key = halite_sys::safe_open::read_text(&path, crate::local::MAX_KEY_FILE).map_err(|e| {
        failed(format!(
            "{}: {e}; run this as the account of the master",
            path.display()
        ))
    })?;
    let tag = format!("salt/reactors/manage/{action}");
    let proof = proof(
        &key,
        context.run.jid.as_ref().map_or("", |j| j.as_str()),
        &tag,
        &data,
    );
    data.set("proof", proof);
    let mut events = context.client().listen()?;
    context.run.fire(&tag, data);
    let wanted = format!("salt/reactors/manage/{answer}");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && !context.stop.is_set() {
        let event = match events.next(Some(NAP)) {
            Ok(Some(event)) if event.tag == wanted => event,
            Ok(_) => continue,
            Err(e) => return Err(failed(format!("the event bus is gone: {e}"))),
        };
        let told = msgpack::decode(&event.payload).unwrap_or_default();
        let told = told.as_map().and_then(|m| m.get(part)).cloned();
        return Ok(told.unwrap_or_default().into());
    }
    Err(failed(
        "the reactor did not answer; is it running, and is this the master's account?".to_owned(),
    ))
}
