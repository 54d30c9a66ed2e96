//! What the outward half asks the loop to do.

use crate::gateway::clerk::Task;
pub(super) use crate::gateway::clock::Clock;
use crate::transport::collective::To;
use crate::wire::collective::Request;

/// Something to be done, in the order in which it was decided.
#[derive(Debug)]
pub(super) enum Act {
    /// Send a request of our own.
    Ask(To, Box<Request>),
    /// Give the clerk something to write.
    Write(Task),
}
