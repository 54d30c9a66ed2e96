//! The server side of the event bus: two Unix stream sockets, one for senders to fire events,
//! one for listeners, which receive all of them (reference `salt-local.md` 1; Salt's `EventPublisher`).
//!
//! One thread and one epoll set. Events are read from any number of senders in either
//! framing, checked, encoded once as a shared frame and queued for every listener. A slow
//! listener loses only its own events and never delays others.

mod counters;
mod handle;
mod listen;
mod repeats;
mod server;
mod sink;
mod source;

pub use counters::BusCounters;
pub use handle::{BusHandle, FireError};
pub use listen::BindError;
pub use server::{BusServer, Tap};

use halite_ipc::{Framing, StampStyle};

/// Options of a bus.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// Framing sent to listeners. Senders may use either. Prefixed is for clients of 3006.26 and
    /// later 3006, bare for those of every 3007 and 3008; the bus cannot detect which they are.
    pub framing: Framing,
    /// How `_stamp` is written in events of the bus itself and of [`BusHandle::fire`].
    pub stamp: StampStyle,
    /// Most events queued for one listener; 0: any number. When a queue is nearly full, senders wait a moment for the listener.
    pub queue_frames: usize,
    /// Most bytes queued for one listener. The frames are shared between listeners.
    pub queue_bytes: usize,
    /// Largest event, in bytes of packed data (`max_event_size`); larger ones are dropped.
    pub max_event_size: usize,
    /// Whether a listener that lost events is told by `halite/bus/dropped` `{"count": n}`.
    pub notify_dropped: bool,
    /// Mode of the socket that listeners connect to.
    pub pub_mode: u32,
    /// Mode of the socket that senders connect to.
    pub pull_mode: u32,
    /// Backlog of connections not yet accepted, per socket.
    pub backlog: i32,
    /// Limit on senders and listeners together; more are refused.
    pub max_connections: usize,
    /// Whether of the events with this tag only the first one is delivered. The last 65536 such tags are remembered.
    pub once: Option<fn(&str) -> bool>,
}

impl Default for BusOptions {
    fn default() -> Self {
        BusOptions {
            framing: Framing::Prefixed,
            stamp: StampStyle::Naive,
            queue_frames: 32768,
            queue_bytes: 32 << 20,
            max_event_size: 1 << 20,
            notify_dropped: true,
            pub_mode: 0o660,
            pull_mode: 0o600,
            backlog: 1024,
            max_connections: 4096,
            once: None,
        }
    }
}
