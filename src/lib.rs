//! halite: a Salt-compatible control plane.

pub mod crypto;
pub mod wire;
pub mod sys;
pub mod master;
