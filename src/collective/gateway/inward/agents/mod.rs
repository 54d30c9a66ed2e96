//! The agents that each node has: `discovery`, `rpcutil` and `halite`.
//!
//! A request is parsed once for all nodes ([`prepare`]); the reply of each node is built when it is sent
//! ([`answer`]).

pub(super) mod data;
pub mod ddl;
pub(super) mod halite;
mod rpcutil;

use super::Settings;
use super::nodes::Node;
use super::stats::Tally;
use crate::gateway::act::Clock;
use crate::ruby::Datum;
use crate::wire::Form;
use ddl::{Action, Ddl, RpcError};
use halite_wire::Value;

/// All agents, in the order listed.
pub const AGENTS: [&str; 3] = ["discovery", "halite", "rpcutil"];
/// The agents with actions.
const DDLS: [&Ddl; 2] = [&halite::DDL, &rpcutil::DDL];

pub(super) const AUTHOR: &str = "The halite authors";
pub(super) const LICENSE: &str = env!("CARGO_PKG_LICENSE");
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
pub(super) const URL: &str = "docs/gateways/choria-inward.md";

/// Longest text of a request that is repeated in a reply.
const SHOWN: usize = 80;

/// The files that clients need for the agent `halite`, by name: `halite.ddl` for MCollective, `halite.json` for Choria.
pub fn interface() -> [(&'static str, String); 2] {
    [
        ("halite.ddl", halite::DDL.to_ruby()),
        ("halite.json", halite::DDL.to_json()),
    ]
}

/// The interface of an agent.
pub(super) fn ddl_of(agent: &str) -> Option<&'static Ddl> {
    DDLS.into_iter().find(|ddl| ddl.name == agent)
}

/// A parsed request.
#[derive(Debug)]
pub(super) enum Prepared {
    /// A ping of `discovery`.
    Pong,
    /// Another request to `discovery`.
    Unknown(String),
    /// The request is invalid, for all nodes.
    Invalid(Option<&'static Action>, RpcError),
    /// An action of `rpcutil`, with its inputs.
    Rpcutil(&'static Action, Datum),
    /// `halite info`.
    Info(&'static Action),
    /// A function to run.
    Run(&'static Action, halite::Run),
}

/// Why no agent takes a request.
pub(super) const NO_AGENT: &str = "a request for an unknown agent, or with an invalid body";

/// Parses a body. The second value is whether a reply is wanted; `None` if the request cannot be
/// answered.
pub(super) fn prepare(agent: &str, body: &Datum) -> Option<(Prepared, bool)> {
    if agent == "discovery" {
        return Some((discovery(body), true));
    }
    let ddl = ddl_of(agent)?;
    let action = body.get("action")?.as_str()?;
    let none = Datum::Hash(Vec::new());
    let data = match body.get("data") {
        None | Some(Datum::Nil) => &none,
        Some(data @ Datum::Hash(_)) => data,
        Some(_) => return None,
    };
    let wanted = !matches!(
        data.get("process_results"),
        Some(Datum::Bool(false) | Datum::Nil)
    );
    let prepared = match ddl.check(action, data) {
        Err(wrong) => Prepared::Invalid(ddl.action(action), wrong),
        Ok(action) if agent == "rpcutil" => Prepared::Rpcutil(action, data.clone()),
        Ok(action) => halite::prepare(action, data),
    };
    Some((prepared, wanted))
}

fn discovery(body: &Datum) -> Prepared {
    match body.as_str() {
        Some("ping") => Prepared::Pong,
        Some(other) => Prepared::Unknown(other.chars().take(SHOWN).collect()),
        None => Prepared::Unknown("something that is not text".to_owned()),
    }
}

/// The body of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Body {
    /// Text, of `discovery`.
    Text(String),
    /// A SimpleRPC reply.
    Rpc {
        code: u8,
        message: String,
        data: Vec<(String, Datum)>,
    },
}

impl Body {
    /// A failure. All outputs of the action are present, as nil (reference, section 11).
    pub fn failed(action: Option<&Action>, wrong: RpcError) -> Body {
        Body::Rpc {
            code: wrong.0,
            message: wrong.1,
            data: filled(action, Vec::new()),
        }
    }

    /// A success; outputs that are not given are nil.
    pub fn done(action: &Action, data: Vec<(String, Datum)>) -> Body {
        Body::Rpc {
            code: 0,
            message: "OK".to_owned(),
            data: filled(Some(action), data),
        }
    }

    /// The value for a reply. Keys are symbols; forms without symbols write text.
    pub fn into_datum(self) -> Datum {
        match self {
            Body::Text(text) => Datum::Str(text),
            Body::Rpc {
                code,
                message,
                data,
            } => {
                let data = data.into_iter();
                let data = data.map(|(name, value)| (Datum::symbol(name), value));
                Datum::Hash(vec![
                    (Datum::symbol("statuscode"), Datum::Int(code.into())),
                    (Datum::symbol("statusmsg"), Datum::Str(message)),
                    (Datum::symbol("data"), Datum::Hash(data.collect())),
                ])
            }
        }
    }
}

/// The outputs of an action in their order, then any other data.
fn filled(action: Option<&Action>, mut data: Vec<(String, Datum)>) -> Vec<(String, Datum)> {
    let mut out = Vec::new();
    for output in action.map_or(&[][..], |action| action.outputs) {
        let given = data.iter().position(|(name, _)| name == output.name);
        let value = given.map_or(Datum::Nil, |at| data.remove(at).1);
        out.push((output.name.to_owned(), value));
    }
    out.append(&mut data);
    out
}

/// The data that replies are built from.
pub(super) struct Known<'a> {
    pub node: &'a Node,
    pub tally: Tally,
    pub settings: &'a Settings,
    pub form: Form,
    pub now: Clock,
}

/// The reply of a node. `None` for functions, whose replies come from the minion.
pub(super) fn answer(prepared: &Prepared, known: &Known) -> Option<Body> {
    Some(match prepared {
        Prepared::Pong => Body::Text("pong".to_owned()),
        Prepared::Unknown(text) => Body::Text(format!("Unknown Request: {text}")),
        Prepared::Invalid(action, wrong) => Body::failed(*action, wrong.clone()),
        Prepared::Rpcutil(action, inputs) => rpcutil::answer(action, inputs, known),
        Prepared::Info(action) => halite::info(action, known),
        Prepared::Run(..) => return None,
    })
}

/// A fact in a reply. Programs in Ruby have only text in facts, so their forms get text;
/// JSON keeps the types (reference, sections 9 and 20).
pub(super) fn fact(value: &Value, form: Form) -> Datum {
    match form {
        Form::Choria2 { .. } => Datum::from(value),
        Form::Psk | Form::Ssl(_) | Form::Aes(_) | Form::Choria1 { .. } => flat(value),
    }
}

fn flat(value: &Value) -> Datum {
    match value {
        Value::Array(items) => Datum::Array(items.iter().map(flat).collect()),
        Value::Map(map) => {
            let pairs = map.iter().map(|(key, value)| (text(key), flat(value)));
            Datum::Hash(pairs.collect())
        }
        other => text(other),
    }
}

fn text(value: &Value) -> Datum {
    Datum::Str(match value {
        Value::Nil => String::new(),
        Value::Bool(flag) => flag.to_string(),
        other => halite_target::python_str(other).into_owned(),
    })
}

/// Any value as JSON: keys become text as in Python, bytes lose what is not text.
pub(super) fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Nil => serde_json::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::UInt(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Str(text) => text.as_str().into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::Map(map) => {
            let pairs = map.iter().map(|(key, value)| {
                let key = halite_target::python_str(key).into_owned();
                (key, json(value))
            });
            serde_json::Value::Object(pairs.collect())
        }
    }
}

/// A fact by name, or by a path of names and indexes separated by dots.
pub(super) fn look_up<'a>(facts: &'a halite_wire::Map, path: &str) -> Option<&'a Value> {
    if let Some(found) = facts.get(path) {
        return Some(found);
    }
    let mut steps = path.split('.');
    let mut at = facts.get(steps.next()?)?;
    for step in steps {
        at = match at {
            Value::Map(map) => map.get(step)?,
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

#[cfg(test)]
mod tests;
