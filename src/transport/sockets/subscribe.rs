//! SUB: the client of a publish port.

use super::{Context, KeepAlive, Result, again, millis, monitor, monitor_address, next_parts};
use crate::poll::{Poller, Source};
use std::time::{Duration, Instant};

/// Options of a [`SubSocket`].
#[derive(Clone, Debug)]
pub struct SubOptions {
    /// The identity that the publisher sees.
    pub identity: Vec<u8>,
    /// Largest publication; a larger one closes the connection.
    pub max_message: i64,
    /// Time before the first attempt to reconnect.
    pub reconnect: Duration,
    /// Longest time between attempts.
    pub reconnect_max: Duration,
    /// Whether IPv6 addresses may be used.
    pub ipv6: bool,
    /// Milliseconds between two heartbeats, and until a connection without a reply is closed.
    pub heartbeat: Option<(i32, i32)>,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// Prefixes of the publications to receive; an empty prefix matches all.
    pub topics: Vec<Vec<u8>>,
}

/// A SUB socket.
pub struct SubSocket(zmq::Socket);

impl SubSocket {
    /// Creates a socket that is not connected yet.
    ///
    /// # Errors
    /// No sockets are left, or an option is invalid.
    pub fn new(context: &Context, options: &SubOptions) -> Result<SubSocket> {
        Ok(SubSocket(again(|| open(context, options))?))
    }

    /// Connects, now or when a server listens there.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn connect(&self, url: &str) -> Result<()> {
        Ok(again(|| self.0.connect(url))?)
    }

    /// Connects and waits until the handshake is complete, at most for `patience` or until `stopped`, which is checked when
    /// `stop` becomes readable. Returns whether the handshake is complete.
    ///
    /// # Errors
    /// The address is invalid, or no sockets are left.
    pub fn connect_and_wait(
        &self,
        context: &Context,
        url: &str,
        patience: Duration,
        stop: Source<'_>,
        stopped: impl Fn() -> bool,
    ) -> Result<bool> {
        let socket = &self.0;
        let handshake = zmq::SocketEvent::HANDSHAKE_SUCCEEDED as i32;
        let events = monitor(context, socket, handshake)?;
        again(|| socket.connect(url))?;
        let end = Instant::now() + patience;
        let mut connected = false;
        while !connected && !stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let mut poller = Poller::new();
            let monitor = poller.add(Source::socket(&events));
            poller.add(stop);
            poller.wait(Some(left + Duration::from_millis(1)))?;
            connected = poller.is_readable(monitor);
        }
        // Replaces the monitor by one for no events: unread events would block ZeroMQ's thread.
        again(|| socket.monitor(&monitor_address(), 0))?;
        Ok(connected)
    }

    /// For [`Poller`].
    pub fn source(&self) -> Source<'_> {
        Source::socket(&self.0)
    }

    /// The next publication, if there is one.
    ///
    /// # Errors
    /// The socket failed.
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
