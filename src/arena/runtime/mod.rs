//! A runtime of ARENA: executes WASM modules that an orchestrator requests over MQTT. The command is `halite-runtime`.
//!
//! `session` implements the protocol with the orchestrator, `board` connects modules with the broker and with each
//! other, `launcher` fetches and starts them in an `engine`; `serve` has the loop.

mod board;
pub mod engine;
mod files;
mod identity;
mod launcher;
mod serve;
mod session;
mod terminal;

pub use serve::{module_limits, run};
pub use terminal::{exit_status, try_out};
