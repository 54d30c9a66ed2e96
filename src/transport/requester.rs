//! The client of a request port: one request, one reply (`salt/transport/zeromq.py AsyncReqMessageClient`).
//!
//! A request is one write to a connection and one read from it, without libzmq and its thread. Between requests the connection
//! stays open, but nobody answers its heartbeats, so a server may close it; the next request opens another. To add a transport,
//! make `connection` an enum.

use crate::poll::{Polled, Poller, Source};
use crate::sockets::KeepAlive;
use crate::zmtp::{Connection, Event, SocketType};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Time until a new connection must be ready for requests; then another address is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Wait before the second attempt to connect; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait between attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Options of a [`Requester`].
#[derive(Clone, Copy, Debug)]
pub struct RequesterOptions {
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// Whether IPv6 addresses are as good as IPv4 addresses.
    pub ipv6: bool,
}

impl Default for RequesterOptions {
    /// Those of a client on the master's host (the defaults of Salt's `tcp_keepalive*`).
    fn default() -> RequesterOptions {
        RequesterOptions {
            keepalive: KeepAlive {
                on: true,
                idle: 300,
                count: -1,
                interval: -1,
            },
            ipv6: false,
        }
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange<T> {
    /// The reply.
    Reply(Vec<u8>),
    /// No reply in time.
    Silence,
    /// The wait was interrupted.
    Interrupted(T),
}

/// A wait that something else than the reply may end.
pub struct Interrupts<'a, T> {
    /// Become readable when [`Interrupts::check`] is to be called.
    pub sources: &'a [Source<'a>],
    /// Whether to end the wait.
    pub check: &'a mut dyn FnMut() -> Option<T>,
}

/// A client of one request port.
pub struct Requester {
    url: String,
    options: RequesterOptions,
    connection: Option<Connection>,
    /// Attempts to connect since the last reply.
    attempts: u32,
}

/// Why an attempt is over.
enum Attempt<T> {
    Done(Exchange<T>),
    /// The connection failed, or there was none.
    Lost(io::Error),
}

impl Requester {
    /// A client of `url`, `tcp://HOST:PORT`; it connects when first used.
    pub fn new(url: &str, options: RequesterOptions) -> Requester {
        Requester {
            url: url.to_owned(),
            options,
            connection: None,
            attempts: 0,
        }
    }

    /// Switches to another server.
    pub fn set_url(&mut self, url: &str) {
        if self.url != url {
            url.clone_into(&mut self.url);
            self.close();
        }
    }

    /// Closes the connection; the next request opens a new one.
    pub fn close(&mut self) {
        self.connection = None;
        self.attempts = 0;
    }

    /// Sends `body` and waits for the reply; `None` if `timeout` passes first.
    ///
    /// # Errors
    /// As [`Requester::exchange`].
    pub fn ask(&mut self, body: &[u8], timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        let mut interrupts = Interrupts::<()> {
            sources: &[],
            check: &mut || None,
        };
        Ok(match self.exchange(body, timeout, &mut interrupts)? {
            Exchange::Reply(bytes) => Some(bytes),
            Exchange::Silence | Exchange::Interrupted(()) => None,
        })
    }

    /// Sends `body` and waits for the reply. While there is time, it connects again and repeats the request if the connection is
    /// lost or the server is not there yet.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn exchange<T>(
        &mut self,
        body: &[u8],
        timeout: Duration,
        interrupts: &mut Interrupts<'_, T>,
    ) -> io::Result<Exchange<T>> {
        let end = Instant::now() + timeout;
        loop {
            let reused = self.connection.is_some();
            let lost = match self.attempt(body, end, interrupts)? {
                Attempt::Done(exchange) => return Ok(exchange),
                Attempt::Lost(why) => why,
            };
            log::debug!("the connection to {} failed: {lost}", self.url);
            // A server that was restarted is probably there again.
            if reused {
                continue;
            }
            let wait = FIRST_WAIT.saturating_mul(1 << (self.attempts - 1).min(10));
            let until = end.min(Instant::now() + wait.min(LONGEST_WAIT));
            if let Some(ended) = pause(until, interrupts)? {
                return Ok(Exchange::Interrupted(ended));
            }
            if Instant::now() >= end {
                return Ok(Exchange::Silence);
            }
        }
    }

    fn attempt<T>(
        &mut self,
        body: &[u8],
        end: Instant,
        interrupts: &mut Interrupts<'_, T>,
    ) -> io::Result<Attempt<T>> {
        // The connection is kept only if the reply arrives.
        let mut connection = match self.reusable() {
            Some(connection) => connection,
            None => match self.connect()? {
                Ok(connection) => connection,
                Err(e) => return Ok(Attempt::Lost(e)),
            },
        };
        if let Err(e) = connection.request(body) {
            return Ok(Attempt::Lost(e));
        }
        let ready_by = Instant::now() + CONNECT_TIMEOUT;
        loop {
            if let Some(ended) = (interrupts.check)() {
                return Ok(Attempt::Done(Exchange::Interrupted(ended)));
            }
            let until = if connection.is_ready() {
                end
            } else {
                end.min(ready_by)
            };
            let fd = connection.as_fd().as_raw_fd();
            let mut poller = Poller::new();
            let socket = poller.add(if connection.wants_write() {
                Source::writable_fd(fd)
            } else {
                Source::fd(fd)
            });
            for source in interrupts.sources {
                poller.add(*source);
            }
            match poller.wait(Some(left(until)))? {
                Polled::Interrupted => continue,
                Polled::TimedOut if Instant::now() >= end => {
                    return Ok(Attempt::Done(Exchange::Silence));
                }
                Polled::TimedOut if Instant::now() >= until => {
                    return Ok(Attempt::Lost(io::ErrorKind::TimedOut.into()));
                }
                Polled::TimedOut => continue,
                Polled::Ready => {}
            }
            if !poller.is_ready(socket) {
                continue;
            }
            let mut reply = None;
            let progress = connection.progress(&mut |event| {
                if let Event::Message(frames) = event {
                    reply = Some(frames.into_iter().next().unwrap_or_default());
                }
            });
            if let Some(reply) = reply {
                self.attempts = 0;
                self.connection = progress.is_ok().then_some(connection);
                return Ok(Attempt::Done(Exchange::Reply(reply)));
            }
            if let Err(e) = progress {
                return Ok(Attempt::Lost(e));
            }
        }
    }

    /// The open connection, unless the server has closed it.
    fn reusable(&mut self) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        let mut unexpected = false;
        let progress =
            connection.progress(&mut |event| unexpected |= matches!(event, Event::Message(_)));
        (progress.is_ok() && !unexpected).then_some(connection)
    }

    /// Starts to connect, to another address of the server's each time.
    fn connect(&mut self) -> io::Result<io::Result<Connection>> {
        let address = self.url.strip_prefix("tcp://");
        let invalid = || {
            let why = format!("{} is not an address of the form tcp://HOST:PORT", self.url);
            io::Error::new(io::ErrorKind::InvalidInput, why)
        };
        let (host, port) = address
            .and_then(|a| a.rsplit_once(':'))
            .ok_or_else(invalid)?;
        let port: u16 = port.parse().map_err(|_| invalid())?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let attempt = self.attempts as usize;
        self.attempts = self.attempts.saturating_add(1);
        let mut addresses: Vec<SocketAddr> = match (host, port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(e) => return Ok(Err(e)),
        };
        if !self.options.ipv6 {
            addresses.sort_by_key(SocketAddr::is_ipv6);
        }
        let Some(address) = addresses.get(attempt % addresses.len().max(1)) else {
            return Ok(Err(io::ErrorKind::AddrNotAvailable.into()));
        };
        let keepalive = self.options.keepalive;
        Ok(
            Connection::open(*address, SocketType::Req).and_then(|connection| {
                keepalive.apply_to(connection.stream())?;
                Ok(connection)
            }),
        )
    }
}

fn left(until: Instant) -> Duration {
    // Whole milliseconds, at least up to `until`.
    until.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
}

/// Waits until `until`; `Some` if interrupted.
fn pause<T>(until: Instant, interrupts: &mut Interrupts<'_, T>) -> io::Result<Option<T>> {
    loop {
        if let Some(ended) = (interrupts.check)() {
            return Ok(Some(ended));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        let mut poller = Poller::new();
        for source in interrupts.sources {
            poller.add(*source);
        }
        poller.wait(Some(left(until)))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{Received, RequestFront, ZmtpFront, ZmtpOptions};
    use crate::sockets::tcp_url;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    const LONG: Duration = Duration::from_secs(60);

    fn free_url() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp_url("127.0.0.1", listener.local_addr().unwrap().port())
    }

    fn requester(url: &str) -> Requester {
        Requester::new(url, RequesterOptions::default())
    }

    /// Answers each request with its own bytes, until `end` or `most` answers.
    fn serve(url: &str, end: &AtomicBool, most: usize) {
        let options = ZmtpOptions {
            backlog: 10,
            max_message: 32 << 20,
            ipv6: false,
            keepalive: KeepAlive::REQUEST_SERVER,
            most_connections: 10,
            heartbeat: Duration::from_secs(3600),
            stalled: Duration::from_secs(3600),
        };
        let port = url.rsplit(':').next().unwrap().parse().unwrap();
        let mut server = ZmtpFront::bind("127.0.0.1", port, &options).unwrap();
        let mut answered = 0;
        while answered < most && !end.load(Ordering::Relaxed) {
            let mut poller = Poller::new();
            poller.add(server.source());
            poller.wait(Some(Duration::from_millis(20))).unwrap();
            if let Received::Request(request) = server.receive().unwrap() {
                let answer = request.body.to_vec().into();
                server.answer(&request.from, answer).unwrap();
                answered += 1;
            }
        }
    }

    #[test]
    fn a_server_may_come_late_and_come_back() {
        let url = free_url();
        let end = &AtomicBool::new(false);
        let mut requester = requester(&url);
        assert_eq!(
            requester.ask(b"x", Duration::from_millis(150)).unwrap(),
            None
        );
        let large = vec![b'l'; 20 << 20];
        thread::scope(|scope| {
            // Each server ends after some answers, and the next one takes its place.
            let url = &url;
            scope.spawn(move || {
                serve(url, end, 1);
                serve(url, end, 2);
                serve(url, end, usize::MAX);
            });
            for body in [b"one", b"two", b"six", b"ten"] {
                let answer = requester.ask(body, LONG).unwrap();
                assert_eq!(answer.as_deref(), Some(&body[..]));
            }
            assert!(requester.ask(&large, LONG).unwrap() == Some(large));
            end.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_request_whose_connection_is_lost_is_repeated() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = tcp_url("127.0.0.1", listener.local_addr().unwrap().port());
        let handshake = halite_wire::zmtp::handshake("ROUTER");
        thread::scope(|scope| {
            scope.spawn(move || {
                for attempt in 0..3 {
                    let (mut peer, _) = listener.accept().unwrap();
                    peer.write_all(&handshake).unwrap();
                    let mut seen = Vec::new();
                    let mut chunk = [0; 512];
                    while !seen.ends_with(b"question") {
                        let count = peer.read(&mut chunk).unwrap();
                        seen.extend_from_slice(&chunk[..count]);
                    }
                    if attempt == 2 {
                        let parts = [
                            halite_wire::zmtp::part(b"", true),
                            halite_wire::zmtp::part(b"answer", false),
                        ];
                        peer.write_all(&parts.concat()).unwrap();
                    }
                }
            });
            let answer = requester(&url).ask(b"question", LONG).unwrap();
            assert_eq!(answer.as_deref(), Some(&b"answer"[..]));
        });
    }

    #[test]
    fn a_wait_can_be_interrupted() {
        // One that accepts and says nothing, and one that is not there.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = tcp_url("127.0.0.1", listener.local_addr().unwrap().port());
        for url in [silent, free_url()] {
            let mut left = 3;
            let mut interrupts = Interrupts {
                sources: &[],
                check: &mut || {
                    left -= 1;
                    (left == 0).then_some("stopped")
                },
            };
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            (&theirs).write_all(b"x").unwrap();
            let sources = [Source::fd(ours.as_raw_fd())];
            interrupts.sources = &sources;
            let exchange = requester(&url)
                .exchange(b"x", LONG, &mut interrupts)
                .unwrap();
            assert_eq!(exchange, Exchange::Interrupted("stopped"));
        }
    }

    #[test]
    fn addresses_are_checked() {
        for wrong in ["", "ipc:///x", "tcp://host", "tcp://host:99999"] {
            let failed = requester(wrong).ask(b"x", LONG).unwrap_err();
            assert!(failed.to_string().contains("tcp://HOST:PORT"), "{failed}");
        }
        let unknown = requester("tcp://host.invalid:4506").ask(b"x", Duration::from_millis(50));
        assert_eq!(unknown.unwrap(), None);
    }
}
