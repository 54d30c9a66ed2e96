//! REQ: the client of a request port (`salt/transport/zeromq.py AsyncReqMessageClient`).

use super::{Context, KeepAlive, Result, again};
use crate::poll::{Polled, Poller, Source};
use std::io;
use std::time::{Duration, Instant};

/// Options of a [`ReqSocket`].
#[derive(Clone, Copy, Debug)]
pub struct ReqOptions {
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// Whether IPv6 addresses may be used.
    pub ipv6: bool,
    /// Largest reply; a larger one closes the connection. `None` for no limit.
    pub max_answer: Option<i64>,
}

/// A REQ socket. It cannot be used for anything else while a reply is due; to stop waiting, drop it.
pub struct ReqSocket(zmq::Socket);

impl ReqSocket {
    /// Connects to `url`, now or when a server listens there.
    ///
    /// # Errors
    /// The address is invalid, or no sockets are left.
    pub fn connect(context: &Context, url: &str, options: &ReqOptions) -> Result<ReqSocket> {
        Ok(ReqSocket(again(|| open(context, url, options))?))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The socket failed.
    pub fn send(&self, body: &[u8]) -> Result<()> {
        Ok(again(|| self.0.send(body, 0))?)
    }

    /// For [`Poller`]: readable when the reply has arrived.
    pub fn source(&self) -> Source<'_> {
        Source::socket(&self.0)
    }

    /// Receives the reply; blocks until it arrives.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(&self) -> Result<Vec<u8>> {
        Ok(again(|| self.0.recv_bytes(0))?)
    }
}

fn open(context: &Context, url: &str, options: &ReqOptions) -> zmq::Result<zmq::Socket> {
    let socket = context.socket(zmq::REQ)?;
    socket.set_linger(0)?;
    socket.set_reconnect_ivl_max(5000)?;
    if let Some(most) = options.max_answer {
        socket.set_maxmsgsize(most)?;
    }
    options.keepalive.apply(&socket)?;
    socket.set_ipv6(options.ipv6)?;
    socket.connect(url)?;
    Ok(socket)
}

/// A request client that cannot be interrupted: one request, one reply, a new connection after each failure.
pub struct Requester {
    context: Context,
    url: String,
    socket: Option<ReqSocket>,
    options: ReqOptions,
}

impl Requester {
    /// A client of `url`; it connects when first used.
    pub fn new(context: &Context, url: &str, keepalive: KeepAlive) -> Requester {
        Requester {
            context: context.clone(),
            url: url.to_owned(),
            socket: None,
            options: ReqOptions {
                keepalive,
                ipv6: url.starts_with("tcp://["),
                max_answer: None,
            },
        }
    }

    /// Sends `body` and waits for the reply; `Ok(None)` if `timeout` passes first.
    pub fn ask(&mut self, body: &[u8], timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        // The socket is kept only if the reply arrives.
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => ReqSocket::connect(&self.context, &self.url, &self.options)
                .map_err(|e| io::Error::other(format!("cannot connect to {}: {e}", self.url)))?,
        };
        socket.send(body)?;
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut poller = Poller::new();
            poller.add(socket.source());
            match poller.wait(Some(left))? {
                Polled::TimedOut => return Ok(None),
                Polled::Ready => break,
                Polled::Interrupted => {}
            }
        }
        let answer = socket.receive()?;
        self.socket = Some(socket);
        Ok(Some(answer))
    }
}
