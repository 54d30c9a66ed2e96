//! halite: a Salt-compatible control plane.

pub mod wire;
pub mod sys;
pub mod master;
