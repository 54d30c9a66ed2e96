//! SUB: the client of a publish port.

use super::{Context, KeepAlive, Result, again, millis, next_parts};
use crate::poll::{Poller, Source};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Options of a [`SubSocket`].
#[derive(Clone, Debug)]
pub struct SubOptions {
    /// The name that the publisher sees.
    pub identity: Vec<u8>,
    /// Larger publications end the connection.
    pub max_message: i64,
    /// Time before the first try to connect again.
    pub reconnect: Duration,
    /// Longest time between two tries.
    pub reconnect_max: Duration,
    /// Whether IPv6 addresses may be used.
    pub ipv6: bool,
    /// Milliseconds between two heartbeats, and until a connection without an answer is over.
    pub heartbeat: Option<(i32, i32)>,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// What publications begin with that are wanted; an empty one means all.
    pub topics: Vec<Vec<u8>>,
}

/// A SUB socket.
pub struct SubSocket(zmq::Socket);

impl SubSocket {
    /// A socket that is not connected yet.
    ///
    /// # Errors
    /// No sockets are left, or an option is none.
    pub fn new(context: &Context, options: &SubOptions) -> Result<SubSocket> {
        Ok(SubSocket(again(|| open(context, options))?))
    }

    /// Connects, now or whenever somebody listens there.
    ///
    /// # Errors
    /// The address is none.
    pub fn connect(&self, url: &str) -> Result<()> {
        Ok(again(|| self.0.connect(url))?)
    }

    /// Connects and waits until the publisher has taken the connection, for `patience`, or until `stopped`, for which
    /// `stop` wakes; whether it has.
    ///
    /// # Errors
    /// The address is none, or no sockets are left.
    pub fn connect_and_wait(
        &self,
        context: &Context,
        url: &str,
        patience: Duration,
        stop: Source<'_>,
        stopped: impl Fn() -> bool,
    ) -> Result<bool> {
        // Names of one context.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = || {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            format!("inproc://subscription-{n}")
        };
        let socket = &self.0;
        let events = context.socket(zmq::PAIR)?;
        let place = name();
        again(|| socket.monitor(&place, zmq::SocketEvent::HANDSHAKE_SUCCEEDED as i32))?;
        again(|| events.connect(&place))?;
        again(|| socket.connect(url))?;
        let end = Instant::now() + patience;
        let mut greeted = false;
        while !greeted && !stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let mut poller = Poller::new();
            let told = poller.add(Source::socket(&events));
            poller.add(stop);
            poller.wait(Some(left + Duration::from_millis(1)))?;
            greeted = poller.is_readable(told);
        }
        // One who listens to nothing takes the place of the first: events that nobody takes would stop ZeroMQ's thread.
        again(|| socket.monitor(&name(), 0))?;
        Ok(greeted)
    }

    /// For [`Poller`].
    pub fn source(&self) -> Source<'_> {
        Source::socket(&self.0)
    }

    /// The next publication, if there is one.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn receive(&self) -> Result<Option<Vec<Vec<u8>>>> {
        next_parts(&self.0)
    }
}

fn open(context: &Context, options: &SubOptions) -> zmq::Result<zmq::Socket> {
    let socket = context.socket(zmq::SUB)?;
    socket.set_identity(&options.identity)?;
    socket.set_linger(0)?;
    socket.set_maxmsgsize(options.max_message)?;
    socket.set_reconnect_ivl(millis(options.reconnect).max(1))?;
    socket.set_reconnect_ivl_max(millis(options.reconnect_max))?;
    socket.set_ipv6(options.ipv6)?;
    if let Some((interval, timeout)) = options.heartbeat {
        socket.set_heartbeat_ivl(interval)?;
        socket.set_heartbeat_timeout(timeout)?;
    }
    options.keepalive.apply(&socket)?;
    for topic in &options.topics {
        socket.set_subscribe(topic)?;
    }
    Ok(socket)
}
