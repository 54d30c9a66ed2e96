//! Actions of the outward half.

use crate::broker::To;
use crate::wire::Request;
pub(super) use halite_gateway::clock::Clock;
use halite_gateway::writer::Task;

/// An action, in the order decided.
#[derive(Debug)]
pub(super) enum Act {
    /// Send a request.
    Ask(To, Box<Request>),
    /// Write a return, grains or an event.
    Write(Task),
}
