//! The command line tools.
//!
//! One file per command with its options; [`output`] shows results. Mains in `src/bin` only
//! call a `run` here and exit with what it returns.

pub mod call;
mod common;
pub mod master;
pub mod minion;
pub mod output;
pub mod salt;
