//! Clients of a master on its own host.

pub mod fleet;
pub mod gather;
pub mod keys;
pub mod local;
pub mod runner;
pub mod swarm;
pub mod wheel;
