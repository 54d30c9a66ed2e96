//! Decoders of `halite-collective`.

// Callers of the rest are not here.
#![allow(dead_code, unused_imports)]

#[path = "../../../src/collective/filter/mod.rs"]
pub mod filter;
#[path = "../../../src/collective/ruby/mod.rs"]
pub mod ruby;
#[path = "../../../src/collective/rubyre/mod.rs"]
pub mod rubyre;
#[path = "../../../src/collective/security/mod.rs"]
pub mod security;
#[path = "../../../src/collective/stomp/mod.rs"]
pub mod stomp;
#[path = "../../../src/collective/wire/mod.rs"]
pub mod wire;
