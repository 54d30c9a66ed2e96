//! halite's own small minion: execution modules and grains.
//!
//! Everything here runs inside a job child process or `halite-call`; nothing
//! talks to the network on its own account.

pub mod modules;

/// The Salt release whose behaviour the minion follows, and reports as `saltversion`.
pub const COMPAT_VERSION: &str = "3008.3";
