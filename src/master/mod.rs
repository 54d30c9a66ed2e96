//! The master: supervisor and role processes.

pub mod dispatch;
