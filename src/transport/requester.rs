//! The client of a request port: one request, one reply (`salt/transport/zeromq.py AsyncReqMessageClient`).
//!
//! A request is one write to a connection and one read from it, without libzmq and its thread. Between requests the connection
//! stays open, but nobody answers its heartbeats, so a server may close it; the next request opens another. To add a transport,
//! add a variant of [`Connection`].

use crate::client::{Connection, Server};
use crate::poll::{Poller, Source};
use crate::sockets::KeepAlive;
use crate::stream::{resolve, split};
use crate::tls::ClientTls;
use crate::zmtp::{Event, SocketType};
use halite_sys::log_limiter::LogLimiter;
use halite_wire::Transport;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Longest time until a new connection must be ready for requests; then another address is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Wait before the second attempt to connect; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait between attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Options of a [`Requester`].
#[derive(Clone, Debug)]
pub struct RequesterOptions {
    /// The protocol of the port.
    pub transport: Transport,
    /// TLS of a transport other than ZeroMQ.
    pub tls: Option<ClientTls>,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// Whether IPv6 addresses are as good as IPv4 addresses.
    pub ipv6: bool,
    /// How long to try to connect, if that is less than the time for a request.
    pub connects_for: Duration,
}

impl Default for RequesterOptions {
    /// Those of a client on the master's host (the defaults of Salt's `tcp_keepalive*`).
    fn default() -> RequesterOptions {
        RequesterOptions {
            transport: Transport::ZeroMq,
            tls: None,
            keepalive: KeepAlive {
                on: true,
                idle: 300,
                count: -1,
                interval: -1,
            },
            ipv6: false,
            connects_for: Duration::MAX,
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
    /// The connection was lost after the request had been sent: it may have been executed or not.
    Lost,
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
    /// Which of the server's addresses comes next.
    next_address: usize,
    strangers: LogLimiter,
}

/// Why an attempt is over.
enum Attempt<T> {
    Done(Exchange<T>),
    /// There was no connection, or it failed before the request was sent.
    Unsent(io::Error),
}

impl Requester {
    /// A client of `url`, `tcp://HOST:PORT`; it connects when first used.
    pub fn new(url: &str, options: RequesterOptions) -> Requester {
        Requester {
            url: url.to_owned(),
            options,
            connection: None,
            attempts: 0,
            next_address: 0,
            strangers: LogLimiter::default(),
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
    /// As [`Requester::exchange`], or the connection was lost before the reply came.
    pub fn ask(&mut self, body: &[u8], timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        let mut interrupts = Interrupts::<()> {
            sources: &[],
            check: &mut || None,
        };
        Ok(match self.exchange(body, timeout, &mut interrupts)? {
            Exchange::Reply(bytes) => Some(bytes),
            Exchange::Silence | Exchange::Interrupted(()) => None,
            Exchange::Lost => {
                let why = "the connection was lost before the reply came; the request may have been executed";
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, why));
            }
        })
    }

    /// Sends `body` and waits for the reply. While there is time, it connects again if the server is not there yet. What was
    /// sent is not repeated: a job would run twice, and the master refuses a sealed request that it has seen.
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
        let connect_by = Instant::now() + timeout.min(self.options.connects_for);
        loop {
            let why = match self.attempt(body, timeout, end, interrupts)? {
                Attempt::Done(exchange) => return Ok(exchange),
                Attempt::Unsent(why) => why,
            };
            self.tell(&why);
            let wait = FIRST_WAIT.saturating_mul(1 << self.attempts.saturating_sub(1).min(10));
            let until = connect_by.min(Instant::now() + wait.min(LONGEST_WAIT));
            if let Some(ended) = pause(until, interrupts)? {
                return Ok(Exchange::Interrupted(ended));
            }
            if Instant::now() >= connect_by {
                return Ok(Exchange::Silence);
            }
        }
    }

    fn attempt<T>(
        &mut self,
        body: &[u8],
        timeout: Duration,
        end: Instant,
        interrupts: &mut Interrupts<'_, T>,
    ) -> io::Result<Attempt<T>> {
        // The connection is kept only if the reply arrives.
        let (mut connection, ready_by) = match self.reusable() {
            Some(connection) => (connection, end),
            None => match self.connect(timeout)? {
                Ok((connection, patience)) => (connection, end.min(Instant::now() + patience)),
                Err(e) => return Ok(Attempt::Unsent(e)),
            },
        };
        let lost = |connection: &Connection, why: io::Error| {
            if connection.is_ready() {
                Attempt::Done(Exchange::Lost)
            } else {
                Attempt::Unsent(why)
            }
        };
        if let Err(e) = connection.request(body) {
            return Ok(lost(&connection, e));
        }
        loop {
            if let Some(ended) = (interrupts.check)() {
                return Ok(Attempt::Done(Exchange::Interrupted(ended)));
            }
            let now = Instant::now();
            if now >= end {
                return Ok(Attempt::Done(Exchange::Silence));
            }
            if now >= ready_by && !connection.is_ready() {
                return Ok(Attempt::Unsent(io::ErrorKind::TimedOut.into()));
            }
            let until = if connection.is_ready() { end } else { ready_by };
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
            poller.wait(Some(left(until)))?;
            if !poller.is_ready(socket) {
                continue;
            }
            let mut reply = None;
            let step = connection.step(&mut |event| {
                if let Event::Message(frames) = event {
                    reply = Some(frames.into_iter().next().unwrap_or_default());
                }
            });
            if let Some(reply) = reply {
                self.attempts = 0;
                self.connection = step.is_ok().then_some(connection);
                return Ok(Attempt::Done(Exchange::Reply(reply)));
            }
            if let Err(e) = step {
                self.tell(&e);
                return Ok(lost(&connection, e));
            }
        }
    }

    /// Logs why there is no connection. Another protocol, or a certificate that cannot be used, will be no better next time.
    fn tell(&mut self, why: &io::Error) {
        match why.kind() {
            io::ErrorKind::InvalidData if self.strangers.tick(Instant::now()).is_some() => {
                log::warn!("no requests are possible to {}: {why}", self.url);
            }
            _ => log::debug!("the connection to {} failed: {why}", self.url),
        }
    }

    /// The open connection, unless the server has closed it.
    fn reusable(&mut self) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        let mut unexpected = false;
        let step = connection.step(&mut |event| unexpected |= matches!(event, Event::Message(_)));
        (step.is_ok() && !unexpected).then_some(connection)
    }

    /// Starts to connect, to another address of the server's each time; with the time that the connection has to be ready.
    fn connect(&mut self, timeout: Duration) -> io::Result<io::Result<(Connection, Duration)>> {
        let place = self.url.strip_prefix("tcp://");
        let place = place.and_then(|place| split(place, 0).ok());
        let Some((host, port)) = place.filter(|(_, port)| *port != 0) else {
            let why = format!("{} is not an address of the form tcp://HOST:PORT", self.url);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        self.attempts = self.attempts.saturating_add(1);
        let addresses = match resolve(host, port, self.options.ipv6) {
            Ok(addresses) => addresses,
            Err(e) => return Ok(Err(e)),
        };
        let Some(address) = addresses.get(self.next_address % addresses.len().max(1)) else {
            return Ok(Err(io::ErrorKind::AddrNotAvailable.into()));
        };
        self.next_address = self.next_address.wrapping_add(1);
        let patience = CONNECT_TIMEOUT.min(timeout / addresses.len() as u32);
        let server = Server {
            transport: self.options.transport,
            address: *address,
            host,
            keepalive: self.options.keepalive,
            tls: self.options.tls.as_ref(),
        };
        let opened = Connection::open(&server, SocketType::Req);
        Ok(opened.map(|connection| (connection, patience)))
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
    use crate::front::{Received, RequestFront, RequestOptions, RequestServer, Zmtp};
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
        let options = RequestOptions {
            backlog: 10,
            max_message: 32 << 20,
            ipv6: false,
            keepalive: KeepAlive::REQUEST_SERVER,
            most_connections: 10,
            heartbeat: Duration::from_secs(3600),
            stalled: Duration::from_secs(3600),
        };
        let port = url.rsplit(':').next().unwrap().parse().unwrap();
        let mut server = RequestServer::<Zmtp>::bind("127.0.0.1", port, &options).unwrap();
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
                // A server that ends may not have read what it was sent.
                let answer = loop {
                    match requester.ask(body, LONG) {
                        Ok(answer) => break answer,
                        Err(e) => assert_eq!(e.kind(), io::ErrorKind::ConnectionReset),
                    }
                };
                assert_eq!(answer.as_deref(), Some(&body[..]));
            }
            assert!(requester.ask(&large, LONG).unwrap() == Some(large));
            end.store(true, Ordering::Relaxed);
        });
    }

    /// Accepts connections: the first are closed before the handshake, the next after the request.
    fn closing(listener: TcpListener, early: usize) {
        for _ in 0..early {
            drop(listener.accept().unwrap());
        }
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(&halite_wire::zmtp::handshake("ROUTER"))
            .unwrap();
        let mut seen = Vec::new();
        let mut chunk = [0; 512];
        while !seen.ends_with(b"question") {
            let count = peer.read(&mut chunk).unwrap();
            seen.extend_from_slice(&chunk[..count]);
        }
    }

    #[test]
    fn what_was_sent_is_not_repeated() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = tcp_url("127.0.0.1", listener.local_addr().unwrap().port());
        thread::scope(|scope| {
            scope.spawn(|| closing(listener, 2));
            let mut interrupts = Interrupts::<()> {
                sources: &[],
                check: &mut || None,
            };
            let exchange = requester(&url).exchange(b"question", LONG, &mut interrupts);
            assert_eq!(exchange.unwrap(), Exchange::Lost);
        });
    }

    /// A peer that never stops to send does not keep a client from its time limit, nor fill its memory.
    #[test]
    fn a_flood_does_not_stop_the_clock() {
        let ping = [&[4, 9][..], b"\x04PING\0\0xx"].concat();
        let frames = b"\x04\x06\x05OTHER".to_vec();
        for flood in [ping, frames] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = tcp_url("127.0.0.1", listener.local_addr().unwrap().port());
            thread::scope(|scope| {
                scope.spawn(move || {
                    let (mut peer, _) = listener.accept().unwrap();
                    peer.write_all(&halite_wire::zmtp::handshake("ROUTER"))
                        .unwrap();
                    let flood = flood.repeat(10_000);
                    while peer.write_all(&flood).is_ok() {}
                });
                let answer = requester(&url).ask(b"x", Duration::from_millis(300));
                assert_eq!(answer.unwrap(), None);
            });
        }
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
    fn replies_over_tcp_belong_to_their_requests() {
        use halite_wire::tcp::{FrameDecoder, frame_start};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = tcp_url("127.0.0.1", listener.local_addr().unwrap().port());
        thread::scope(|scope| {
            scope.spawn(move || {
                let (mut peer, _) = listener.accept().unwrap();
                let (mut decoder, mut chunk) = (FrameDecoder::default(), [0; 4096]);
                let mut last = frame_start(b"\x81\xa3mid\xa1x");
                let mut asked = 0;
                while asked < 2 {
                    let n = peer.read(&mut chunk).unwrap();
                    let mut replies = Vec::new();
                    decoder
                        .decode(&chunk[..n], 1000, |frame| {
                            // First one that belongs to an earlier request.
                            replies.extend_from_slice(&last);
                            replies.extend_from_slice(b"\xa5wrong");
                            last = frame_start(frame.head);
                            replies.extend_from_slice(&last);
                            replies.extend_from_slice(frame.body);
                            asked += 1;
                        })
                        .unwrap();
                    peer.write_all(&replies).unwrap();
                }
            });
            let options = RequesterOptions {
                transport: Transport::Tcp,
                ..RequesterOptions::default()
            };
            let mut requester = Requester::new(&url, options);
            for body in [b"\xa1a", b"\xa1b"] {
                assert_eq!(requester.ask(body, LONG).unwrap(), Some(body.to_vec()));
            }
        });
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
