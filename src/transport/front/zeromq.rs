//! Requests over ZeroMQ: a ROUTER socket for peers with REQ sockets, such as Salt's minions and clients.

use super::connections::Connections;
use super::{Incoming, Pressure, Received, RequestFront};
use crate::poll::Source;
use crate::sockets::{
    Context, KeepAlive, Message, Result, bind, millis, monitor, next_messages, send_moved,
    send_parts,
};
use halite_sys::log_limiter::LogLimiter;
use halite_sys::net::bytes_received;
use nix::sys::socket::{Shutdown, SockaddrStorage, getpeername, shutdown};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Parts of a request.
const PARTS: usize = 3;

/// Options of a [`ZeroMqFront`].
#[derive(Clone, Copy, Debug)]
pub struct ZeroMqOptions {
    /// Backlog of connections not yet accepted.
    pub backlog: i32,
    /// Largest message; a larger one closes its connection.
    pub max_message: i64,
    /// Whether IPv6 addresses may be used.
    pub ipv6: bool,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// Most connections.
    pub most_connections: usize,
    /// How often libzmq asks a silent peer for a sign of life, and how long it waits for that. Peers' libraries answer by
    /// themselves.
    pub heartbeat: Duration,
}

/// Connections that are closed at once when no descriptor is left for another.
const SHORTAGE: usize = 64;
/// Bytes that a connection may have sent of a message without an end when memory is short: it may be a large one.
const UNFINISHED: u64 = 1 << 20;
/// Events of connections that are looked at in a turn.
const EVENTS: usize = 4096;

/// A ROUTER socket. libzmq closes no connection on request, so what it reports of connections is recorded here, and the
/// descriptors of those that are too many are shut down.
pub struct ZeroMqFront {
    socket: zmq::Socket,
    monitor: zmq::Socket,
    connections: Connections,
    most: usize,
    /// Most connections while the process is short of memory.
    held: Option<usize>,
    surplus: LogLimiter,
    hoarders: LogLimiter,
}

impl ZeroMqFront {
    /// Creates a socket that is not bound yet.
    ///
    /// # Errors
    /// No sockets are left, or an option is invalid.
    pub fn new(context: &Context, options: &ZeroMqOptions) -> Result<ZeroMqFront> {
        let socket = context.socket(zmq::ROUTER)?;
        socket.set_linger(1000)?;
        socket.set_router_handover(true)?;
        // Without this, undeliverable messages are dropped silently.
        socket.set_router_mandatory(true)?;
        socket.set_backlog(options.backlog)?;
        socket.set_maxmsgsize(options.max_message)?;
        // A client has one request in flight; a few more are tolerated, thousands are an attack.
        socket.set_rcvhwm(16)?;
        socket.set_ipv6(options.ipv6)?;
        options.keepalive.apply(&socket)?;
        socket.set_heartbeat_ivl(millis(options.heartbeat))?;
        socket.set_heartbeat_timeout(millis(options.heartbeat))?;
        use zmq::SocketEvent::{ACCEPT_FAILED, ACCEPTED, CLOSED, DISCONNECTED};
        let events = [ACCEPTED, ACCEPT_FAILED, CLOSED, DISCONNECTED];
        let events = events.into_iter().fold(0, |all, one| all | one as i32);
        let monitor = monitor(context, &socket, events)?;
        Ok(ZeroMqFront {
            socket,
            monitor,
            connections: Connections::default(),
            most: options.most_connections,
            held: None,
            surplus: LogLimiter::default(),
            hoarders: LogLimiter::default(),
        })
    }

    /// Binds.
    ///
    /// # Errors
    /// The address cannot be bound; the message has the reason and a remedy.
    pub fn bind(&self, url: &str) -> io::Result<()> {
        bind(&self.socket, url)
    }

    /// Most connections now.
    fn limit(&self) -> usize {
        self.held.map_or(self.most, |held| held.min(self.most))
    }

    /// Reads what libzmq reports of connections; whether one could not be accepted.
    fn read_events(&mut self) -> io::Result<bool> {
        let mut failed = false;
        for _ in 0..EVENTS {
            let Some(parts) = next_messages(&self.monitor, 2).map_err(broken)? else {
                break;
            };
            // `zmq_socket_monitor(3)`: a 16 bit event and a 32 bit value, which is a descriptor or an error.
            let Some(&[a, b, c, d, e, f]) = parts.first().map(|part| &**part) else {
                continue;
            };
            let event = i32::from(u16::from_ne_bytes([a, b]));
            let fd = RawFd::from_ne_bytes([c, d, e, f]);
            if event == zmq::SocketEvent::ACCEPTED as i32 {
                if let Some(peer) = peer(fd) {
                    self.connections.opened(fd, peer);
                }
            } else if event == zmq::SocketEvent::ACCEPT_FAILED as i32 {
                failed = true;
            } else {
                self.connections.closed(fd);
            }
        }
        Ok(failed)
    }
}

fn peer(fd: RawFd) -> Option<SocketAddr> {
    let address = getpeername::<SockaddrStorage>(fd).ok()?;
    let v4 = address
        .as_sockaddr_in()
        .map(|a| SocketAddr::V4((*a).into()));
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|a| SocketAddr::V6((*a).into()))
    })
}

fn broken(e: crate::sockets::Error) -> io::Error {
    io::Error::other(format!("ZeroMQ: {e}"))
}

impl RequestFront for ZeroMqFront {
    fn source(&self) -> Source<'_> {
        Source::socket(&self.socket)
    }

    fn receive(&mut self) -> io::Result<Received> {
        let Some(parts) = next_messages(&self.socket, PARTS).map_err(broken)? else {
            return Ok(Received::Nothing);
        };
        // A request is [identity][empty][body]; anything else did not come from a REQ socket.
        Ok(match <[Message; PARTS]>::try_from(parts) {
            Ok([identity, empty, mut body]) if empty.is_empty() => {
                if let Some(fd) = body.descriptor() {
                    // Who has been silent matters only when there are many.
                    let many = self.connections.len() > self.limit() / 2;
                    self.connections.heard(fd, body.len(), many);
                }
                Received::Request(Incoming {
                    from: identity.to_vec(),
                    peer: body.peer_address().to_owned(),
                    body,
                })
            }
            _ => Received::Malformed,
        })
    }

    fn answer(&mut self, from: &[u8], body: Message) -> io::Result<()> {
        send_parts(&self.socket, &[from, b""], zmq::DONTWAIT | zmq::SNDMORE)
            .and_then(|()| send_moved(&self.socket, body.into_inner(), zmq::DONTWAIT))
            .map_err(io::Error::from)
    }

    fn tend(&mut self, memory: Pressure) -> io::Result<bool> {
        let failed = self.read_events()?;
        let open = self.connections.len();
        let scarce = memory == Pressure::Scarce;
        self.held = scarce.then(|| self.held.unwrap_or(open));
        let most = if failed {
            open.saturating_sub(SHORTAGE)
        } else {
            self.limit()
        };
        while self.connections.len() > most {
            let Some((fd, peer)) = self.connections.take_surplus() else {
                break;
            };
            close(fd, peer);
            if let Some(count) = self.surplus.tick(Instant::now()) {
                log::warn!(
                    "too many connections for requests ({open}): {count} silent ones were closed, the last from {}; if \
                     there are that many minions, raise max_open_files",
                    peer.ip()
                );
            }
        }
        let hoarder = match memory {
            Pressure::None => None,
            Pressure::Growing | Pressure::Scarce => {
                self.connections.take_hoarder(bytes_received, UNFINISHED)
            }
        };
        if let Some((fd, peer)) = hoarder {
            close(fd, peer);
            if let Some(count) = self.hoarders.tick(Instant::now()) {
                log::warn!(
                    "memory is short: {count} connections were closed whose messages had no end, the last from {}",
                    peer.ip()
                );
            }
        }
        Ok(hoarder.is_some())
    }
}

/// Shuts a connection down, unless the descriptor belongs to another one by now.
fn close(fd: RawFd, of: SocketAddr) {
    if peer(fd) == Some(of) {
        // It may have ended by itself.
        let _ = shutdown(fd, Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Poller;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn front(context: &Context) -> (ZeroMqFront, String) {
        front_with(context, Duration::from_secs(3600))
    }

    fn front_with(context: &Context, heartbeat: Duration) -> (ZeroMqFront, String) {
        let options = ZeroMqOptions {
            backlog: 10,
            max_message: 1000,
            ipv6: false,
            keepalive: KeepAlive::REQUEST_SERVER,
            most_connections: 8,
            heartbeat,
        };
        let front = ZeroMqFront::new(context, &options).unwrap();
        front.bind("tcp://127.0.0.1:*").unwrap();
        let url = front.socket.get_last_endpoint().unwrap().unwrap();
        (front, url)
    }

    fn next(front: &mut ZeroMqFront) -> Received {
        let mut poller = Poller::new();
        poller.add(front.source());
        poller.wait(Some(Duration::from_secs(60))).unwrap();
        front.receive().unwrap()
    }

    #[test]
    fn a_request_is_answered_to_the_one_who_asked() {
        let context = Context::new();
        let (mut front, url) = front(&context);
        assert!(matches!(front.receive().unwrap(), Received::Nothing));
        let clients = ["one", "two"].map(|question| {
            let client = client(&context, &url);
            client.send(question, 0).unwrap();
            client
        });
        for _ in &clients {
            let Received::Request(request) = next(&mut front) else {
                panic!("no request");
            };
            assert_eq!(request.peer, "127.0.0.1");
            let answer = [b"answer to ", &*request.body].concat();
            front.answer(&request.from, answer.into()).unwrap();
        }
        let answers = clients.map(|client| client.recv_bytes(0).unwrap());
        assert_eq!(answers, [b"answer to one", b"answer to two"]);
        let gone = front.answer(b"nobody", b"answer".to_vec().into());
        assert!(gone.is_err());
    }

    /// A connection that has said what libzmq wants to hear at first, and nothing since.
    fn silent(url: &str) -> TcpStream {
        let mut stream = TcpStream::connect(url.trim_start_matches("tcp://")).unwrap();
        let mut greeting = [0; 64];
        greeting[0] = 0xff;
        greeting[9..16].copy_from_slice(b"\x7f\x03\x01NULL");
        stream.write_all(&greeting).unwrap();
        stream
            .write_all(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03REQ")
            .unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }

    fn is_closed(stream: &mut TcpStream) -> bool {
        match stream.read(&mut [0; 1024]) {
            Ok(n) => n == 0,
            Err(e) => e.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// The REQ socket of libzmq, which stock peers have.
    fn client(context: &Context, url: &str) -> zmq::Socket {
        let client = context.socket(zmq::REQ).unwrap();
        client.set_linger(0).unwrap();
        client.connect(url).unwrap();
        client
    }

    fn served(front: &mut ZeroMqFront, client: &zmq::Socket) {
        client.send(&b"question"[..], 0).unwrap();
        let Received::Request(request) = next(front) else {
            panic!("no request");
        };
        front
            .answer(&request.from, b"answer".to_vec().into())
            .unwrap();
        assert_eq!(client.recv_bytes(0).unwrap(), b"answer");
    }

    #[test]
    fn a_flood_of_connections_displaces_itself() {
        let context = Context::new();
        let (mut front, url) = front(&context);
        let asking = client(&context, &url);
        served(&mut front, &asking);
        let mut streams: Vec<TcpStream> = Vec::new();
        for _ in 0..20 {
            streams.push(silent(&url));
            while front.connections.len() < 8.min(streams.len() + 1) {
                front.tend(Pressure::None).unwrap();
            }
            served(&mut front, &asking);
        }
        for stream in &mut streams[..13] {
            while !is_closed(stream) {
                front.tend(Pressure::None).unwrap();
            }
        }
        assert!(front.connections.len() <= 8);
        served(&mut front, &asking);
        // Short of memory, the number does not grow, and stays.
        streams.drain(13..17);
        while front.connections.len() > 4 {
            front.tend(Pressure::None).unwrap();
        }
        front.tend(Pressure::Scarce).unwrap();
        let _more = silent(&url);
        while !is_closed(&mut streams[13]) {
            front.tend(Pressure::Scarce).unwrap();
        }
        served(&mut front, &asking);
    }

    #[test]
    fn a_message_without_an_end_costs_its_connection() {
        let context = Context::new();
        let (mut front, url) = front(&context);
        let asking = client(&context, &url);
        served(&mut front, &asking);
        let mut flood = silent(&url);
        flood.set_nonblocking(false).unwrap();
        // A frame of one octet that another one follows, again and again; libzmq reads all of it.
        flood
            .write_all(&b"\x01\x01x".repeat(UNFINISHED as usize / 2))
            .unwrap();
        flood.set_nonblocking(true).unwrap();
        while !is_closed(&mut flood) {
            front.tend(Pressure::Growing).unwrap();
        }
        served(&mut front, &asking);
        assert!(!front.tend(Pressure::Growing).unwrap());
    }

    #[test]
    fn a_peer_without_a_sign_of_life_is_left() {
        let context = Context::new();
        let (mut front, url) = front_with(&context, Duration::from_millis(400));
        let asking = client(&context, &url);
        let mut stream = silent(&url);
        while !is_closed(&mut stream) {
            std::thread::yield_now();
        }
        served(&mut front, &asking);
    }

    #[test]
    fn what_no_client_sends_is_malformed() {
        let context = Context::new();
        let (mut front, url) = front(&context);
        let dealer = context.socket(zmq::DEALER).unwrap();
        dealer.connect(&url).unwrap();
        for parts in [
            &["body"][..],
            &["", "body", "more"],
            &["", "body", "more", "and more", "and more"],
            &["not empty", "body"],
        ] {
            dealer.send_multipart(parts, 0).unwrap();
            assert!(matches!(next(&mut front), Received::Malformed), "{parts:?}");
        }
        dealer.send_multipart(["", "body"], 0).unwrap();
        assert!(matches!(next(&mut front), Received::Request(_)));
    }
}
