//! halite: a Salt-compatible control plane.

pub mod minion;
pub mod wire;
