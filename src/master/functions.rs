//! Runner and wheel functions as the master's processes see them. The functions themselves
//! stand in a higher layer (`src/client`), which lends them at the start of a role.

use halite_config::MasterConfig;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// Role of the process that executes one runner.
pub const RUNNER_ROLE: &str = "runner";

/// What a higher layer lends to the workers.
#[derive(Clone, Copy)]
pub struct WheelHook {
    /// Executes a wheel function and fires its events; gives `return`, `success` and
    /// what else belongs into the answer.
    pub wheel: fn(&MasterConfig, &Call) -> Map,
}

/// A call of a runner or wheel function whose caller has been proven.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `module.function`, as it came; not looked up yet.
    pub fun: String,
    /// `arg` and `kwarg`, or without these two all keyword arguments
    /// (`salt/client/mixins.py SyncClientMixin.low`).
    pub low: Map,
    /// The job id it runs under.
    pub jid: Jid,
    /// Who asks.
    pub user: String,
}

impl Call {
    /// As it is handed to the process of a runner.
    pub fn to_bytes(&self) -> Vec<u8> {
        let order = halite_wire::map! {
            "fun" => self.fun.as_str(), "low" => self.low.clone(), "jid" => &self.jid,
            "user" => self.user.as_str(),
        };
        msgpack::encode_map(&order, Profile::Local)
    }

    /// Reads [`Call::to_bytes`]; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Call> {
        let order = msgpack::decode(bytes).ok()?.into_map()?;
        Some(Call {
            fun: order.str("fun")?.to_owned(),
            low: order.get("low").and_then(Value::as_map)?.clone(),
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
            low: halite_wire::map! {"arg" => vec![Value::Int(1)], "kwarg" => Map::new()},
            jid: Jid::from_time(1_700_000_000, 7),
            user: "root".into(),
        };
        assert_eq!(Call::from_bytes(&call.to_bytes()), Some(call));
        assert_eq!(Call::from_bytes(b""), None);
    }
}
