//! Runner and wheel functions as seen by the master's processes. The functions themselves are in a higher layer
//! (`src/client`), which passes them in when a role starts.

use crate::access::rules::CallApi;
use crate::args::Args;
use halite_config::MasterConfig;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io;

/// Role of the process that executes one runner.
pub const RUNNER_ROLE: &str = "runner";

/// Functions that a higher layer provides to the workers.
#[derive(Clone, Copy)]
pub struct FunctionHooks {
    /// Executes a wheel function and fires its events; returns `return`, `success` and what else belongs in the
    /// answer.
    pub wheel: fn(&MasterConfig, &Call) -> Map,
    /// The declared arguments of a function, as for [`Args::from_low`]; none if there is no such function.
    pub declared: fn(CallApi, &str) -> &'static [&'static str],
    /// What the gateway for ARENA knows, for a path below `/api` of the REST service; `None` if there is nothing.
    pub arena: fn(&MasterConfig, &[&str]) -> io::Result<Option<Value>>,
}

/// A call of a runner or wheel function by an authenticated caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `module.function` as received; not looked up yet.
    pub fun: String,
    /// Its arguments.
    pub args: Args,
    /// The job id it runs under.
    pub jid: Jid,
    /// The user who made the call.
    pub user: String,
}

impl Call {
    /// Encodes it for the process of a runner.
    pub fn to_bytes(&self) -> Vec<u8> {
        let order = halite_wire::map! {
            "fun" => self.fun.as_str(), "arg" => self.args.positional.clone(),
            "kwarg" => self.args.keyword.clone(), "jid" => &self.jid, "user" => self.user.as_str(),
        };
        msgpack::encode_map(&order, Profile::Local)
    }

    /// Decodes [`Call::to_bytes`]; `None` if invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Call> {
        let order = msgpack::decode(bytes).ok()?.into_map()?;
        Some(Call {
            fun: order.str("fun")?.to_owned(),
            args: Args {
                positional: order.get("arg").and_then(Value::as_array)?.to_vec(),
                keyword: order.get("kwarg").and_then(Value::as_map)?.clone(),
            },
            jid: order.str("jid")?.parse().ok()?,
            user: order.str("user")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back() {
        let call = Call {
            fun: "jobs.active".into(),
            args: Args {
                positional: vec![Value::Int(1)],
                keyword: halite_wire::map! {"x" => 2},
            },
            jid: Jid::from_time(1_700_000_000, 7),
            user: "root".into(),
        };
        assert_eq!(Call::from_bytes(&call.to_bytes()), Some(call));
        assert_eq!(Call::from_bytes(b""), None);
    }
}
