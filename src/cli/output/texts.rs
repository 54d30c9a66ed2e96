//! The fixed texts of the `salt` command (`salt/cli/salt.py`, `salt/cli/batch.py`, `salt/client/__init__.py`).
//!
//! Each function returns the printed text including newlines, unless stated otherwise.

use super::python::{python_repr, python_str};
use halite_wire::{Map, Value};
use std::collections::BTreeMap;

/// Standard output if no minion matches the target; [`NO_RETURN_RECEIVED`] follows, exit code 2.
pub const NO_MINIONS_MATCHED: &str =
    "No minions matched the target. No command was sent, no jid was assigned.\n";
/// Standard output of a batch run without matching minions, after [`NO_MINIONS_MATCHED`].
pub const BATCH_NO_MINIONS_MATCHED: &str = "No minions matched the target.\n";
/// Standard error, exit code 2.
pub const NO_RETURN_RECEIVED: &str = "ERROR: No return received\n";
/// Standard error, exit code 1.
pub const NON_ZERO_EXIT: &str = "ERROR: Minions returned with non-zero exit code\n";
/// Standard error, exit code 2.
pub const AUTHENTICATION_FAILED: &str = "ERROR: Authentication failed\n";
/// The return of a minion that is absent according to presence data; no newline, a value for no_return.
pub const NOT_CONNECTED: &str = "Minion did not return. [Not connected]";
/// Standard output when `--batch-safe-limit` starts a batch run.
pub const SWITCH_TO_BATCH: &str =
    "\nNOTICE: Too many minions targeted, switching to batch execution.\n";

const RULE: &str = "-------------------------------------------";

/// First lines with `-v`.
pub fn executing_job(jid: &str) -> String {
    let line = format!("Executing job with jid {jid}");
    format!("{line}\n{}\n\n", "-".repeat(line.len()))
}

/// First line with `--show-jid`.
pub fn show_jid(jid: &str) -> String {
    format!("jid: {jid}\n")
}

/// Printed by `--async`.
pub fn executed_async(jid: &str) -> String {
    format!("Executed command with job ID: {jid}\n")
}

/// Printed by `--async` with `--batch` (3008).
pub fn executed_async_batch(jid: &str) -> String {
    format!("Executed batch command with job ID: {jid}\n")
}

/// Heading of a round of a batch run: the ids in order, surrounded by blank lines.
pub fn executing_run_on(minions: &[String]) -> String {
    let mut minions = minions.to_vec();
    minions.sort();
    let minions = python_repr(&Value::from(minions));
    format!("\nExecuting run on {minions}\n\n")
}

/// Standard error at the end of a batch that was halted.
pub fn batch_halted(reason: &str, left: &[String]) -> String {
    format!(
        "ERROR: the batch was halted ({reason}); not sent to {}\n",
        named(left)
    )
}

/// In a batch run, a minion that did not answer its ping is skipped.
pub fn batch_minion_down(minion: &str) -> String {
    format!("Minion {minion} did not respond. No job will be sent.\n")
}

/// For an argument of `--batch` that is neither a number nor a percentage.
pub fn invalid_batch(batch: &str) -> String {
    format!("Invalid batch data sent: {batch}\nData must be in the form of %10, 10% or 3\n")
}

/// The line for an unknown `--out=X`, in the form of stock's log on stderr.
pub fn log_error(message: &str) -> String {
    format!("[ERROR   ] {message}\n")
}

/// Data for the block printed by `--summary`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of minions that returned.
    pub returned: usize,
    /// Number of minions that did not return, for any reason.
    pub missing: usize,
    /// Those known to be disconnected, in order of arrival.
    pub not_connected: Vec<String>,
    /// Those that did not respond.
    pub not_responding: Vec<String>,
    /// Those that returned with an error.
    pub failed: Vec<String>,
}

impl Summary {
    /// Adds one minion's full return: a map with `ret` and maybe `retcode`, or the bare return.
    pub fn add(&mut self, minion: &str, full_return: &Value) {
        let ret = full_return.as_map().and_then(|m| m.get("ret"));
        let text = ret.unwrap_or(full_return).as_str().unwrap_or_default();
        if !text.starts_with("Minion did not return") {
            self.returned += 1;
            if retcode_of(full_return) != 0 {
                self.failed.push(minion.to_owned());
            }
            return;
        }
        self.missing += 1;
        if text.contains("Not connected") {
            self.not_connected.push(minion.to_owned());
        } else if text.contains("No response") {
            self.not_responding.push(minion.to_owned());
        }
    }

    /// The text of the block; `verbose` adds the names.
    pub fn text(&self, verbose: bool) -> String {
        let mut lines = vec![
            "\n".to_owned(),
            RULE.into(),
            "Summary".into(),
            RULE.into(),
            format!("# of minions targeted: {}", self.returned + self.missing),
            format!("# of minions returned: {}", self.returned),
            format!("# of minions that did not return: {}", self.missing),
            format!("# of minions with errors: {}", self.failed.len()),
        ];
        let named = [
            ("Minions not connected", &self.not_connected),
            ("Minions not responding", &self.not_responding),
            ("Minions with failures", &self.failed),
        ];
        for (label, minions) in named {
            if verbose && !minions.is_empty() {
                lines.push(format!("{label}: {}", minions.join(" ")));
            }
        }
        lines.push(RULE.into());
        lines.join("\n") + "\n"
    }
}

/// The return code of a return (`salt/cli/salt.py SaltCMD._get_retcode`): the `retcode` field, or the largest
/// of them if it is a map; a bare `False` counts as 1.
pub fn retcode_of(ret: &Value) -> i64 {
    match ret {
        Value::Bool(false) => 1,
        Value::Map(map) => match map.get("retcode") {
            Some(Value::Map(codes)) => {
                let codes = codes.iter().filter_map(|(_, code)| code.as_int());
                codes.max().unwrap_or(0)
            }
            Some(Value::Bool(code)) => i64::from(*code),
            Some(code) => code.as_int().unwrap_or(0),
            None => 0,
        },
        _ => 0,
    }
}

/// The block for minions whose return could not be parsed.
pub fn errors_summary(errors: &[(String, String)]) -> String {
    if errors.is_empty() {
        return String::new();
    }
    let rule = "-".repeat(27);
    let mut text = format!("\n\n{rule}\nErrors\n{rule}\n");
    for (minion, message) in errors {
        text.push_str(&format!(
            "Minion [{minion}] encountered exception '{message}'\n"
        ));
    }
    text
}

/// The output of `sys.doc` for `{minion: {function: text}}`: each function once, in order. Empty if no minion
/// returned any; with `--out`, stock prints each pair through nested instead.
pub fn docs(returns: &Map) -> String {
    let mut docs = BTreeMap::new();
    for (_, functions) in returns.iter() {
        let Value::Map(functions) = functions else {
            continue;
        };
        for (function, text) in functions.iter().filter(|(_, text)| text.truthy()) {
            docs.entry(python_str(function))
                .or_insert_with(|| python_str(text));
        }
    }
    docs.iter()
        .map(|(function, text)| format!("{function}:\n{text}\n\n"))
        .collect()
}

/// Number of minions that are named before the rest is only counted.
const NAMED: usize = 10;

/// Tells that a function, or what it called, was not run by the minion's own program (`legacy_salt`).
pub fn run_elsewhere(fun: &str, ret: &Map) -> Option<String> {
    let by = ret.str("legacy_salt")?;
    let python = ret.get("python").and_then(Value::as_array)?;
    Some(match python.iter().any(|name| name.as_str() == Some(fun)) {
        true => format!("{fun} was run by {by}"),
        false => format!("parts of {fun} were run by {by}"),
    })
}

/// The same of several minions.
pub fn run_elsewhere_on(what: &str, ids: &[String]) -> String {
    format!("{what} on {}", named(ids))
}

/// The first of some minions by name, and how many more there are.
fn named(ids: &[String]) -> String {
    let names = ids.iter().take(NAMED).map(String::as_str);
    let names = names.collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(NAMED) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}
