//! What the outward half asks the loop to do.

use crate::broker::To;
use crate::wire::Request;
pub(super) use halite_gateway::clock::Clock;
use halite_gateway::writer::Task;

/// Something to be done, in the order in which it was decided.
#[derive(Debug)]
pub(super) enum Act {
    /// Send a request of our own.
    Ask(To, Box<Request>),
    /// Give the clerk something to write.
    Write(Task),
}
