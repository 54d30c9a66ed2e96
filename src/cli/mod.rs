//! The command line tools.
//!
//! One file per command with its options; [`output`] shows results. Mains in `src/bin` only
//! call a `run` here and exit with what it returns.

mod common;
pub mod key;
pub mod master;
pub mod output;
pub mod run;
pub mod salt;
pub mod swarm;
