//! A non-blocking connection to a port of a master, over any transport. It does not reconnect.

use crate::framed::{self, Peer};
use crate::sockets::KeepAlive;
use crate::tls::ClientTls;
use crate::zmtp::{self, Event, SocketType};
use halite_wire::{Transport, tcp};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Where and how to connect.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    /// The protocol of the port.
    pub transport: Transport,
    /// Its address.
    pub address: SocketAddr,
    /// The name or address as the user wrote it.
    pub host: &'a str,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// TLS of a transport other than ZeroMQ.
    pub tls: Option<&'a ClientTls>,
}

/// A connection of a transport other than ZeroMQ.
pub struct Framed {
    connection: framed::Connection,
    socket: SocketType,
    /// Whether [`Event::Ready`] was reported.
    is_told: bool,
}

/// The connection.
pub enum Connection {
    /// ZeroMQ.
    Zmtp(zmtp::Connection),
    /// Another transport.
    Framed(Box<Framed>),
}

impl Connection {
    /// Starts connecting. Call [`Connection::step`] whenever the descriptor becomes readable or writable.
    ///
    /// # Errors
    /// No descriptors are left, there is no route to the address, or a file of TLS cannot be used.
    pub fn open(server: &Server, socket: SocketType) -> io::Result<Connection> {
        Ok(match server.transport {
            Transport::ZeroMq => {
                let new = zmtp::Connection::open(server.address, socket)?;
                server.keepalive.apply_to(new.stream())?;
                Connection::Zmtp(new)
            }
            Transport::Tcp | Transport::Ws => {
                let path = match (server.transport, socket) {
                    (Transport::Ws, SocketType::Req) => Some("/"),
                    (Transport::Ws, SocketType::Sub) => Some("/ws"),
                    (Transport::ZeroMq | Transport::Tcp, _) => None,
                };
                let connection = framed::Connection::open(&Peer {
                    address: server.address,
                    host: server.host,
                    path,
                    keepalive: server.keepalive,
                    tls: server.tls,
                })?;
                Connection::Framed(Box::new(Framed {
                    connection,
                    socket,
                    is_told: false,
                }))
            }
        })
    }

    /// Whether what was sent may have reached the server.
    pub fn is_ready(&self) -> bool {
        match self {
            Connection::Zmtp(connection) => connection.is_ready(),
            Connection::Framed(framed) => framed.connection.is_ready(),
        }
    }

    /// Whether [`Connection::step`] has something to do when the descriptor becomes writable.
    pub fn wants_write(&self) -> bool {
        match self {
            Connection::Zmtp(connection) => connection.wants_write(),
            Connection::Framed(framed) => framed.connection.wants_write(),
        }
    }

    /// Sends a request, now or when the connection is ready.
    ///
    /// # Errors
    /// The connection failed.
    pub fn request(&mut self, body: &[u8]) -> io::Result<()> {
        match self {
            Connection::Zmtp(connection) => connection.request(body),
            Connection::Framed(framed) => framed.connection.request(body),
        }
    }

    /// Says who subscribes, where a transport wants to know.
    ///
    /// # Errors
    /// The connection failed.
    pub fn claim(&mut self, envelope: &[u8]) -> io::Result<()> {
        match self {
            Connection::Zmtp(_) => Ok(()),
            Connection::Framed(framed) => framed.connection.claim(envelope),
        }
    }

    /// Requests an [`Event::Pong`]. Transports without one report two when they are ready.
    ///
    /// # Errors
    /// The connection failed.
    pub fn ping(&mut self) -> io::Result<()> {
        match self {
            Connection::Zmtp(connection) => connection.ping(),
            Connection::Framed(_) => Ok(()),
        }
    }

    /// Writes and reads a limited number of bytes without blocking; calls `each` for every event. Returns whether there may be
    /// more.
    ///
    /// # Errors
    /// The connection has ended, or the peer violates the protocol.
    pub fn step(&mut self, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
        let framed = match self {
            Connection::Zmtp(connection) => return connection.step(each),
            Connection::Framed(framed) => framed,
        };
        let mut bodies = Vec::new();
        let more = framed.connection.step(&mut |body| {
            let part = match framed.socket {
                SocketType::Req => 0..body.len(),
                SocketType::Sub => tcp::unwrapped(body),
            };
            bodies.push(body.get(part).unwrap_or_default().to_vec());
        });
        if framed.connection.is_ready() && !framed.is_told {
            framed.is_told = true;
            let events = [Event::Ready, Event::Pong, Event::Pong];
            events.into_iter().for_each(&mut *each);
        }
        for body in bodies {
            each(Event::Message(vec![body]));
        }
        more
    }

    /// As [`Connection::step`], until the kernel would block, as edge-triggered polls need.
    ///
    /// # Errors
    /// As [`Connection::step`].
    pub fn progress(&mut self, each: &mut dyn FnMut(Event)) -> io::Result<()> {
        while self.step(each)? {}
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Zmtp(connection) => connection.as_fd(),
            Connection::Framed(framed) => framed.connection.as_fd(),
        }
    }
}
