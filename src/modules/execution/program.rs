//! Running the programs that functions are about, as stock's `__salt__["cmd.run_all"]` with
//! `python_shell=False` and without its log.

use super::CallError;
use super::cmd::which;
use crate::execution::declare::Result;
use halite_sys::command::{Helper, LOCALE};
use std::time::Duration;

/// Longest run of a program whose function has no timeout of its own.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// What a program did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandOutput {
    /// Its process id.
    pub pid: u32,
    /// Exit code, or minus the signal.
    pub retcode: i64,
    /// Standard output without line ends at its end.
    pub stdout: String,
    /// Standard error without line ends at its end.
    pub stderr: String,
}

impl CommandOutput {
    /// Whether it ended with 0.
    pub fn ok(&self) -> bool {
        self.retcode == 0
    }
}

/// Runs a program with its arguments; the words are never read by a shell.
///
/// # Errors
/// `CommandExecutionError` when it is not there, cannot be started, or does not end within [`LONGEST`].
pub fn run<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Result<CommandOutput> {
    helper(Helper::new(argv))
}

/// As [`run`], with everything that a [`Helper`] can be told. Messages of programs are in English.
///
/// # Errors
/// As [`run`].
pub fn helper(mut helper: Helper) -> Result<CommandOutput> {
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
        .run(LONGEST)
        .map_err(|e| CallError::Command(e.to_string()))?;
    Ok(CommandOutput {
        pid: done.pid,
        retcode: done.code,
        stdout: text(&done.stdout),
        stderr: text(&done.stderr),
    })
}

fn text(octets: &[u8]) -> String {
    let text = String::from_utf8_lossy(octets);
    text.trim_end_matches(['\n', '\r']).to_owned()
}
