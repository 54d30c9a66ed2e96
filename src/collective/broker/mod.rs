//! Connections to the brokers of a collective: NATS, and STOMP for the older ones.
//!
//! A connector runs threads of its own, reconnects for ever and subscribes anew each time. What it hears goes into a
//! bounded queue, of 64 MiB at most; what does not fit is dropped and counted, so that a flood costs messages, not memory.

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

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// All nodes with an agent.
    Broadcast(Collective, AgentName),
    /// Each of these nodes.
    Nodes(Collective, Vec<Identity>),
    /// Whoever asked: the `reply-to` of its request.
    Reply(String),
}

/// What a connector tells.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A message, and where it came in; of queues that do not tell it, `None`.
    Packet(Option<Place>, Packet),
    /// Something came that is no packet.
    Refused(Refused),
    /// There is a connection, with all subscriptions: to this server.
    Up(String),
    /// There is none any more: why.
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
            // A few words.
            Heard::Refused(_) | Heard::Up(_) | Heard::Down(_) => 0,
        }
    }
}

/// Why a message did not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// Too much waits to be sent already.
    Full,
    /// The message is larger than the broker takes, in bytes.
    TooLarge(usize),
    /// The `reply-to` that it would go to is no place for answers.
    Forbidden,
}

/// A connection to a collective's brokers.
pub trait Connector: Send {
    /// Hears what comes in there, now and after each reconnection.
    fn subscribe(&self, place: &Place);

    /// Hears it no longer.
    fn unsubscribe(&self, place: &Place);

    /// Sends a message. For requests, `packet.reply_to` is set to where this process hears replies.
    ///
    /// # Errors
    /// It cannot be sent, now or ever; nothing has been sent then.
    fn publish(&self, to: &To, packet: Packet, request: bool, ttl: u32) -> Result<(), Unsent>;

    /// Messages that were heard but had no room in the queue.
    fn dropped(&self) -> u64;
}

/// Connects to a collective's brokers as settings say. What is heard goes into `heard`; `caller` sends the requests.
///
/// # Errors
/// Settings are such that no connection can ever come about: which and why. Brokers that are away are none; they
/// are told of by [`Heard::Down`].
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

/// Tells connections of one process apart in their reply addresses.
fn next_sequence() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
