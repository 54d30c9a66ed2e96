//! Operating system interfaces: roles, signals, shared memory, privileges.
//!
//! The only crate with `unsafe` code.

pub mod accounts;
pub mod allowance;
pub mod command;
pub mod crypt;
pub mod daemon;
pub mod debug_report;
pub mod environment;
pub mod excerpt;
pub mod exit;
pub mod fork;
pub mod held_path;
pub mod host;
pub mod localtime;
pub mod log_limiter;
pub mod logging;
pub mod memory;
pub mod name_lock;
pub mod net;
pub mod ownership;
pub mod pam;
pub mod process;
pub mod procs;
pub mod programs;
pub mod pseudo_terminal;
pub mod safe_open;
pub mod sandbox;
pub mod scoreboard;
pub mod service;
pub mod shared;
pub mod signals;
pub mod slots;
pub mod terminal;
pub mod thread_identity;
pub mod time;
