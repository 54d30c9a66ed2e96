//! Runs users' Python code in a process of its own.
//!
//! halite has no Python inside. A [`JobHost`] starts `python3` with a small program of ours (`host/`) at the first
//! request, and ends it when the last clone is dropped. Both sides speak frames ([`frame`]) of Python's `marshal` format
//! ([`marshal`]) over a socket pair; calls go both ways and nest. Only this side decodes data it does not trust.

pub mod check;
pub mod events;
pub mod files;
pub mod frame;
mod host;
mod job;
pub mod marshal;
mod process;
pub mod questions;
mod sources;

pub use files::PythonFile;
pub use host::{HostError, Nothing, PythonError, Service};
pub use job::{JobHost, Scene};
