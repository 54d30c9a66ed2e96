//! halite: a Salt-compatible control plane.

pub mod transport;
pub mod wire;
