//! A non-blocking ZeroMQ client on TCP: REQ and SUB sockets that connect (ZMTP 3.1, mechanism NULL; reference
//! `salt-protocol.md` 1.1, 1.3).
//!
//! For programs with thousands of connections: libzmq needs two descriptors and an entry in one big poll per socket, a
//! [`Connection`] one descriptor that works with any epoll.

use halite_wire::zmtp::{self, COMMAND, GREETING, MORE, ZmtpError};
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Largest message, in bytes; no reply or publication of a master is larger.
const MAX_MESSAGE: usize = 256 << 20;
/// Most frames of a message; replies and publications have two.
const MAX_FRAMES: usize = 8;
/// Largest command, in bytes; servers send READY and heartbeats.
const MAX_COMMAND: usize = 4096;
/// Bytes per read.
const CHUNK: usize = 16 << 10;
/// Bytes read per [`Connection::step`].
const STEP: usize = 256 << 10;

/// Type of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketType {
    /// Sends requests, one at a time.
    Req,
    /// Subscribes to everything.
    Sub,
}

impl SocketType {
    fn name(self) -> &'static str {
        match self {
            SocketType::Req => "REQ",
            SocketType::Sub => "SUB",
        }
    }
}

/// What [`Connection::progress`] reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Ready,
    /// A complete message, without the empty delimiter frame of a reply.
    Message(Vec<Vec<u8>>),
    /// The reply to [`Connection::ping`].
    Pong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    Greeting,
    Handshake,
    Ready,
}

/// What reading came to.
enum Filled {
    /// There is no more at the moment.
    Blocked,
    /// There may be more.
    More,
    /// The stream has ended.
    Ended,
}

/// One connection. It does not reconnect.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    socket_type: SocketType,
    stage: Stage,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Frames of an incomplete message.
    frames: Vec<Vec<u8>>,
    /// Requests made before the handshake was complete.
    queued: Vec<u8>,
    /// The reply to the last heartbeat, until it can be sent.
    pong: Option<Vec<u8>>,
}

impl Connection {
    /// Starts connecting. Call [`Connection::progress`] whenever the descriptor becomes readable or writable; it reads and
    /// writes until the kernel would block, as edge-triggered polls need.
    ///
    /// # Errors
    /// No descriptors are left, or there is no route to the address.
    pub fn open(address: SocketAddr, socket_type: SocketType) -> io::Result<Connection> {
        let stream = start_connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            socket_type,
            stage: Stage::Connecting,
            input: Vec::new(),
            output: zmtp::handshake(socket_type.name()),
            written: 0,
            frames: Vec::new(),
            queued: Vec::new(),
            pong: None,
        })
    }

    /// Whether the handshake is complete, and requests have been sent.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Whether [`Connection::progress`] has something to do when the descriptor becomes writable.
    pub fn wants_write(&self) -> bool {
        self.stage == Stage::Connecting || self.written < self.output.len() || self.pong.is_some()
    }

    /// The socket, for its options.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a request, now or when the handshake is complete.
    ///
    /// # Errors
    /// The connection failed.
    pub fn request(&mut self, body: &[u8]) -> io::Result<()> {
        let out = if self.stage == Stage::Ready {
            &mut self.output
        } else {
            &mut self.queued
        };
        out.extend(zmtp::part(b"", true));
        out.extend(zmtp::part(body, false));
        self.flush()
    }

    /// Requests an [`Event::Pong`] from the peer, which shows that it has processed what was sent before.
    ///
    /// # Errors
    /// The connection failed.
    pub fn ping(&mut self) -> io::Result<()> {
        self.output.extend(zmtp::ping());
        self.flush()
    }

    /// Writes and reads as much as possible without blocking; calls `each` for every event.
    ///
    /// # Errors
    /// The connection has ended, or the peer violates the protocol.
    pub fn progress(&mut self, each: &mut dyn FnMut(Event)) -> io::Result<()> {
        while self.step(each)? {}
        Ok(())
    }

    /// As [`Connection::progress`], but reads a limited number of bytes, so that a fast peer cannot hold up the caller. Returns
    /// whether there may be more.
    ///
    /// # Errors
    /// As [`Connection::progress`].
    pub fn step(&mut self, each: &mut dyn FnMut(Event)) -> io::Result<bool> {
        if self.stage == Stage::Connecting {
            if !is_connected(&self.stream)? {
                return Ok(false);
            }
            self.stage = Stage::Greeting;
        }
        self.flush()?;
        let read = match self.fill() {
            // One that finds nothing of its own in what we said resets the connection.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Filled::Ended,
            read => read?,
        };
        let input = std::mem::take(&mut self.input);
        let used = self.parse(&input, each)?;
        self.input = input;
        self.input.drain(..used);
        self.flush()?;
        match read {
            Filled::Ended if self.stage == Stage::Greeting => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it hung up instead of greeting; does the option `transport` differ there?",
            )),
            Filled::Ended => Err(io::ErrorKind::UnexpectedEof.into()),
            Filled::Blocked => Ok(false),
            Filled::More => Ok(true),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.stage == Stage::Connecting {
            return Ok(());
        }
        loop {
            if self.written == self.output.len() {
                self.output.clear();
                self.written = 0;
                match self.pong.take() {
                    Some(pong) => self.output = pong,
                    None => return Ok(()),
                }
            }
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Reads at most `STEP` bytes.
    fn fill(&mut self) -> io::Result<Filled> {
        let mut chunk = [0; CHUNK];
        for _ in 0..STEP / CHUNK {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Filled::Ended),
                Ok(n) => self.input.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Filled::Blocked),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Filled::More)
    }

    /// Handles the greeting and all complete frames; returns the number of bytes consumed.
    fn parse(&mut self, input: &[u8], each: &mut dyn FnMut(Event)) -> io::Result<usize> {
        let mut used = 0;
        if self.stage == Stage::Greeting {
            if !zmtp::is_greeting_complete(input).map_err(invalid)? {
                return Ok(0);
            }
            self.stage = Stage::Handshake;
            used = GREETING;
        }
        loop {
            let left = &input[used..];
            let is_command = left.first().is_some_and(|flags| flags & COMMAND != 0);
            let largest = if is_command { MAX_COMMAND } else { MAX_MESSAGE };
            let Some((flags, body, length)) = zmtp::frame(left, largest).map_err(invalid)? else {
                break;
            };
            used += length;
            if flags & COMMAND != 0 {
                self.command(body, each)?;
            } else if self.stage == Stage::Ready {
                self.message_frame(flags, body, each)?;
            } else {
                return Err(invalid(ZmtpError::Unready));
            }
        }
        Ok(used)
    }

    fn command(&mut self, body: &[u8], each: &mut dyn FnMut(Event)) -> io::Result<()> {
        if let Some(context) = zmtp::ping_context(body).map_err(invalid)? {
            // One reply is enough for any number of heartbeats.
            self.pong = Some(zmtp::pong(&context));
            return Ok(());
        }
        let (name, _) = zmtp::named(body).map_err(invalid)?;
        match name {
            b"READY" => {
                self.stage = Stage::Ready;
                if self.socket_type == SocketType::Sub {
                    self.output.extend(zmtp::subscribe(b""));
                }
                self.output.append(&mut self.queued);
                each(Event::Ready);
            }
            b"PONG" => each(Event::Pong),
            b"ERROR" => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the peer refused the handshake",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn message_frame(
        &mut self,
        flags: u8,
        body: &[u8],
        each: &mut dyn FnMut(Event),
    ) -> io::Result<()> {
        let held: usize = self.frames.iter().map(Vec::len).sum();
        if self.frames.len() >= MAX_FRAMES || held + body.len() > MAX_MESSAGE {
            return Err(invalid(ZmtpError::Frame));
        }
        self.frames.push(body.to_vec());
        if flags & MORE != 0 {
            return Ok(());
        }
        let mut frames = std::mem::take(&mut self.frames);
        if self.socket_type == SocketType::Req && frames.first().is_some_and(Vec::is_empty) {
            frames.remove(0);
        }
        each(Event::Message(frames));
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Whether a connection that was started is complete.
///
/// # Errors
/// It has failed.
pub(crate) fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    match stream.take_error()? {
        Some(e) => Err(e),
        None => Ok(stream.peer_addr().is_ok()),
    }
}

/// Starts connecting without waiting for the result.
pub(crate) fn start_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket::socket(family, SockType::Stream, flags, None)?;
    match socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(fd)),
        Err(e) => Err(e.into()),
    }
}

fn invalid(fault: ZmtpError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{Received, RequestFront, RequestOptions, RequestServer, Zmtp};
    use crate::poll::Poller;
    use crate::sockets::{KeepAlive, tcp_url};
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    fn free_address() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    }

    /// Drives the connection and `peer` until there is an event.
    fn next(connection: &mut Connection, mut peer: impl FnMut()) -> Event {
        let end = Instant::now() + Duration::from_secs(10);
        let mut events = Vec::new();
        while events.is_empty() {
            assert!(Instant::now() < end, "no event");
            connection.progress(&mut |e| events.push(e)).unwrap();
            peer();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(events.len(), 1);
        events.remove(0)
    }

    #[test]
    fn requests_reach_the_request_port() {
        let options = RequestOptions {
            backlog: 10,
            max_message: 1 << 20,
            ipv6: false,
            keepalive: KeepAlive::REQUEST_SERVER,
            most_connections: 10,
            heartbeat: Duration::from_secs(3600),
            stalled: Duration::from_secs(3600),
        };
        let mut server = RequestServer::<Zmtp>::bind("127.0.0.1", 0, &options).unwrap();
        let address = server.address().unwrap();
        let mut client = Connection::open(address, SocketType::Req).unwrap();
        for body in [vec![b'a'], vec![b'b'; 70_000]] {
            // The first one is sent before the handshake.
            client.request(&body).unwrap();
            let mut answer_one = || {
                let mut poller = Poller::new();
                poller.add(server.source());
                poller.wait(Some(Duration::ZERO)).unwrap();
                if let Received::Request(request) = server.receive().unwrap() {
                    let answer = request.body.to_vec().into();
                    server.answer(&request.from, answer).unwrap();
                }
            };
            if body.len() == 1 {
                assert_eq!(next(&mut client, &mut answer_one), Event::Ready);
            }
            let event = next(&mut client, &mut answer_one);
            assert_eq!(event, Event::Message(vec![body]));
        }
    }

    #[test]
    fn publications_of_libzmq_arrive_after_a_pong() {
        let address = free_address();
        let publisher = zmq::Context::new().socket(zmq::PUB).unwrap();
        publisher
            .bind(&tcp_url("127.0.0.1", address.port()))
            .unwrap();
        let mut client = Connection::open(address, SocketType::Sub).unwrap();
        assert_eq!(next(&mut client, || ()), Event::Ready);
        // The first answer may overtake the subscription.
        for _ in 0..2 {
            client.ping().unwrap();
            assert_eq!(next(&mut client, || ()), Event::Pong);
        }
        publisher.send_multipart(["topic", "body"], 0).unwrap();
        let message = vec![b"topic".to_vec(), b"body".to_vec()];
        assert_eq!(next(&mut client, || ()), Event::Message(message));
        drop(publisher);
        let end = Instant::now() + Duration::from_secs(10);
        while client.progress(&mut |_| ()).is_ok() {
            assert!(Instant::now() < end, "the connection does not end");
        }
    }

    #[test]
    fn other_peers_are_refused() {
        use std::io::Write;
        for bytes in [
            &b"HTTP/1.1 400 Bad Request"[..],
            b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01CURVE",
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut client = Connection::open(address, SocketType::Req).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(bytes).unwrap();
            peer.write_all(&[0; GREETING]).unwrap();
            let end = Instant::now() + Duration::from_secs(10);
            let error = loop {
                assert!(Instant::now() < end, "no error");
                if let Err(e) = client.progress(&mut |_| ()) {
                    break e;
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
