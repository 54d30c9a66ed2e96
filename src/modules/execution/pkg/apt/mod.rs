//! Debian packages: `apt-get`, `apt-cache`, `dpkg`.

mod dpkg;
mod info;
mod install;
mod keys;
mod list;
mod modify;
mod repos;
mod selections;
mod sources;
mod table;

use crate::execution::declare::Result;
use crate::execution::program::CommandOutput;
use crate::execution::{Call, command_helpers, systemd};
use halite_sys::command::Helper;
use std::time::Duration;

pub use repos::expand_repo;
pub use table::MODULE;

/// Environment variables that keep dpkg and its tools from asking questions.
const NONINTERACTIVE_ENV: [(&str, &str); 4] = [
    ("APT_LISTBUGS_FRONTEND", "none"),
    ("APT_LISTCHANGES_FRONTEND", "none"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("UCF_FORCE_CONFFOLD", "1"),
];

/// How often to retry while a lock is held.
const MAX_ATTEMPTS: u32 = 10;

/// A program that asks no questions.
fn quiet<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Helper {
    let mut helper = Helper::new(argv);
    let pairs = NONINTERACTIVE_ENV
        .iter()
        .map(|(k, v)| ((*k).to_owned(), Some((*v).to_owned())));
    helper.env = pairs.collect();
    helper
}

/// Runs a program of apt; waits while another process holds the lock.
fn run(call: &mut Call<'_>, helper: Helper) -> Result<CommandOutput> {
    let mut ran = command_helpers::run_all_with(call, helper.clone())?;
    let mut count = 0;
    while ran.stderr.contains("Could not get lock") && count < MAX_ATTEMPTS {
        count += 1;
        std::thread::sleep(Duration::from_secs(1 << count));
        ran = command_helpers::run_all_with(call, helper.clone())?;
    }
    Ok(ran)
}

/// Like [`run`], for a read-only program.
fn run_quiet<T: Into<String>>(
    call: &mut Call<'_>,
    argv: impl IntoIterator<Item = T>,
) -> Result<CommandOutput> {
    run(call, quiet(argv))
}

/// Like [`run`], for a program that changes packages: in its own systemd scope if possible, because a package may
/// restart the minion.
fn change(call: &mut Call<'_>, argv: Vec<String>) -> Result<CommandOutput> {
    let mut words = Vec::new();
    if systemd::scope(call) {
        words = [
            "systemd-run",
            "--scope",
            "--description",
            "\"salt.loaded.int.module.aptpkg\"",
        ]
        .map(str::to_owned)
        .to_vec();
    }
    words.extend(argv);
    let ran = run(call, quiet(words));
    list::forget();
    ran
}
