//! `halite`: functions of execution modules, run by the minion itself.

use super::ddl::{Action, Ddl, Input, InputType, Output, RpcError, out};
use super::{Body, Known, Prepared, look_up};
use crate::ruby::Datum;
use halite_client::command::arguments;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::time::Duration;

/// How long clients wait, in seconds.
const TIMEOUT: u32 = 60;
/// Default timeout of a function, in seconds: replies arrive before clients give up.
const PATIENCE: u64 = 50;
/// Longest timeout that a request may ask for, in seconds.
const LONGEST: i64 = 86_400;

const JID: Output = out("jid", "Id of the job, for the master's job cache", "Job");

/// The interface of the agent.
pub(super) static DDL: Ddl = Ddl {
    name: "halite",
    description: "Runs functions of execution modules on Salt minions",
    timeout: TIMEOUT,
    actions: &[
        Action {
            name: "run",
            description: "Runs a function",
            inputs: &[
                Input {
                    name: "function",
                    prompt: "Function",
                    description: "The function, as in test.ping",
                    kind: InputType::Text(128, r"^[A-Za-z_]\w*\.[A-Za-z_]\w*$"),
                    optional: false,
                },
                Input {
                    name: "args",
                    prompt: "Arguments",
                    description: "Positional arguments, a list in JSON",
                    kind: InputType::Text(65536, r"^\s*\["),
                    optional: true,
                },
                Input {
                    name: "kwargs",
                    prompt: "Keyword arguments",
                    description: "Keyword arguments, an object in JSON",
                    kind: InputType::Text(65536, r"^\s*\{"),
                    optional: true,
                },
                Input {
                    name: "timeout",
                    prompt: "Timeout",
                    description: "Seconds that the function may take, 50 if not given; give the client as much time",
                    kind: InputType::Integer,
                    optional: true,
                },
            ],
            outputs: &[
                out("return", "What the function returned, in JSON", "Return"),
                out("retcode", "Its retcode, 0 for success", "Retcode"),
                out("success", "Whether it ran", "Success"),
                JID,
            ],
        },
        Action {
            name: "ping",
            description: "Has the minion itself answer, by test.ping",
            inputs: &[],
            outputs: &[out("pong", "Whether it did", "Pong"), JID],
        },
        Action {
            name: "info",
            description: "Tells which minion the node is",
            inputs: &[],
            outputs: &[
                out("minion", "Its id", "Minion"),
                out("master", "Id of its master", "Master"),
                out(
                    "saltversion",
                    "Version of Salt that it speaks",
                    "Salt Version",
                ),
                out(
                    "nodegroups",
                    "Nodegroups and classes that hold it",
                    "Nodegroups",
                ),
            ],
        },
    ],
};

/// A function to run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    /// The function.
    pub fun: String,
    /// Its arguments, as in jobs.
    pub arg: Vec<Value>,
    /// How long it may take.
    pub patience: Duration,
}

/// Parses the inputs of an action, which were checked against the DDL.
pub(super) fn prepare(action: &'static Action, data: &Datum) -> Prepared {
    let run = match action.name {
        "info" => return Prepared::Info(action),
        "ping" => Ok(Run {
            fun: "test.ping".to_owned(),
            arg: Vec::new(),
            patience: Duration::from_secs(PATIENCE),
        }),
        _ => read(data),
    };
    match run {
        Ok(run) => Prepared::Run(action, run),
        Err((input, why)) => {
            let text = format!("Cannot validate input {input}: {why}");
            Prepared::Invalid(Some(action), RpcError(4, text))
        }
    }
}

fn read(data: &Datum) -> Result<Run, (&'static str, String)> {
    let json = |name: &'static str| match data.get(name).and_then(Datum::as_str) {
        None => Ok(Value::Nil),
        Some(text) => halite_wire::json::parse::<Value>(text.as_bytes())
            .map_err(|e| (name, format!("value should be JSON: {e}"))),
    };
    let positional = match json("args")? {
        Value::Nil => Vec::new(),
        Value::Array(items) => items,
        _ => return Err(("args", "value should be a list in JSON".to_owned())),
    };
    let keyword = match json("kwargs")? {
        Value::Nil => Map::new(),
        Value::Map(map) if map.contains("__kwarg__") => {
            let why = "__kwarg__ is no name of an argument".to_owned();
            return Err(("kwargs", why));
        }
        Value::Map(map) => map,
        _ => return Err(("kwargs", "value should be an object in JSON".to_owned())),
    };
    let seconds = match data.get("timeout").and_then(Datum::as_int) {
        None => PATIENCE,
        Some(seconds @ 1..=LONGEST) => seconds.unsigned_abs(),
        Some(_) => {
            let why = format!("value should be between 1 and {LONGEST}");
            return Err(("timeout", why));
        }
    };
    let fun = data.get("function").and_then(Datum::as_str);
    Ok(Run {
        fun: fun.unwrap_or_default().to_owned(),
        arg: arguments(positional, keyword),
        patience: Duration::from_secs(seconds),
    })
}

/// The reply for a return.
pub(crate) fn returned(action: &'static Action, jid: &Jid, load: &Map) -> Body {
    let value = load.get("return").cloned().unwrap_or_default();
    let retcode = match load.get("retcode") {
        Some(Value::Int(code)) => *code,
        Some(other) if other.truthy() => 1,
        _ => 0,
    };
    let success = load.get("success").is_none_or(Value::truthy);
    let mut data = vec![("jid".to_owned(), Datum::from(jid.as_str()))];
    if action.name == "ping" {
        data.push(("pong".to_owned(), Datum::from(&value)));
    } else {
        let json = super::json(&value).to_string();
        data.push(("return".to_owned(), Datum::Str(json)));
        data.push(("retcode".to_owned(), Datum::Int(retcode.into())));
        data.push(("success".to_owned(), Datum::Bool(success)));
    }
    let body = Body::done(action, data);
    match body {
        Body::Rpc { data, .. } if retcode != 0 || !success => Body::Rpc {
            code: 1,
            message: format!("the function failed with retcode {retcode}"),
            data,
        },
        body => body,
    }
}

/// The reply for a node without a return; with the jid if there is one.
pub(crate) fn nothing(action: &'static Action, jid: Option<&Jid>, wrong: RpcError) -> Body {
    let mut body = Body::failed(Some(action), wrong);
    if let (Body::Rpc { data, .. }, Some(jid)) = (&mut body, jid)
        && let Some((_, value)) = data.iter_mut().find(|(name, _)| name == "jid")
    {
        *value = jid.as_str().into();
    }
    body
}

/// `info`.
pub(super) fn info(action: &'static Action, known: &Known) -> Body {
    let version = look_up(&known.node.grains, "saltversion").map_or(Datum::Nil, Datum::from);
    let groups = known.node.classes.iter().map(|name| name.as_str().into());
    Body::done(
        action,
        vec![
            ("minion".to_owned(), known.node.minion.as_str().into()),
            ("master".to_owned(), known.settings.master.as_str().into()),
            ("saltversion".to_owned(), version),
            ("nodegroups".to_owned(), Datum::Array(groups.collect())),
        ],
    )
}
