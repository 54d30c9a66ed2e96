//! A minion's side of the protocol with a master: sign-in, requests under a session key, publications.
//!
//! The minion, the syndic, `halite-call` and the runtime for WASM modules use it. The modules that decide
//! ([`signin`], [`master_search`], [`request`], [`publication`]) do no IO.

pub mod channel;
pub mod credentials;
mod fatal;
mod identity;
pub mod interrupt;
pub mod keys;
pub mod link;
pub mod load;
pub mod master_search;
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

pub use fatal::FatalError;
pub use identity::Identity;

/// Stack size of our threads, in bytes.
pub const STACK: usize = 512 << 10;
