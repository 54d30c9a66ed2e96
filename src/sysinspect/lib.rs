//! The sysinspect protocol: the gateway to its minions, and a minion for its masters.

pub mod gateway;
pub mod minion;
pub mod target;
pub mod wire;
