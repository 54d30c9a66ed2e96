//! halite: a Salt-compatible control plane.

pub mod target;
pub mod wire;
