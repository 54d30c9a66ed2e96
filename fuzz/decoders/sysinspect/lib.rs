//! Decoders of `halite-sysinspect`.

// Callers of the rest are not here.
#![allow(dead_code, unused_imports)]

#[path = "../../../src/sysinspect/target.rs"]
pub mod target;
#[path = "../../../src/sysinspect/wire/mod.rs"]
pub mod wire;
