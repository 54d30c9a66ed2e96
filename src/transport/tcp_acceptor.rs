//! The connections to a TCP port: those of load balancers with a header, then TLS if the port has it.

use crate::acceptor::Acceptor;
use crate::balancers::{Arrival, Balancers};
use crate::listen;
use crate::sockets::KeepAlive;
use crate::stream::Stream;
use crate::tls::{Accepted, Handshakes, ServerTls};
use halite_wire::network::Network;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{Shutdown, shutdown};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Token of the listening socket in the epoll set of the port.
pub(crate) const LISTENER: u64 = 0;
/// Token of finished TLS handshakes.
pub(crate) const HANDSHAKES: u64 = u64::MAX;
/// Token of load balancers' connections whose header is not complete.
pub(crate) const HEADERS: u64 = u64::MAX - 1;

/// A listening port.
pub(crate) struct TcpAcceptor {
    /// Who waits for errors in log lines.
    server: &'static str,
    acceptor: Acceptor<TcpListener>,
    balancers: Option<Balancers>,
    handshakes: Option<Handshakes>,
    is_closed: bool,
}

impl TcpAcceptor {
    /// Binds `port` (0: any free port) on `interface`, and adds it to `epoll` as [`LISTENER`]. `server` begins log lines.
    ///
    /// # Errors
    /// The address cannot be bound: which and why.
    pub fn bind(
        server: &'static str,
        (interface, port): (&str, u16),
        ipv6: bool,
        backlog: i32,
        keepalive: KeepAlive,
        epoll: &Epoll,
    ) -> io::Result<TcpAcceptor> {
        let listener = listen::bind(interface, port, ipv6, backlog, keepalive)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        Ok(TcpAcceptor {
            server,
            acceptor: Acceptor::new(LISTENER, listener),
            balancers: None,
            handshakes: None,
            is_closed: false,
        })
    }

    /// From now on, connections have TLS; its handshake takes at most `limit`. Adds [`HANDSHAKES`] to `epoll`.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub fn set_tls(&mut self, tls: ServerTls, limit: Duration, epoll: &Epoll) -> io::Result<()> {
        let handshakes = Handshakes::start(tls, limit)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, HANDSHAKES);
        epoll.add(handshakes.descriptor(), event)?;
        self.handshakes = Some(handshakes);
        Ok(())
    }

    /// From now on, connections from `trusted` are those of load balancers: each must begin with a header that names
    /// its peer, and have sent it within `limit`. Adds [`HEADERS`] to `epoll`.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn set_balancers(
        &mut self,
        trusted: Arc<[Network]>,
        limit: Duration,
        epoll: &Epoll,
    ) -> io::Result<()> {
        let balancers = Balancers::new(self.server, trusted, limit)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, HEADERS);
        epoll.add(balancers.descriptor(), event)?;
        self.balancers = Some(balancers);
        Ok(())
    }

    /// The local address.
    ///
    /// # Errors
    /// That of `getsockname`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.acceptor.listener.local_addr()
    }

    /// The next pending connection, non-blocking; those that need a header or TLS begin with that instead. `None` if
    /// there is none or `tries` is 0.
    ///
    /// # Errors
    /// As [`Acceptor::next`]; then [`suspend`](TcpAcceptor::suspend) accepting.
    pub fn next(&mut self, tries: &mut usize, now: Instant) -> io::Result<Option<Accepted>> {
        if self.is_closed {
            return Ok(None);
        }
        while let Some((stream, peer)) = self.acceptor.next(tries, TcpListener::accept)? {
            if let Err(e) = stream.set_nonblocking(true) {
                log::error!("{}: cannot serve {peer}: {e}", self.server);
                continue;
            }
            let arrived = match &mut self.balancers {
                Some(balancers) if balancers.include(peer) => balancers.begin(stream, peer, now),
                _ => Some(Arrival {
                    tcp: stream,
                    peer,
                    via: None,
                }),
            };
            if let Some(accepted) = arrived.and_then(|arrival| self.secure(arrival)) {
                return Ok(Some(accepted));
            }
        }
        Ok(None)
    }

    /// The connection itself, or `None` if its TLS handshake begins.
    fn secure(&mut self, arrival: Arrival) -> Option<Accepted> {
        let Some(handshakes) = &mut self.handshakes else {
            let Arrival { tcp, peer, via } = arrival;
            let stream = Stream::Plain(tcp);
            return Some(Accepted { stream, peer, via });
        };
        handshakes.begin(arrival);
        None
    }

    /// The connections whose header or TLS handshake is complete.
    pub fn finished(&mut self, now: Instant) -> Vec<Accepted> {
        let arrived = match &mut self.balancers {
            Some(balancers) => balancers.finished(now),
            None => Vec::new(),
        };
        let mut all: Vec<Accepted> = arrived.into_iter().filter_map(|a| self.secure(a)).collect();
        if let Some(handshakes) = &mut self.handshakes {
            all.extend(handshakes.finished());
        }
        all
    }

    /// Refuses connections from now on: the system answers for it, as if nobody listened.
    ///
    /// # Errors
    /// Those of `epoll_ctl` and `shutdown`.
    pub fn close(&mut self, epoll: &Epoll) -> io::Result<()> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        epoll.delete(&self.acceptor.listener)?;
        let listener = self.acceptor.listener.as_raw_fd();
        Ok(shutdown(listener, Shutdown::Both)?)
    }

    /// Accepts nothing for a while, since descriptors or memory are short.
    pub fn suspend(&mut self, epoll: &Epoll) {
        if self.is_closed {
            return;
        }
        if let Some(balancers) = &mut self.balancers {
            balancers.shed();
        }
        self.acceptor.set_open(false, epoll);
    }

    /// Accepts again after [`suspend`](TcpAcceptor::suspend), if it is time.
    pub fn resume(&mut self, now: Instant, epoll: &Epoll) {
        let is_over = self.acceptor.closed_until.is_some_and(|until| until <= now);
        if is_over && !self.is_closed {
            self.acceptor.set_open(true, epoll);
        }
    }

    /// Closes connections whose header is late, and looks for changed files of TLS. Call it about once a second.
    ///
    /// # Errors
    /// A thread has ended, and the role must end as well.
    pub fn tend(&mut self, now: Instant) -> io::Result<()> {
        if let Some(balancers) = &mut self.balancers {
            balancers.expire(now);
        }
        self.handshakes.as_ref().map_or(Ok(()), Handshakes::tend)
    }
}
