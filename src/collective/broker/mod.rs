//! Connections to the brokers of a collective: NATS, and STOMP for older brokers.
//!
//! A connector has its own threads, reconnects forever and then subscribes again. Received messages go into a
//! bounded queue of at most 64 MiB; those that do not fit are dropped and counted, so a flood costs messages, not memory.

pub mod link;
mod nats;
mod stomp;

pub use crate::wire::Place;

use crate::wire::{AgentName, CallerId, Collective, Identity, Packet, Refused};
use crossbeam_channel::Sender;
use halite_config::{Broker, CollectiveGateway};
use halite_transport::bounded::ByteLen;
use halite_transport::held;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// The recipients of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// All nodes with an agent.
    Broadcast(Collective, AgentName),
    /// Each of these nodes.
    Nodes(Collective, Vec<Identity>),
    /// The sender of a request: its `reply-to`.
    Reply(String),
}

/// An event of a connector.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A message and its place; `None` for queues that do not report it.
    Packet(Option<Place>, Packet),
    /// Something that is not a packet was received.
    Refused(Refused),
    /// Connected to this server, with all subscriptions.
    Up(String),
    /// Not connected: why.
    Down(String),
}

impl ByteLen for Heard {
    fn byte_len(&self) -> usize {
        match self {
            Heard::Packet(_, packet) => {
                let texts = [&packet.sender, &packet.reply_to];
                let texts = texts.into_iter().flatten().map(String::len);
                packet.data.len() + texts.sum::<usize>()
            }
            // Short texts.
            Heard::Refused(_) | Heard::Up(_) | Heard::Down(_) => 0,
        }
    }
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The send queue is full.
    Full,
    /// The message is larger than the broker accepts; the limit in bytes.
    TooLarge(usize),
    /// Its `reply-to` is not a place for replies.
    Forbidden,
}

/// A connection to the brokers of a collective.
pub trait Connector: Send {
    /// Subscribes to a place, now and after each reconnection.
    fn subscribe(&self, place: &Place);

    /// Unsubscribes from it.
    fn unsubscribe(&self, place: &Place);

    /// Sends a message. For requests, sets `packet.reply_to` to the reply address of this process.
    ///
    /// # Errors
    /// It cannot be sent, now or ever; nothing was sent.
    fn publish(&self, to: &To, packet: Packet, request: bool, ttl: u32) -> Result<(), Unsent>;

    /// Received messages that were dropped because the queue was full.
    fn dropped(&self) -> u64;
}

/// Connects to the brokers of a collective as configured. Events go into `heard`; requests are sent as `caller`.
///
/// # Errors
/// With these settings there can never be a connection: which and why. An unavailable broker is not an error; it is
/// reported by [`Heard::Down`].
pub fn open(
    settings: &CollectiveGateway,
    caller: &CallerId,
    heard: Sender<Heard>,
) -> io::Result<Box<dyn Connector>> {
    match settings.broker {
        Broker::Nats => Ok(Box::new(nats::Nats::open(settings, caller, heard)?)),
        Broker::RabbitMq | Broker::ActiveMq => {
            Ok(Box::new(stomp::Stomp::open(settings, caller, heard)?))
        }
    }
}

/// Distinguishes connections of one process in their reply addresses.
fn next_sequence() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
