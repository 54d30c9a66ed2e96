//! Sockets between the processes of a master, on files below `sock_dir`.

use super::{
    Context, Message, Result, bind_ipc, ipc_url, millis, next_messages, next_parts, send_moved,
    send_parts,
};
use crate::poll::Source;
use std::io;
use std::path::Path;
use std::time::Duration;

/// ROUTER: takes messages from any number of [`Dealer`]s and answers each by its name.
pub struct Router(zmq::Socket);

impl Router {
    /// A socket that is not bound yet. Its queues have no limit, and a name belongs to the peer that used it last.
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

    /// Binds a socket file that only the account of this process may connect to.
    ///
    /// # Errors
    /// Why the address cannot be bound, with a remedy.
    pub fn bind_ipc(&self, path: &Path) -> io::Result<()> {
        bind_ipc(&self.0, path)
    }

    /// For [`Poller`](crate::poll::Poller).
    pub fn source(&self) -> Source<'_> {
        Source::socket(&self.0)
    }

    /// The next message, if there is one: the name of its sender, then its parts. Of these, one more than `most` at most:
    /// the rest is read and dropped.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn receive(&self, most: usize) -> Result<Option<Vec<Message>>> {
        next_messages(&self.0, most)
    }

    /// Sends the parts behind the first to the peer that the first names, without waiting.
    ///
    /// # Errors
    /// There is no such peer, or it takes nothing.
    pub fn send<P: AsRef<[u8]>>(&self, parts: &[P]) -> Result<()> {
        Ok(send_parts(&self.0, parts, zmq::DONTWAIT)?)
    }
}

/// DEALER: a peer of a [`Router`] under a name of its own.
pub struct Dealer(zmq::Socket);

impl Dealer {
    /// Connects to a socket file as `name`, now or whenever it appears.
    ///
    /// # Errors
    /// No sockets are left, or the name is none.
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
    /// The socket is broken.
    pub fn receive(&self) -> Result<Option<Vec<Vec<u8>>>> {
        next_parts(&self.0)
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    /// The queue is full: the router is away.
    pub fn try_send<P: AsRef<[u8]>>(&self, parts: &[P]) -> Result<()> {
        Ok(send_parts(&self.0, parts, zmq::DONTWAIT)?)
    }

    /// Sends a message of `head` and then `bodies`, which are moved and not copied. It waits while the queue is full.
    ///
    /// # Errors
    /// The socket is broken.
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

/// How a [`Push`] behaves while nobody pulls.
#[derive(Clone, Copy, Debug, Default)]
pub struct PushOptions {
    /// Time between two tries to connect: the first, and the longest; libzmq's own without.
    pub reconnect: Option<(Duration, Duration)>,
    /// For how long a full queue is waited for; for ever without.
    pub send_timeout: Option<Duration>,
}

/// PUSH: gives messages to a [`Pull`].
pub struct Push(zmq::Socket);

impl Push {
    /// Connects to a socket file, now or whenever it appears.
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
    /// Nobody has taken it in time.
    pub fn send<P: AsRef<[u8]>>(&self, parts: &[P]) -> Result<()> {
        Ok(send_parts(&self.0, parts, 0)?)
    }
}

/// PULL: takes messages from any number of [`Push`]es.
pub struct Pull(zmq::Socket);

impl Pull {
    /// A socket that is not bound yet.
    ///
    /// # Errors
    /// No sockets are left.
    pub fn new(context: &Context) -> Result<Pull> {
        Ok(Pull(context.socket(zmq::PULL)?))
    }

    /// Binds a socket file that only the account of this process may connect to.
    ///
    /// # Errors
    /// Why the address cannot be bound, with a remedy.
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
    /// The socket is broken.
    pub fn receive(&self) -> Result<Option<Vec<Vec<u8>>>> {
        next_parts(&self.0)
    }
}
