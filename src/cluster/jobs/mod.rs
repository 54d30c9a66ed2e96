//! Jobs of all masters: each tells the others, through a stream, what its own minions do, and which jobs it publishes.
//!
//! Each master's job log has everything. What another master has told carries its id in `__peer_id`, the field that Salt's
//! clusters use, so that it is not told again.

mod inbox;
mod known;
mod outbox;
mod recent;
pub mod record;

pub use inbox::Inbox;
pub use known::Known;
pub use outbox::{Outbox, records};
pub use recent::Recent;
