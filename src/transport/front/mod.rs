//! The master's request port: where requests come in and answers go out.
//!
//! The request server knows [`RequestFront`] alone. Another transport is another file here that implements it.

mod zeromq;

pub use zeromq::{ZeroMqFront, ZeroMqOptions};

use crate::poll::Source;
use crate::sockets::Message;
use std::io;

/// A request as it came in.
#[derive(Debug)]
pub struct Incoming {
    /// Where the answer goes: what [`RequestFront::answer`] takes. Only the front knows what it means.
    pub from: Vec<u8>,
    /// Network address of the peer, for limits and for the log; empty if it is not known.
    pub peer: String,
    /// What was asked.
    pub body: Message,
}

/// What [`RequestFront::receive`] found.
#[derive(Debug)]
pub enum Received {
    /// A request.
    Request(Incoming),
    /// Something that is no request; it was dropped.
    Malformed,
    /// Nothing waits.
    Nothing,
}

/// The side of a request port that the request server uses. Nothing here waits: the server polls [`source`], takes what
/// there is, a bounded number at a time, and comes back.
///
/// [`source`]: RequestFront::source
pub trait RequestFront {
    /// For [`Poller`](crate::poll::Poller): readable for as long as [`receive`](RequestFront::receive) would find something.
    fn source(&self) -> Source<'_>;

    /// The next message.
    ///
    /// # Errors
    /// The port is broken for good, which ends the role. What a single peer does is no error.
    fn receive(&mut self) -> io::Result<Received>;

    /// Answers the request that came `from` there.
    ///
    /// # Errors
    /// The peer is gone, or does not take it. The answer is lost; the peer asks again.
    fn answer(&mut self, from: &[u8], body: Message) -> io::Result<()>;
}
