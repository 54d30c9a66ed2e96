//! Clients of a master on its own host.

pub mod batch;
mod batch_record;
pub mod call;
pub mod command;
pub mod copy;
pub mod fleet;
pub mod gather;
pub mod keys;
pub mod listen;
pub mod local;
pub mod orchestrate;
pub mod python;
pub mod runner;
pub mod samples;
pub mod sls;
pub mod swarm;
pub mod wheel;
