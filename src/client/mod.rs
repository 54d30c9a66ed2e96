//! Clients of a master on its own host.

pub mod gather;
pub mod local;
pub mod swarm;
