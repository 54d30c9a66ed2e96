//! Decoders of `halite-arena`, and what runs its modules.

// Callers of the rest are not here.
#![allow(dead_code, unused_imports)]

#[path = "../../../src/arena/wire/mod.rs"]
pub mod wire;

/// The part of a runtime that modules reach.
#[path = "../../../src/arena/runtime"]
pub mod runtime {
    pub mod engine;
}
