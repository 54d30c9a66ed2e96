//! The sysinspect protocol: a gateway for sysinspect minions, and a minion for sysinspect masters.

pub mod gateway;
pub mod minion;
pub mod target;
pub mod wire;
