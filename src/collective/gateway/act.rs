//! The actions of the outward half.

use crate::broker::To;
use crate::wire::Request;
pub(super) use halite_gateway::clock::Clock;
use halite_gateway::writer::Task;

/// Something to do, in the order of the decisions.
#[derive(Debug)]
pub(super) enum Act {
    /// Send a request of our own.
    Ask(To, Box<Request>),
    /// Write a return, grains or an event.
    Write(Task),
}
