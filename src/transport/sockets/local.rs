//! Sockets between the processes of a master, on socket files in `sock_dir`.

use super::{
    Context, Message, Result, bind_ipc, ipc_url, millis, next_messages, next_parts, send_moved,
    send_parts,
};
use crate::poll::Source;
use std::io;
use std::path::Path;
use std::time::Duration;

/// ROUTER: receives messages from any number of [`Dealer`]s and replies to each by its name.
pub struct Router(zmq::Socket);

impl Router {
    /// Creates a socket that is not bound yet. Its queues have no limit, and a name belongs to the peer that used it last.
    ///
    /// # Errors
    /// No sockets are left.
    pub fn new(context: &Context) -> Result<Router> {
        let socket = context.socket(zmq::ROUTER)?;
        socket.set_linger(1000)?;
        socket.set_router_handover(true)?;
        socket.set_router_mandatory(true)?;
        socket.set_sndhwm(0)?;
        Ok(Router(socket))
    }

    /// Binds a socket file that only the user of this process may connect to.
    ///
    /// # Errors
    /// The address cannot be bound; the message has the reason and a remedy.
    pub fn bind_ipc(&self, path: &Path) -> io::Result<()> {
        bind_ipc(&self.0, path)
    }

    /// For [`Poller`](crate::poll::Poller).
    pub fn source(&self) -> Source<'_> {
        Source::socket(&self.0)
    }

    /// The next message, if there is one: the name of its sender, then its parts. At most `most` + 1 of them are returned;
    /// the rest are dropped.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(&self, most: usize) -> Result<Option<Vec<Message>>> {
        next_messages(&self.0, most)
    }

    /// Sends the parts after the first to the peer that the first names, without blocking.
    ///
    /// # Errors
    /// There is no such peer, or it accepts nothing.
    pub fn send<P: AsRef<[u8]>>(&self, parts: &[P]) -> Result<()> {
        Ok(send_parts(&self.0, parts, zmq::DONTWAIT)?)
    }
}

/// DEALER: a peer of a [`Router`] under a name of its own.
pub struct Dealer(zmq::Socket);

impl Dealer {
    /// Connects to a socket file as `name`, now or when it appears.
    ///
    /// # Errors
    /// No sockets are left, or the name is invalid.
    pub fn connect(context: &Context, path: &Path, name: &str) -> Result<Dealer> {
        let socket = context.socket(zmq::DEALER)?;
        socket.set_identity(name.as_bytes())?;
        socket.set_linger(500)?;
        socket.set_reconnect_ivl(20)?;
        socket.set_reconnect_ivl_max(200)?;
        socket.connect(&ipc_url(path))?;
        Ok(Dealer(socket))
    }

    /// For [`Poller`](crate::poll::Poller).
    pub fn source(&self) -> Source<'_> {
        Source::socket(&self.0)
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(&self) -> Result<Option<Vec<Vec<u8>>>> {
        next_parts(&self.0)
    }

    /// Sends a message without blocking.
    ///
    /// # Errors
    /// The queue is full, because the router is not running.
    pub fn try_send<P: AsRef<[u8]>>(&self, parts: &[P]) -> Result<()> {
        Ok(send_parts(&self.0, parts, zmq::DONTWAIT)?)
    }

    /// Sends a message of `head` and then `bodies`, which are moved, not copied. Blocks while the queue is full.
    ///
    /// # Errors
    /// The socket failed.
    pub fn send_moved<P: AsRef<[u8]>>(
        &self,
        head: &[P],
        bodies: impl ExactSizeIterator<Item = Vec<u8>>,
    ) -> Result<()> {
        let mut left = bodies.len();
        let more = if left > 0 { zmq::SNDMORE } else { 0 };
        send_parts(&self.0, head, more)?;
        for body in bodies {
            left -= 1;
            let flags = if left > 0 { zmq::SNDMORE } else { 0 };
            send_moved(&self.0, body, flags)?;
        }
        Ok(())
    }
}

/// How a [`Push`] behaves while there is no [`Pull`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PushOptions {
    /// First and longest time between attempts to connect; `None` for libzmq's defaults.
    pub reconnect: Option<(Duration, Duration)>,
    /// How long to wait while the queue is full; `None` for no limit.
    pub send_timeout: Option<Duration>,
}

/// PUSH: sends messages to a [`Pull`].
pub struct Push(zmq::Socket);

impl Push {
    /// Connects to a socket file, now or when it appears.
    ///
    /// # Errors
    /// No sockets are left.
    pub fn connect(context: &Context, path: &Path, options: PushOptions) -> Result<Push> {
        let socket = context.socket(zmq::PUSH)?;
        socket.set_linger(1000)?;
        if let Some((first, longest)) = options.reconnect {
            socket.set_reconnect_ivl(millis(first))?;
            socket.set_reconnect_ivl_max(millis(longest))?;
        }
        if let Some(timeout) = options.send_timeout {
            socket.set_sndtimeo(millis(timeout))?;
        }
        socket.connect(&ipc_url(path))?;
        Ok(Push(socket))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The queue stayed full for the timeout.
    pub fn send<P: AsRef<[u8]>>(&self, parts: &[P]) -> Result<()> {
        Ok(send_parts(&self.0, parts, 0)?)
    }
}

/// PULL: receives messages from any number of [`Push`]es.
pub struct Pull(zmq::Socket);

impl Pull {
    /// Creates a socket that is not bound yet.
    ///
    /// # Errors
    /// No sockets are left.
    pub fn new(context: &Context) -> Result<Pull> {
        Ok(Pull(context.socket(zmq::PULL)?))
    }

    /// Binds a socket file that only the user of this process may connect to.
    ///
    /// # Errors
    /// The address cannot be bound; the message has the reason and a remedy.
    pub fn bind_ipc(&self, path: &Path) -> io::Result<()> {
        bind_ipc(&self.0, path)
    }

    /// For [`Poller`](crate::poll::Poller).
    pub fn source(&self) -> Source<'_> {
        Source::socket(&self.0)
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(&self) -> Result<Option<Vec<Vec<u8>>>> {
        next_parts(&self.0)
    }
}
