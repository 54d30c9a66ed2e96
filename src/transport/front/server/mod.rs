//! A request port over TCP connections, with the protocol of a [`RequestCodec`].
//!
//! Our own code rather than libzmq's ROUTER socket, which needs 30 to 50 KiB for each connection, reads a message of many
//! frames without limit, and closes no connection on request. One epoll set; a turn reads once from each connection that is
//! ready, so none can hold up the others.

use super::codec::{ClientMessage, RequestCodec};
use super::{Incoming, Pressure, Received, RequestFront};
use crate::connections::Connections;
use crate::outbox::Outbox;
use crate::poll::Source;
use crate::sockets::{KeepAlive, Message};
use crate::stream::Stream;
use crate::tcp_acceptor::{HANDSHAKES, HEADERS, LISTENER, TcpAcceptor};
use crate::tls::{Accepted, ServerTls};
use halite_sys::log_limiter::LogLimiter;
use halite_wire::network::Network;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, sendmsg};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Read};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Begins lines of the log.
const SERVER: &str = "request server";
/// Bytes read from one connection at once.
const CHUNK: usize = 64 << 10;
/// Connections accepted per turn.
const ACCEPTS: usize = 256;
/// Ready connections read per turn.
const READY: usize = 256;
/// Time between checks of all connections.
const ROUND: Duration = Duration::from_secs(1);
/// Bytes of heartbeats and the like that are answered after one read.
const MAX_ANSWERS: usize = 4096;
/// Most bytes of replies that a peer leaves unread.
const MAX_UNREAD: usize = 256 << 20;
/// Most bytes sent to one peer before the others get their turn.
const TURN: usize = 1 << 20;
/// Connections that are closed at once when no descriptor is left for another.
const SHORTAGE: usize = 64;
/// Bytes of an incomplete message that a connection may hold when memory is short.
const MAX_INCOMPLETE: usize = 1 << 20;

/// Options of a [`RequestServer`].
#[derive(Clone, Copy, Debug)]
pub struct RequestOptions {
    /// Backlog of connections not yet accepted.
    pub backlog: i32,
    /// Largest message, in bytes; a larger one closes its connection.
    pub max_message: usize,
    /// Whether to listen on IPv6 as well.
    pub ipv6: bool,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// Most connections.
    pub most_connections: usize,
    /// Silence after which a peer is sent a heartbeat, if the protocol has one, and how long it may take to reply.
    pub heartbeat: Duration,
    /// How long a peer may send nothing of a message or handshake that it has begun, or read nothing of a reply.
    pub stalled: Duration,
}

/// Bytes for a peer.
enum Part {
    Bytes(Vec<u8>),
    Reply(Message),
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        match self {
            Part::Bytes(bytes) => bytes,
            Part::Reply(message) => message,
        }
    }
}

/// One connection.
struct Connection<C> {
    stream: Stream,
    peer: SocketAddr,
    codec: C,
    /// What the kernel did not accept yet.
    output: Outbox<(), Part>,
    /// When it last sent something, and when it was sent a heartbeat since.
    last_read: Instant,
    pinged: Option<Instant>,
    /// When the kernel last accepted bytes of `output`.
    last_written: Instant,
    /// Whether it waits until the kernel has room again.
    is_blocked: bool,
}

/// A request port.
pub struct RequestServer<C> {
    options: RequestOptions,
    epoll: Epoll,
    acceptor: TcpAcceptor,
    connections: HashMap<u64, Connection<C>>,
    /// Which of them to close first.
    crowd: Connections,
    next_token: u64,
    /// Messages read but not yet received by the server.
    waiting: VecDeque<Received>,
    chunk: Box<[u8]>,
    looked: Instant,
    /// Whether a connection could not be accepted since the last look.
    starved: bool,
    /// Most connections while the process is short of memory.
    held: Option<usize>,
    surplus: LogLimiter,
    hoarders: LogLimiter,
    refusals: LogLimiter,
}

impl<C: RequestCodec> RequestServer<C> {
    /// Binds `port` (0: any free port) on `interface`: an address, `*`, or the name of an interface.
    ///
    /// # Errors
    /// The address cannot be bound: which and why.
    pub fn bind(
        interface: &str,
        port: u16,
        options: &RequestOptions,
    ) -> io::Result<RequestServer<C>> {
        let RequestOptions {
            ipv6,
            backlog,
            keepalive,
            ..
        } = *options;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let place = (interface, port);
        let acceptor = TcpAcceptor::bind(SERVER, place, ipv6, backlog, keepalive, &epoll)?;
        Ok(RequestServer {
            options: *options,
            epoll,
            acceptor,
            connections: HashMap::new(),
            crowd: Connections::default(),
            next_token: LISTENER + 1,
            waiting: VecDeque::new(),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            looked: Instant::now(),
            starved: false,
            held: None,
            surplus: LogLimiter::default(),
            hoarders: LogLimiter::default(),
            refusals: LogLimiter::default(),
        })
    }

    /// From now on, connections have TLS.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub fn with_tls(mut self, tls: ServerTls) -> io::Result<RequestServer<C>> {
        self.acceptor
            .set_tls(tls, self.options.stalled, &self.epoll)?;
        Ok(self)
    }

    /// From now on, connections from `trusted` are those of load balancers, and must begin with the header of one
    /// ([`halite_wire::proxy`]).
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn with_balancers(mut self, trusted: Arc<[Network]>) -> io::Result<RequestServer<C>> {
        self.acceptor
            .set_balancers(trusted, self.options.stalled, &self.epoll)?;
        Ok(self)
    }

    /// The local address.
    ///
    /// # Errors
    /// That of `getsockname`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.acceptor.address()
    }

    /// Serves what is ready, without blocking.
    fn turn(&mut self) -> io::Result<()> {
        let mut ready = [EpollEvent::empty(); READY];
        let n = match self.epoll.wait(&mut ready, EpollTimeout::ZERO) {
            Ok(n) => n,
            Err(Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        let now = Instant::now();
        for event in ready.iter().take(n) {
            match event.data() {
                LISTENER => self.accept(now),
                HANDSHAKES | HEADERS => {
                    for accepted in self.acceptor.finished(now) {
                        self.admit(accepted, now);
                    }
                }
                token => self.serve(token, event.events(), now),
            }
        }
        Ok(())
    }

    fn accept(&mut self, now: Instant) {
        let mut tries = ACCEPTS;
        loop {
            match self.acceptor.next(&mut tries, now) {
                Ok(Some(accepted)) => self.admit(accepted, now),
                Ok(None) => return,
                Err(e) => {
                    log::debug!("a connection could not be accepted: {e}");
                    self.starved = true;
                    return self.acceptor.suspend(&self.epoll);
                }
            }
        }
    }

    fn admit(&mut self, accepted: Accepted, now: Instant) {
        let Accepted { stream, peer, .. } = accepted;
        let token = self.next_token;
        self.next_token += 1;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        if let Err(e) = self.epoll.add(&stream, event) {
            log::error!("{SERVER}: cannot serve {peer}: {e}");
            return;
        }
        let mut connection = Connection {
            stream,
            peer,
            codec: C::default(),
            output: Outbox::default(),
            last_read: now,
            pinged: None,
            last_written: now,
            is_blocked: false,
        };
        let hello = C::hello();
        if !hello.is_empty()
            && connection
                .send(&self.epoll, token, hello, None, now)
                .is_err()
        {
            return;
        }
        self.connections.insert(token, connection);
        self.crowd.opened(token, peer);
    }

    fn serve(&mut self, token: u64, flags: EpollFlags, now: Instant) {
        // One that was closed earlier in this turn is gone.
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        if flags.contains(EpollFlags::EPOLLOUT)
            && connection.flush(&self.epoll, token, now).is_err()
        {
            return self.close(token);
        }
        if !flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            return;
        }
        let n = match connection.stream.read(&mut self.chunk) {
            Ok(0) => return self.close(token),
            Ok(n) => n,
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return,
                _ => return self.close(token),
            },
        };
        connection.last_read = now;
        connection.pinged = None;
        let bytes = self.chunk.get(..n).unwrap_or_default();
        let (mut answers, mut messages) = (Vec::new(), 0);
        let waiting = &mut self.waiting;
        let peer = connection.peer;
        let decoded = connection
            .codec
            .decode(bytes, self.options.max_message, |message| match message {
                ClientMessage::Request { mark, body } => {
                    messages += 1;
                    waiting.push_back(Received::Request(Incoming {
                        from: [&token.to_be_bytes()[..], &mark].concat(),
                        peer: peer.ip().to_canonical().to_string(),
                        body: body.into(),
                    }));
                }
                ClientMessage::Malformed => {
                    messages += 1;
                    waiting.push_back(Received::Malformed);
                }
                // A few are enough for any number of heartbeats.
                ClientMessage::Answer(bytes) if answers.len() < MAX_ANSWERS => {
                    answers.extend_from_slice(&bytes);
                }
                ClientMessage::Answer(_) | ClientMessage::Other => {}
            });
        if messages > 0 {
            // Who has been silent matters only when there are many.
            let many = self.crowd.len() > self.limit() / 2;
            if many {
                self.crowd.heard(token);
            }
        }
        let refusal = match decoded {
            Err(e) => Some(e.to_string()),
            Ok(()) if messages > C::MAX_MESSAGES => Some("it does not wait for replies".to_owned()),
            Ok(()) => None,
        };
        if let Some(why) = refusal {
            if let Some(times) = self.refusals.tick(now) {
                log::warn!("{SERVER}: {peer} was cut off: {why} ({times} such connections)");
            }
            return self.close(token);
        }
        if !answers.is_empty()
            && let Some(connection) = self.connections.get_mut(&token)
            && connection
                .send(&self.epoll, token, answers, None, now)
                .is_err()
        {
            self.close(token);
        }
    }

    fn close(&mut self, token: u64) {
        self.connections.remove(&token);
        self.crowd.closed(token);
    }

    /// Most connections now.
    fn limit(&self) -> usize {
        let most = self.options.most_connections;
        self.held.map_or(most, |held| held.min(most))
    }

    /// Sends heartbeats, and closes connections that are late with something.
    fn check_all(&mut self, now: Instant) {
        let (heartbeat, stalled) = (self.options.heartbeat, self.options.stalled);
        let ping = C::ping();
        let mut late = Vec::new();
        for (token, connection) in &mut self.connections {
            let silence = now.duration_since(connection.last_read);
            let unwritten = !connection.output.is_empty()
                && now.duration_since(connection.last_written) >= stalled;
            let unanswered = connection
                .pinged
                .is_some_and(|pinged| now.duration_since(pinged) >= heartbeat);
            if unwritten || unanswered || (connection.codec.is_midway() && silence >= stalled) {
                late.push(*token);
            } else if silence >= heartbeat
                && connection.pinged.is_none()
                && let Some(ping) = &ping
            {
                connection.pinged = Some(now);
                if connection
                    .send(&self.epoll, *token, ping.clone(), None, now)
                    .is_err()
                {
                    late.push(*token);
                }
            }
        }
        for token in late {
            self.close(token);
        }
    }

    /// Closes the connection with the longest incomplete message, if that is long.
    fn close_hoarder(&mut self) -> bool {
        let held = |c: &Connection<C>| c.codec.held() + c.output.byte_len();
        let most = self.connections.iter().max_by_key(|(_, c)| held(c));
        let Some((token, hoarder)) = most.filter(|(_, c)| held(c) > MAX_INCOMPLETE) else {
            return false;
        };
        let (token, peer) = (*token, hoarder.peer);
        self.close(token);
        if let Some(count) = self.hoarders.tick(Instant::now()) {
            log::warn!(
                "memory is short: {count} connections were closed whose messages had no end, the last from {}",
                peer.ip()
            );
        }
        true
    }
}

impl<C> Connection<C> {
    /// Sends bytes and a reply after them, or keeps what the kernel does not accept now.
    fn send(
        &mut self,
        epoll: &Epoll,
        token: u64,
        start: Vec<u8>,
        reply: Option<Message>,
        now: Instant,
    ) -> io::Result<()> {
        let body = reply.as_deref().unwrap_or_default();
        let length = start.len() + body.len();
        let mut sent = 0;
        if self.output.is_empty() {
            // The common case without TLS: all at once, from where it is.
            if let Stream::Plain(tcp) = &self.stream {
                let slices = [IoSlice::new(&start), IoSlice::new(body)];
                let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
                sent = match sendmsg::<()>(tcp.as_raw_fd(), &slices, &[], flags, None) {
                    Ok(n) => n,
                    Err(Errno::EAGAIN | Errno::EINTR) => 0,
                    Err(e) => return Err(e.into()),
                };
                if sent == length {
                    return Ok(());
                }
            }
            self.last_written = now;
        }
        if self.output.byte_len() + length > MAX_UNREAD {
            return Err(io::Error::other("the peer does not read its replies"));
        }
        // A reply may be large: it is moved, not copied.
        self.output.push(Part::Bytes(start), ());
        if let Some(reply) = reply {
            self.output.push(Part::Reply(reply), ());
        }
        self.output.advance(sent, |()| ());
        self.flush(epoll, token, now)
    }

    fn flush(&mut self, epoll: &Epoll, token: u64, now: Instant) -> io::Result<()> {
        let mut share = TURN;
        while !self.output.is_empty() && share > 0 {
            match self.output.send_over(&mut self.stream, |()| ()) {
                Ok(n) => {
                    self.last_written = now;
                    share = share.saturating_sub(n);
                }
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => break,
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(e),
                },
            }
        }
        if self.output.is_empty() {
            // An idle connection needs no memory.
            self.output.shrink(true);
        }
        self.want_write(epoll, token, !self.output.is_empty())
    }

    fn want_write(&mut self, epoll: &Epoll, token: u64, on: bool) -> io::Result<()> {
        if on == self.is_blocked {
            return Ok(());
        }
        self.is_blocked = on;
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, on);
        Ok(epoll.modify(&self.stream, &mut EpollEvent::new(flags, token))?)
    }
}

impl<C: RequestCodec> RequestFront for RequestServer<C> {
    fn source(&self) -> Source<'_> {
        Source::fd(self.epoll.0.as_raw_fd())
    }

    fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn receive(&mut self) -> io::Result<Received> {
        if self.waiting.is_empty() {
            self.turn()?;
        }
        Ok(self.waiting.pop_front().unwrap_or(Received::Nothing))
    }

    fn answer(&mut self, from: &[u8], body: Message) -> io::Result<()> {
        let Some((token, mark)) = from.split_first_chunk() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let token = u64::from_be_bytes(*token);
        let Some(connection) = self.connections.get_mut(&token) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let start = C::reply_start(mark, body.len());
        let sent = connection.send(&self.epoll, token, start, Some(body), Instant::now());
        if sent.is_err() {
            self.close(token);
        }
        sent
    }

    fn tend(&mut self, memory: Pressure) -> io::Result<bool> {
        let now = Instant::now();
        self.acceptor.resume(now, &self.epoll);
        let open = self.crowd.len();
        self.held = (memory == Pressure::Scarce).then(|| self.held.unwrap_or(open));
        let most = if std::mem::take(&mut self.starved) {
            open.saturating_sub(SHORTAGE)
        } else {
            self.limit()
        };
        while self.crowd.len() > most {
            let Some((token, peer)) = self.crowd.take_surplus() else {
                break;
            };
            self.close(token);
            if let Some(count) = self.surplus.tick(now) {
                log::warn!(
                    "too many connections for requests ({open}): {count} silent ones were closed, the last from {}; if \
                     there are that many minions, raise max_open_files",
                    peer.ip()
                );
            }
        }
        if now.duration_since(self.looked) >= ROUND {
            self.looked = now;
            self.check_all(now);
            self.acceptor.tend(now)?;
        }
        Ok(memory != Pressure::None && self.close_hoarder())
    }
}

#[cfg(test)]
mod tests;
