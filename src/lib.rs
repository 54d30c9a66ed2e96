//! halite: a Salt-compatible control plane.
//!
//! Modules stand in layers; an arrow between them only points to one above it in this list
//! (`tests/layers.rs` holds that).

pub mod sys;
pub mod wire;
pub mod crypto;
pub mod config;
pub mod target;
pub mod store;
pub mod transport;
pub mod master;
pub mod minion;
pub mod client;
pub mod cli;
