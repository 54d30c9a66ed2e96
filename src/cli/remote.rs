//! Runner and wheel functions called through the master, with external authentication (`salt/client/mixins.py
//! SyncClientMixin.cmd_sync`).

use halite_client::local::{ClientError, LocalClient};
use halite_wire::{Map, Value};
use std::time::Duration;

/// Default timeout for a runner in seconds, as in Salt.
pub(crate) const PATIENCE: u64 = 300;

/// The result of a function.
pub(crate) struct RemoteResult {
    /// The value.
    pub value: Value,
    /// The requested outputter.
    pub out: Option<String>,
}

/// Lets the master run a runner, and waits until it is finished.
///
/// # Errors
/// The master refuses, the runner fails, or it takes too long.
pub(crate) fn runner(
    client: &mut LocalClient,
    fun: &str,
    arg: Vec<Value>,
    kwarg: Map,
    patience: u64,
) -> Result<RemoteResult, ClientError> {
    let inner = halite_wire::map! {"arg" => arg, "kwarg" => kwarg};
    let load = halite_wire::map! {"cmd" => "runner", "fun" => fun, "kwarg" => inner};
    let ended = client.run_runner(load, Duration::from_secs(patience), &|| false)?;
    match ended.data {
        Some(data) => parse_result(data),
        None => Err(ClientError::NoMaster(format!(
            "the runner did not finish within {patience} seconds; it continues, see {}",
            ended.tag
        ))),
    }
}

/// Lets the master run a wheel function.
///
/// # Errors
/// The master refuses, or the function fails.
pub(crate) fn wheel(
    client: &mut LocalClient,
    fun: &str,
    kwarg: Map,
) -> Result<RemoteResult, ClientError> {
    let none = Vec::<Value>::new();
    let load = halite_wire::map! {"cmd" => "wheel", "fun" => fun, "arg" => none, "kwarg" => kwarg};
    let answer = client.call_master(load)?.into_map().unwrap_or_default();
    let data = answer.get("data").and_then(Value::as_map);
    parse_result(data.cloned().unwrap_or_default())
}

fn parse_result(mut data: Map) -> Result<RemoteResult, ClientError> {
    let good = data.get("success").is_some_and(Value::truthy);
    let value = data.remove("return").unwrap_or_default();
    if !good {
        let why = value.as_str().unwrap_or("the function failed").to_owned();
        return Err(ClientError::Refused(String::new(), why));
    }
    Ok(match value {
        Value::Map(mut map)
            if map.len() == 2 && map.contains("data") && map.contains("outputter") =>
        {
            RemoteResult {
                out: map.str("outputter").map(str::to_owned),
                value: map.remove("data").unwrap_or_default(),
            }
        }
        value => RemoteResult { value, out: None },
    })
}
