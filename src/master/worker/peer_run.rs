//! Runner functions on behalf of a minion, each in its own process: `halite-run --order`, which reads function and
//! arguments from its standard input. So nothing that a minion sends is on a command line.

use crate::args::Args;
use halite_config::MasterConfig;
use halite_sys::command::Helper;
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::path::Path;
use std::time::Duration;

/// Runs a function and returns its result.
///
/// # Errors
/// The program is missing, or the function fails or exceeds the request timeout.
pub(super) fn run(
    config: &MasterConfig,
    id: &MinionId,
    fun: &str,
    args: Args,
) -> Result<Value, ExitError> {
    let fail = |why: String| ExitError::new(1, why);
    let dir = config.conf_file.parent().unwrap_or(Path::new("."));
    let program = std::env::current_exe()?.with_file_name("halite-run");
    let order = halite_wire::map! {
        "kind" => "peer_run", "fun" => fun, "arg" => args.positional, "kwarg" => args.keyword,
        "user" => id.as_str(),
    };
    let helper = Helper {
        stdin: Some(serde_json::to_vec(&Value::Map(order)).map_err(|e| fail(e.to_string()))?),
        ..Helper::new([
            program.to_string_lossy(),
            "-c".into(),
            dir.to_string_lossy(),
            "--order".into(),
        ])
    };
    let limit = Duration::from_secs(config.request_timeout.saturating_sub(2).max(1));
    let done = helper.run(limit).map_err(|e| fail(e.to_string()))?;
    let answer = serde_json::from_slice(&done.stdout)
        .ok()
        .and_then(Value::into_map);
    let mut answer: Map = answer.unwrap_or_default();
    if let Some(Value::Map(mut data)) = answer.remove("data") {
        return Ok(data.remove("return").unwrap_or_default());
    }
    let said = match answer.str("error") {
        Some(error) => error.into(),
        None => String::from_utf8_lossy(&done.stderr),
    };
    let code = done.code;
    Err(fail(format!(
        "the runner {fun:.80} ended with {code} and no result: {said:.500}"
    )))
}
