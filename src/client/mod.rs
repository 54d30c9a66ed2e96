//! Clients of a master on its own host.

pub mod gather;
pub mod keys;
pub mod local;
