//! halite: a Salt-compatible control plane.

pub mod config;
pub mod wire;
