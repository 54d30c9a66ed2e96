//! halite: a Salt-compatible control plane.
//!
//! Modules stand in layers; an arrow between them only points to one above it in this list
//! (`tests/layers.rs` holds that).

pub mod cli;
pub mod client;
pub mod config;
pub mod crypto;
pub mod engine;
pub mod gateway;
pub mod master;
pub mod minion;
pub mod render;
pub mod runtime;
pub mod schedule;
pub mod store;
pub mod syndic;
pub mod sys;
pub mod target;
pub mod transport;
pub mod wire;
