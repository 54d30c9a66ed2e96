//! A connection of a simulated minion, over one of the transports.

use super::SwarmOptions;
use halite_transport::framed::{self, Peer};
use halite_transport::sockets::KeepAlive;
use halite_transport::zmtp::{self, Event, SocketType};
use halite_wire::{Transport, tcp};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// The connection; see [`zmtp::Connection`].
pub enum Connection {
    Zmtp(zmtp::Connection),
    /// Whether it was reported as ready.
    Framed(Box<framed::Connection>, bool),
}

impl Connection {
    /// Starts connecting. `claim` says who the minion is, where a subscriber does.
    pub fn open(
        options: &SwarmOptions,
        address: SocketAddr,
        socket: SocketType,
        claim: impl FnOnce() -> Vec<u8>,
    ) -> io::Result<Connection> {
        let path = match (options.transport, socket) {
            (Transport::ZeroMq, _) => {
                return Ok(Connection::Zmtp(zmtp::Connection::open(address, socket)?));
            }
            (Transport::Tcp, _) => None,
            (Transport::Ws, SocketType::Req) => Some("/"),
            (Transport::Ws, SocketType::Sub) => Some("/ws"),
        };
        let host = address.ip().to_string();
        let mut new = framed::Connection::open(&Peer {
            address,
            host: &host,
            path,
            keepalive: KeepAlive::REQUEST_SERVER,
            tls: options.tls.as_ref(),
        })?;
        if socket == SocketType::Sub {
            new.claim(&claim())?;
        }
        Ok(Connection::Framed(Box::new(new), false))
    }

    /// Sends a request, now or when the connection is ready.
    pub fn request(&mut self, body: &[u8]) -> io::Result<()> {
        match self {
            Connection::Zmtp(connection) => connection.request(body),
            Connection::Framed(connection, _) => connection.request(body),
        }
    }

    /// Requests an [`Event::Pong`]. Transports without one report two when they are ready.
    pub fn ping(&mut self) -> io::Result<()> {
        match self {
            Connection::Zmtp(connection) => connection.ping(),
            Connection::Framed(..) => Ok(()),
        }
    }

    /// Writes and reads as much as possible without blocking.
    pub fn progress(&mut self, each: &mut dyn FnMut(Event)) -> io::Result<()> {
        let (connection, told) = match self {
            Connection::Zmtp(connection) => return connection.progress(each),
            Connection::Framed(connection, told) => (connection, told),
        };
        loop {
            let mut bodies = Vec::new();
            let more = connection.step(&mut |body| bodies.push(body.to_vec()));
            if connection.is_ready() && !*told {
                *told = true;
                [Event::Ready, Event::Pong, Event::Pong]
                    .into_iter()
                    .for_each(&mut *each);
            }
            for body in bodies {
                each(Event::Message(vec![body]));
            }
            if !more? {
                return Ok(());
            }
        }
    }
}

/// The message in the body of a publication.
pub fn publication(transport: Transport, body: Vec<u8>) -> Vec<u8> {
    match transport {
        Transport::ZeroMq => body,
        Transport::Tcp | Transport::Ws => body[tcp::unwrapped(&body)].to_vec(),
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Zmtp(connection) => connection.as_fd(),
            Connection::Framed(connection, _) => connection.as_fd(),
        }
    }
}
