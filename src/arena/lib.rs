//! ARENA: WASM modules on runtimes that are controlled over MQTT.
//!
//! [`gateway`] is the orchestrator, a role of the master; [`runtime`] is `halite-runtime`. Both exchange the messages
//! of [`wire`] over [`mqtt`].

pub mod choice;
pub mod gateway;
pub mod mqtt;
pub mod registry;
pub mod rest;
pub mod runner;
pub mod runtime;
pub mod wire;
