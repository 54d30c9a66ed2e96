//! The master's request port.
//!
//! The master uses only [`RequestFront`]. To add a transport on TCP connections, implement [`RequestCodec`].

mod codec;
mod server;

pub use codec::{ClientMessage, RequestCodec, Tcp, Ws, Zmtp};
pub(crate) use codec::{WsInput, WsServer};
pub use server::{RequestOptions, RequestServer};

use crate::poll::Source;
use crate::sockets::Message;
use std::io;

/// A request as received.
#[derive(Debug)]
pub struct Incoming {
    /// Address for the reply, to pass to [`RequestFront::answer`]; opaque to the caller.
    pub from: Vec<u8>,
    /// Network address of the peer, for limits and for the log; empty if unknown.
    pub peer: String,
    /// The message.
    pub body: Message,
}

/// The result of [`RequestFront::receive`].
#[derive(Debug)]
pub enum Received {
    /// A request.
    Request(Incoming),
    /// An invalid message; it was dropped.
    Malformed,
    /// No message is waiting.
    Nothing,
}

/// Whether the process has memory to spare, for [`RequestFront::tend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// It has.
    None,
    /// It needs more and more: a peer that sends a message without an end loses its connection.
    Growing,
    /// Nothing is left: the number of connections does not grow any more, either.
    Scarce,
}

/// A request port as the request server uses it. No method blocks: the server polls [`source`], receives a bounded number
/// of messages, and polls again.
///
/// [`source`]: RequestFront::source
pub trait RequestFront {
    /// For [`Poller`](crate::poll::Poller): readable as long as [`receive`](RequestFront::receive) would find something.
    fn source(&self) -> Source<'_>;

    /// Whether [`receive`](RequestFront::receive) would find something although [`source`] is not readable.
    ///
    /// [`source`]: RequestFront::source
    fn has_waiting(&self) -> bool {
        false
    }

    /// The next message.
    ///
    /// # Errors
    /// The port has failed permanently, and the role must end. Faults of a single peer are not errors.
    fn receive(&mut self) -> io::Result<Received>;

    /// Replies to the request that came from `from`.
    ///
    /// # Errors
    /// The peer is gone or does not accept it. The reply is lost; the peer will ask again.
    fn answer(&mut self, from: &[u8], body: Message) -> io::Result<()>;

    /// Closes connections that hold too much; returns whether there were any. Call a few times a second.
    ///
    /// # Errors
    /// The port has failed permanently, as for [`receive`](RequestFront::receive).
    fn tend(&mut self, _memory: Pressure) -> io::Result<bool> {
        Ok(false)
    }
}
