//! halite: a Salt-compatible control plane.

pub mod cli;
pub mod wire;
