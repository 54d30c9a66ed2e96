//! A non-blocking client of Salt's TCP transport (reference `salt-transports.md` 1): the counterpart of
//! [`zmtp::Connection`](crate::zmtp::Connection).

use crate::poll::Source;
use crate::sockets::KeepAlive;
use crate::stream::Stream;
use crate::tls::{self, ClientTls};
use crate::zmtp::start_connect;
use halite_wire::tcp::{self, FrameDecoder, TcpError};
use openssl::ssl::SslStream;
use rand::RngCore;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Largest message, in bytes; no reply or publication of a master is larger.
const MAX_MESSAGE: usize = 256 << 20;
/// Bytes per read.
const CHUNK: usize = 16 << 10;
/// Bytes read per [`Connection::step`].
const STEP: usize = 256 << 10;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connecting,
    /// The TLS handshake; whether there is something to write.
    Handshake(bool),
    Ready,
}

/// One connection. It does not reconnect.
pub struct Connection {
    stream: Stream,
    stage: Stage,
    decoder: FrameDecoder,
    /// Whether anything has arrived.
    has_read: bool,
    output: Vec<u8>,
    written: usize,
    /// The identifier of the last request.
    mid: String,
}

impl Connection {
    /// Starts connecting, with TLS to a host if given. Call [`Connection::step`] whenever the descriptor becomes readable or
    /// writable.
    ///
    /// # Errors
    /// No descriptors are left, there is no route to the address, or a file of TLS cannot be used.
    pub fn open(
        address: SocketAddr,
        keepalive: KeepAlive,
        tls: Option<(&ClientTls, &str)>,
    ) -> io::Result<Connection> {
        let tcp = start_connect(address)?;
        tcp.set_nodelay(true)?;
        keepalive.apply_to(&tcp)?;
        let stream = match tls {
            None => Stream::Plain(tcp),
            Some((tls, host)) => {
                let ssl = tls
                    .open(host)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
                Stream::Tls(Box::new(SslStream::new(ssl, tcp)?))
            }
        };
        Ok(Connection {
            stream,
            stage: Stage::Connecting,
            decoder: FrameDecoder::default(),
            has_read: false,
            output: Vec::new(),
            written: 0,
            mid: String::new(),
        })
    }

    /// Whether the server has accepted the connection, and what was sent may have reached it.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Whether [`Connection::step`] has something to do when the descriptor becomes writable.
    pub fn wants_write(&self) -> bool {
        match self.stage {
            Stage::Connecting => true,
            Stage::Handshake(writes) => writes,
            Stage::Ready => self.written < self.output.len(),
        }
    }

    /// Sends a request, now or when connected. Replies to earlier ones are ignored from now on.
    ///
    /// # Errors
    /// The connection failed.
    pub fn request(&mut self, body: &[u8]) -> io::Result<()> {
        self.mid = random_uuid();
        self.send(&tcp::request(&self.mid, body))
    }

    /// Sends a frame, now or when connected.
    ///
    /// # Errors
    /// The connection failed.
    pub fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.output.extend_from_slice(frame);
        self.flush()
    }

    /// Writes and reads a limited number of bytes without blocking, and calls `each` for every reply to the last request, and
    /// for every frame that is no reply. Returns whether there may be more.
    ///
    /// # Errors
    /// The connection has ended, or the peer violates the protocol.
    pub fn step(&mut self, each: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        if !self.become_ready()? {
            return Ok(false);
        }
        self.flush()?;
        let mut chunk = [0; CHUNK];
        for _ in 0..STEP / CHUNK {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(self.hung_up()),
                Ok(n) => {
                    self.has_read = true;
                    self.decode(chunk.get(..n).unwrap_or_default(), each)?;
                }
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => return Ok(false),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => return Err(self.hung_up()),
                    _ => return Err(tls::refusal(e)),
                },
            }
        }
        Ok(true)
    }

    fn hung_up(&self) -> io::Error {
        if self.has_read {
            return io::ErrorKind::UnexpectedEof.into();
        }
        let why = "it hung up at once; do the options `transport` and `ssl` differ there?";
        io::Error::new(io::ErrorKind::InvalidData, why)
    }

    fn become_ready(&mut self) -> io::Result<bool> {
        if self.stage == Stage::Connecting {
            let tcp = self.stream.tcp();
            if let Some(e) = tcp.take_error()? {
                return Err(e);
            }
            if tcp.peer_addr().is_err() {
                return Ok(false);
            }
            self.stage = match self.stream {
                Stream::Plain(_) => Stage::Ready,
                Stream::Tls(_) => Stage::Handshake(true),
            };
        }
        if let (Stage::Handshake(_), Stream::Tls(stream)) = (self.stage, &mut self.stream) {
            self.stage = tls::advance(stream)?.map_or(Stage::Ready, Stage::Handshake);
        }
        Ok(self.stage == Stage::Ready)
    }

    fn decode(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mid = &self.mid;
        let decoded = self.decoder.decode(bytes, MAX_MESSAGE, |frame| {
            if tcp::mid(frame.head).is_none_or(|of| of == mid) {
                each(frame.body);
            }
        });
        decoded.map_err(|e: TcpError| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.stage == Stage::Ready && self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(tls::refusal(e)),
            }
        }
        if self.stage == Stage::Ready {
            self.output = Vec::new();
            self.written = 0;
        }
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A subscriber: it says who it is, and gets publications.
pub struct Subscription {
    connection: Connection,
    waiting: VecDeque<Vec<u8>>,
    lost: Option<io::Error>,
}

impl Subscription {
    /// Starts connecting, and sends `claim`, an envelope, when connected.
    ///
    /// # Errors
    /// No descriptors are left, or there is no route to the address.
    pub fn open(
        address: SocketAddr,
        claim: &[u8],
        keepalive: KeepAlive,
        tls: Option<(&ClientTls, &str)>,
    ) -> io::Result<Subscription> {
        let mut connection = Connection::open(address, keepalive, tls)?;
        connection.send(&tcp::message(claim))?;
        Ok(Subscription {
            connection,
            waiting: VecDeque::new(),
            lost: None,
        })
    }

    /// Ready when [`receive`](Subscription::receive) has something to do; see also
    /// [`has_waiting`](Subscription::has_waiting).
    pub fn source(&self) -> Source<'_> {
        let fd = self.connection.as_fd().as_raw_fd();
        if self.connection.wants_write() {
            Source::writable_fd(fd)
        } else {
            Source::fd(fd)
        }
    }

    /// Whether [`receive`](Subscription::receive) would return something at once.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether it is connected and has said who it is.
    pub fn is_ready(&self) -> bool {
        !self.connection.wants_write()
    }

    /// Why the connection has ended, if it has.
    pub fn lost(&self) -> Option<&io::Error> {
        self.lost.as_ref()
    }

    /// The next publication, if there is one.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        if self.waiting.is_empty() {
            self.advance();
        }
        self.waiting.pop_front()
    }

    /// Writes and reads without blocking.
    pub fn advance(&mut self) {
        let waiting = &mut self.waiting;
        if self.lost.is_none() {
            let read = self.connection.step(&mut |body| {
                let message = body.get(tcp::unwrapped(body)).unwrap_or_default();
                waiting.push_back(message.to_vec());
            });
            self.lost = read.err();
        }
    }
}

/// A UUID of version 4, as text.
fn random_uuid() -> String {
    let mut bytes = [0; 16];
    rand::thread_rng().fill_bytes(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = u128::from_be_bytes(bytes);
    let hex = format!("{hex:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_form_of_version_4() {
        let uuid = random_uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_ne!(uuid, random_uuid());
    }
}
