//! The command that checks a file before it is put in place (`check_cmd`).

use super::{Ended, Step};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::os::{self, TEMPFILE_PREFIX};
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A command that checks a file before it is put in place.
#[derive(Clone, Debug, Default)]
pub(super) struct Check {
    /// The command, to which the file's name is added; empty for none.
    pub command: String,
    /// Where the file to check is; empty for the usual directory.
    pub dir: String,
    /// The end of its name.
    pub suffix: String,
    /// Whether a failed check still tells what would have changed.
    pub keeps_changes: bool,
}

impl Check {
    pub fn of(s: &State<'_, '_>) -> Check {
        let text = |name: &str| s.text(name).unwrap_or_default();
        Check {
            command: text("check_cmd"),
            dir: text("tmp_dir"),
            suffix: text("tmp_ext"),
            keeps_changes: false,
        }
    }
}

/// Runs a command that checks a file.
pub(super) fn run_check(
    s: &mut State<'_, '_>,
    command: &str,
    file: &str,
    changes: Option<Value>,
) -> Step<()> {
    let mut options = map! {};
    if let Some(shell) = s.ctx().grains.get("shell") {
        options.set("shell", shell.clone());
    }
    let ran = s.salt_with(
        "cmd.run_all",
        vec![format!("{command} {file}").into()],
        options,
    )?;
    let ran = ran.into_map().unwrap_or_default();
    if ran.int("retcode") == Some(0) {
        return Ok(());
    }
    let mut text = "check_cmd execution failed".to_owned();
    for key in ["stdout", "stderr"] {
        let part = ran.get(key).map(python::str).unwrap_or_default();
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    let outcome = StateOutcome::bad(text).with("skip_watch", true);
    Err(outcome
        .changes(changes.unwrap_or_else(|| Map::new().into()))
        .into())
}

/// A new file for a trial, removed on drop.
pub(super) struct Scratch(pub String);

impl Scratch {
    pub fn new(dir: &Path, suffix: &str) -> std::result::Result<Scratch, Ended> {
        let path = dir.join(format!("{TEMPFILE_PREFIX}{}{suffix}", os::random_name()));
        let shown = path.to_string_lossy().into_owned();
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| os::fault(&e, &shown))?;
        Ok(Scratch(shown))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
