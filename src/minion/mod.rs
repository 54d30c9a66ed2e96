//! halite's own small minion: execution modules and grains.
//!
//! Everything here runs inside a job child process or `halite-call`; nothing
//! talks to the master.

pub mod grains;
pub mod modules;
mod net;
mod shlex;

/// The Salt release whose behaviour the minion follows, and reports as `saltversion`.
pub const COMPAT_VERSION: &str = "3008.3";

/// The shell that commands run in: `SHELL`, else `/bin/sh` (`salt/grains/extra.py shell`).
pub fn default_shell() -> String {
    std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())
}
