//! Runs functions this minion lacks through an installed Python Salt (`legacy_salt`). Each call starts a Python
//! process, which takes most of a second.

use super::{CallError, Context, python};
use crate::execution::declare::Result;
use halite_sys::command::Helper;
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAM: &str = include_str!("legacy.py");
/// Timeout of a function.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The result of a call.
pub struct LegacyReturn {
    /// The return value.
    pub ret: Value,
    /// Salt's `__context__["retcode"]`.
    pub retcode: Value,
    /// What ran it, for the return: `Salt 3008.3 in /opt/salt`.
    pub by: String,
}

/// The installation's Python, if configured: `legacy_salt` is its path, or a directory with `bin/python3`.
fn interpreter(ctx: &Context) -> Option<PathBuf> {
    let path = Path::new(ctx.opts.str("legacy_salt").filter(|p| !p.is_empty())?);
    if path.is_dir() {
        Some(path.join("bin/python3"))
    } else {
        Some(path.to_owned())
    }
}

/// Runs a function. `None`: no installation is configured, or it does not have the function either.
pub fn call(
    ctx: &Context,
    fun: &str,
    args: &[Value],
    kwargs: &Map,
) -> Option<Result<LegacyReturn>> {
    let python = interpreter(ctx)?;
    match run(ctx, &python, fun, args, kwargs) {
        Ok(outcome) if outcome.contains("missing") => None,
        Ok(outcome) => Some(answer(ctx, fun, outcome)),
        Err(why) => Some(Err(CallError::Command(format!(
            "legacy_salt: {}: {why}",
            python.display()
        )))),
    }
}

fn run(
    ctx: &Context,
    python: &Path,
    fun: &str,
    args: &[Value],
    kwargs: &Map,
) -> Result<Map, String> {
    let order = halite_wire::map! {
        "fun" => fun, "args" => args.to_vec(), "kwargs" => kwargs.clone(), "id" => ctx.id.as_str(),
        "grains" => Map::clone(&ctx.grains), "pillar" => Map::clone(&ctx.pillar), "opts" => Map::clone(&ctx.opts),
    };
    let helper = Helper {
        stdin: Some(serde_json::to_vec(&order).map_err(|e| e.to_string())?),
        ..Helper::new([&*python.to_string_lossy(), "-c", PROGRAM])
    };
    let done = helper.run(TIMEOUT).map_err(|e| e.to_string())?;
    halite_wire::json::parse::<Value>(&done.stdout)
        .ok()
        .and_then(Value::into_map)
        .ok_or_else(|| {
            let stderr = String::from_utf8_lossy(&done.stderr);
            let last = stderr.trim_end().lines().last().unwrap_or_default();
            format!("exited with {} and no answer: {last}", done.code)
        })
}

fn answer(ctx: &Context, fun: &str, outcome: Map) -> Result<LegacyReturn> {
    let version = outcome.str("version").unwrap_or_default();
    let place = ctx.opts.str("legacy_salt").unwrap_or_default();
    if let Some(class) = outcome.str("class") {
        let text = outcome.get("error").map(python::str).unwrap_or_default();
        return Err(match class {
            "CommandExecutionError" => CallError::Command(text),
            "CommandNotFoundError" => CallError::CommandNotFound(text),
            "SaltInvocationError" => CallError::Invocation(text),
            "TypeError" => CallError::Type(text),
            other => CallError::raised(other, text),
        });
    }
    log::info!("{fun} was run by Salt {version} in {place}");
    Ok(LegacyReturn {
        ret: outcome.get("return").cloned().unwrap_or_default(),
        retcode: outcome.get("retcode").cloned().unwrap_or(Value::Int(0)),
        by: format!("Salt {version} in {place}"),
    })
}
