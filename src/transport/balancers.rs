//! Connections of load balancers (`proxy_protocol`): each begins with a header that says whose it is
//! ([`halite_wire::proxy`]).
//!
//! The header is read to its last byte and no further, so what follows is still in the socket, for TLS or for the
//! codec. As long as it is not complete, the connection counts among those of its balancer here, and nowhere else.

use crate::connections::Connections;
use halite_sys::log_limiter::LogLimiter;
use halite_wire::network::{Network, any_contains};
use halite_wire::proxy::{HeaderDecoder, MAX_HEADER, Origin, ProxyError};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections without a complete header, per port. A balancer sends it at once.
const MAX_PENDING: usize = 1024;
/// Connections read per turn.
const READY: usize = 256;

/// A TCP connection, non-blocking.
pub(crate) struct Arrival {
    pub tcp: TcpStream,
    /// Whose it is.
    pub peer: SocketAddr,
    /// The balancer's end of it, if a header has named the peer.
    pub via: Option<SocketAddr>,
}

/// A connection whose header is not complete.
struct Pending {
    tcp: TcpStream,
    balancer: SocketAddr,
    since: Instant,
    header: HeaderDecoder,
}

/// What became of a step.
enum Step {
    Wait,
    Done(Origin),
    HungUp,
    Refused(ProxyError),
}

/// The load balancers of a port, and their connections without a complete header.
pub(crate) struct Balancers {
    /// Begins log lines.
    server: &'static str,
    trusted: Arc<[Network]>,
    /// How long a header may take.
    limit: Duration,
    epoll: Epoll,
    pending: HashMap<u64, Pending>,
    crowd: Connections,
    next_token: u64,
    refusals: LogLimiter,
    surplus: LogLimiter,
}

impl Balancers {
    /// Connections from `trusted` must have a header, within `limit`.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(
        server: &'static str,
        trusted: Arc<[Network]>,
        limit: Duration,
    ) -> io::Result<Balancers> {
        Ok(Balancers {
            server,
            trusted,
            limit,
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            pending: HashMap::new(),
            crowd: Connections::default(),
            next_token: 0,
            refusals: LogLimiter::default(),
            surplus: LogLimiter::default(),
        })
    }

    /// Readable when [`Balancers::finished`] has something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Whether connections from this address must have a header.
    pub fn include(&self, peer: SocketAddr) -> bool {
        any_contains(&self.trusted, peer.ip())
    }

    /// Takes a connection of a balancer; returns it at once if its header is there already, as is usual.
    pub fn begin(&mut self, tcp: TcpStream, balancer: SocketAddr, now: Instant) -> Option<Arrival> {
        let token = self.next_token;
        self.next_token += 1;
        let pending = Pending {
            tcp,
            balancer,
            since: now,
            header: HeaderDecoder::default(),
        };
        self.step(token, pending, now)
    }

    /// The connections whose header is complete now.
    pub fn finished(&mut self, now: Instant) -> Vec<Arrival> {
        let mut ready = [EpollEvent::empty(); READY];
        let n = match self.epoll.wait(&mut ready, EpollTimeout::ZERO) {
            Ok(n) => n,
            Err(Errno::EINTR) => 0,
            Err(e) => {
                log::error!("{}: PROXY headers cannot be read: {e}", self.server);
                0
            }
        };
        let mut done = Vec::new();
        for token in ready.iter().take(n).map(EpollEvent::data) {
            self.crowd.closed(token);
            if let Some(pending) = self.pending.remove(&token) {
                // The port adds it to its own set, or this one again.
                let _ = self.epoll.delete(&pending.tcp);
                done.extend(self.step(token, pending, now));
            }
        }
        done
    }

    /// Reads what is there of a header.
    fn step(&mut self, token: u64, mut pending: Pending, now: Instant) -> Option<Arrival> {
        let balancer = pending.balancer;
        match pending.read() {
            Step::Done(origin) => return Some(arrival(pending.tcp, balancer, origin)),
            Step::Wait => self.wait(token, pending, now),
            // A check whether the port is open sends nothing.
            Step::HungUp => {}
            Step::Refused(why) => self.refuse(balancer, &why.to_string(), now),
        }
        None
    }

    fn wait(&mut self, token: u64, pending: Pending, now: Instant) {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        if let Err(e) = self.epoll.add(&pending.tcp, event) {
            return log::error!("{}: cannot serve {}: {e}", self.server, pending.balancer);
        }
        self.crowd.opened(token, pending.balancer);
        self.pending.insert(token, pending);
        while self.crowd.len() > MAX_PENDING
            && let Some((surplus, balancer)) = self.crowd.take_surplus()
        {
            self.pending.remove(&surplus);
            if let Some(times) = self.surplus.tick(now) {
                log::warn!(
                    "{}: {times} connections were closed: too many without a PROXY header, most of them from {}",
                    self.server,
                    balancer.ip()
                );
            }
        }
    }

    /// Closes all connections without a complete header, when descriptors are short: those of minions matter more.
    pub fn shed(&mut self) {
        self.pending.clear();
        self.crowd = Connections::default();
    }

    /// Closes connections whose header is late. Call it about once a second.
    pub fn expire(&mut self, now: Instant) {
        let limit = self.limit;
        let is_late = |pending: &Pending| now.duration_since(pending.since) >= limit;
        let late: Vec<(u64, SocketAddr)> = self
            .pending
            .iter()
            .filter(|(_, pending)| is_late(pending))
            .map(|(token, pending)| (*token, pending.balancer))
            .collect();
        for (token, balancer) in late {
            self.pending.remove(&token);
            self.crowd.closed(token);
            self.refuse(balancer, "it sent no complete PROXY header", now);
        }
    }

    fn refuse(&mut self, balancer: SocketAddr, why: &str, now: Instant) {
        if let Some(times) = self.refusals.tick(now) {
            log::warn!(
                "{}: {} was cut off: {why}; it is in proxy_protocol, so let it send version 2 (send-proxy-v2 in HAProxy), \
                 or take it out of that option ({times} such connections)",
                self.server,
                balancer.ip().to_canonical()
            );
        }
    }
}

impl Pending {
    fn read(&mut self) -> Step {
        let mut buffer = [0; MAX_HEADER];
        loop {
            let wanted = self.header.wanted();
            let space = buffer.get_mut(..wanted).unwrap_or_default();
            match self.tcp.read(space) {
                Ok(0) => return Step::HungUp,
                Ok(n) => match self.header.push(space.get(..n).unwrap_or_default()) {
                    Ok(None) => {}
                    Ok(Some(origin)) => return Step::Done(origin),
                    Err(why) => return Step::Refused(why),
                },
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => return Step::Wait,
                    io::ErrorKind::Interrupted => {}
                    _ => return Step::HungUp,
                },
            }
        }
    }
}

fn arrival(tcp: TcpStream, balancer: SocketAddr, origin: Origin) -> Arrival {
    let (peer, via) = match origin {
        Origin::Balancer => (balancer, None),
        // Somebody on the balancer's host, which need not be this one.
        Origin::Client(client) if client.ip().to_canonical().is_loopback() => {
            (balancer, Some(balancer))
        }
        Origin::Client(client) => (client, Some(balancer)),
    };
    Arrival { tcp, peer, via }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::proxy;
    use std::io::Write;
    use std::net::TcpListener;

    const LIMIT: Duration = Duration::from_secs(30);

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn balancers() -> Balancers {
        let trusted = ["127.0.0.1", "10.1.0.0/24"].map(|text| Network::parse(text).unwrap());
        Balancers::new("test", Arc::new(trusted), LIMIT).unwrap()
    }

    /// A connection: the end of the balancer, that of the port, and the address of the former.
    fn connection(listener: &TcpListener) -> (TcpStream, TcpStream, SocketAddr) {
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nodelay(true).unwrap();
        let (far, peer) = listener.accept().unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far, peer)
    }

    /// Waits until something can be read.
    fn wait(all: &Balancers) {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut fds = [PollFd::new(all.descriptor(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, PollTimeout::NONE).unwrap(), 1);
    }

    #[test]
    fn those_in_the_list_must_have_a_header() {
        let all = balancers();
        for (peer, expected) in [
            ("127.0.0.1:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("127.0.0.2:1", false),
            ("10.1.0.9:1", true),
            ("[::1]:1", false),
        ] {
            assert_eq!(all.include(address(peer)), expected, "{peer}");
        }
    }

    #[test]
    fn a_header_that_arrives_byte_by_byte_leaves_what_follows() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut all = balancers();
        let (mut near, far, balancer) = connection(&listener);
        let client = address("192.0.2.7:40000");
        let now = Instant::now();
        assert!(all.begin(far, balancer, now).is_none());
        let header = proxy::header(client, address("10.0.0.1:4505"), &[4; 99]);
        let (last, first) = header.split_last().unwrap();
        for byte in first {
            near.write_all(&[*byte]).unwrap();
            wait(&all);
            assert!(all.finished(now).is_empty());
        }
        near.write_all(&[*last, b'r', b'e', b's', b't']).unwrap();
        wait(&all);
        let arrived = all.finished(now).remove(0);
        assert_eq!((arrived.peer, arrived.via), (client, Some(balancer)));
        assert!(all.pending.is_empty() && all.crowd.len() == 0);
        drop(near);
        let mut tcp = arrived.tcp;
        tcp.set_nonblocking(false).unwrap();
        let mut rest = String::new();
        tcp.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "rest");
    }

    #[test]
    fn the_balancers_own_connections_have_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut all = balancers();
        let to = address("10.0.0.1:4505");
        for (header, named) in [
            (proxy::local_header(), false),
            (proxy::header(address("127.0.0.9:5"), to, &[]), true),
            (
                proxy::header(address("[::1]:5"), address("[::1]:4505"), &[]),
                true,
            ),
        ] {
            let (mut near, far, balancer) = connection(&listener);
            near.write_all(&header).unwrap();
            let now = Instant::now();
            let arrived = all.begin(far, balancer, now).unwrap_or_else(|| {
                wait(&all);
                all.finished(now).remove(0)
            });
            assert_eq!(arrived.peer, balancer);
            assert_eq!(arrived.via.is_some(), named);
        }
    }

    #[test]
    fn what_is_no_header_and_what_is_late_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut all = balancers();
        let now = Instant::now();
        let (mut wrong, far, balancer) = connection(&listener);
        assert!(all.begin(far, balancer, now).is_none());
        wrong.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        wait(&all);
        assert!(all.finished(now).is_empty() && all.pending.is_empty());
        let (mut silent, far, balancer) = connection(&listener);
        assert!(all.begin(far, balancer, now).is_none());
        silent
            .write_all(&proxy::local_header()[..15])
            .and_then(|()| silent.flush())
            .unwrap();
        wait(&all);
        assert!(all.finished(now).is_empty());
        all.expire(now + LIMIT / 2);
        assert_eq!(all.pending.len(), 1);
        all.expire(now + LIMIT);
        assert!(all.pending.is_empty() && all.crowd.len() == 0);
        assert_eq!(silent.read(&mut [0; 9]).unwrap(), 0, "closed");
    }

    #[test]
    fn the_longest_without_a_header_give_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut all = balancers();
        let now = Instant::now();
        let mut near = Vec::new();
        for _ in 0..100 {
            let (one, far, balancer) = connection(&listener);
            assert!(all.begin(far, balancer, now).is_none());
            near.push(one);
        }
        // As if there were as many as may be.
        for other in 0..MAX_PENDING as u64 {
            all.crowd.opened(u64::MAX - other, address("127.0.0.1:9"));
        }
        let (_last, far, balancer) = connection(&listener);
        assert!(all.begin(far, balancer, now).is_none());
        assert_eq!((all.pending.len(), all.crowd.len()), (1, MAX_PENDING));
        assert_eq!(near[0].read(&mut [0; 9]).unwrap(), 0, "closed");
        all.shed();
        assert_eq!((all.pending.len(), all.crowd.len()), (0, 0));
    }
}
