//! A minion's side of the conversation with a master: signing in, requests under a session key, publications.
//!
//! The minion, the syndic, `halite-call` and the runtime for WASM modules speak to masters through this crate. The decisions
//! ([`signin`], [`course`], [`request`], [`publication`]) do no IO.

mod alarm;
pub mod channel;
pub mod course;
mod error;
mod identity;
pub mod interrupt;
pub mod keys;
pub mod link;
pub mod pillar_request;
pub mod publication;
pub mod queue;
pub mod rekey;
pub mod reply;
pub mod request;
pub mod requester;
pub mod session;
pub mod signin;
pub mod subscriber;

#[cfg(test)]
mod testing;

pub use alarm::Alarm;
pub use error::MinionError;
pub use identity::Me;

/// Stack of our threads.
pub const STACK: usize = 512 << 10;
