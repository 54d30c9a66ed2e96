//! The connections to a TCP port, with TLS if the port has it.

use crate::acceptor::Acceptor;
use crate::listen;
use crate::sockets::KeepAlive;
use crate::stream::Stream;
use crate::tls::{Accepted, Handshakes, ServerTls};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{Shutdown, shutdown};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Token of the listening socket in the epoll set of the port.
pub(crate) const LISTENER: u64 = 0;
/// Token of finished TLS handshakes.
pub(crate) const HANDSHAKES: u64 = u64::MAX;

/// A listening port.
pub(crate) struct TcpAcceptor {
    /// Who waits for errors in log lines.
    server: &'static str,
    acceptor: Acceptor<TcpListener>,
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

    /// The local address.
    ///
    /// # Errors
    /// That of `getsockname`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.acceptor.listener.local_addr()
    }

    /// The next pending connection, non-blocking; those with TLS begin their handshake instead. `None` if there is none or
    /// `tries` is 0.
    ///
    /// # Errors
    /// As [`Acceptor::next`]; then [`suspend`](TcpAcceptor::suspend) accepting.
    pub fn next(&mut self, tries: &mut usize) -> io::Result<Option<Accepted>> {
        if self.is_closed {
            return Ok(None);
        }
        while let Some((stream, peer)) = self.acceptor.next(tries, TcpListener::accept)? {
            if let Err(e) = stream.set_nonblocking(true) {
                log::error!("{}: cannot serve {peer}: {e}", self.server);
                continue;
            }
            match &mut self.handshakes {
                Some(handshakes) => handshakes.begin(stream, peer),
                None => {
                    let stream = Stream::Plain(stream);
                    return Ok(Some(Accepted { stream, peer }));
                }
            }
        }
        Ok(None)
    }

    /// The connections whose TLS handshake is complete.
    pub fn finished(&mut self) -> Vec<Accepted> {
        let handshakes = self.handshakes.as_mut();
        handshakes.map_or_else(Vec::new, Handshakes::finished)
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

    /// Accepts nothing for a while.
    pub fn suspend(&mut self, epoll: &Epoll) {
        if self.is_closed {
            return;
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

    /// Looks for changed files of TLS. Call it about once a second.
    ///
    /// # Errors
    /// A thread has ended, and the role must end as well.
    pub fn tend(&self) -> io::Result<()> {
        self.handshakes.as_ref().map_or(Ok(()), Handshakes::tend)
    }
}
