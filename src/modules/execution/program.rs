//! Runs programs for execution functions, like stock's `__salt__["cmd.run_all"]` with `python_shell=False` but
//! without its log messages.

use super::CallError;
use super::cmd::which;
use crate::execution::declare::Result;
use halite_sys::command::{Helper, LOCALE};
use std::time::Duration;

/// Timeout of programs whose function has none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3600);

/// The output of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandOutput {
    /// Its process id.
    pub pid: u32,
    /// Exit code, or the negated signal number.
    pub retcode: i64,
    /// Standard output without trailing newlines.
    pub stdout: String,
    /// Standard error without trailing newlines.
    pub stderr: String,
}

impl CommandOutput {
    /// Whether it exited with 0.
    pub fn ok(&self) -> bool {
        self.retcode == 0
    }
}

/// Runs a program with arguments, never through a shell.
///
/// # Errors
/// `CommandExecutionError` if it does not exist, cannot be started, or does not end within [`DEFAULT_TIMEOUT`].
pub fn run<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Result<CommandOutput> {
    run_with(Helper::new(argv))
}

/// Like [`run`], with a [`Helper`]'s options. Programs print English messages.
///
/// # Errors
/// As [`run`].
pub fn run_with(mut helper: Helper) -> Result<CommandOutput> {
    let program = helper.argv.first().cloned().unwrap_or_default();
    if which(&program).is_none() {
        return Err(CallError::Command(format!("{program}: no such program")));
    }
    let locale = LOCALE
        .iter()
        .map(|name| ((*name).to_owned(), Some("C".to_owned())));
    let changed = halite_sys::environment::changed();
    helper.env.splice(0..0, changed.into_iter().chain(locale));
    let done = helper
        .run(DEFAULT_TIMEOUT)
        .map_err(|e| CallError::Command(e.to_string()))?;
    Ok(CommandOutput {
        pid: done.pid,
        retcode: done.code,
        stdout: text(&done.stdout),
        stderr: text(&done.stderr),
    })
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches(['\n', '\r']).to_owned()
}
