//! A non-blocking client of the transports tcp and ws (reference `salt-transports.md` 1, 2), with or without TLS: the
//! counterpart of [`zmtp::Connection`](crate::zmtp::Connection).

use crate::sockets::{KeepAlive, tcp_url};
use crate::stream::Stream;
use crate::tls::{self, ClientTls};
use crate::zmtp::{is_connected, start_connect};
use halite_wire::tcp::{self, FrameDecoder};
use halite_wire::ws::{self, ClientUpgrade, WsEvent};
use openssl::ssl::SslStream;
use rand::RngCore;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

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
    framing: Framing,
    /// Whether anything has arrived.
    has_read: bool,
    output: Vec<u8>,
    written: usize,
}

/// How messages are framed.
enum Framing {
    Tcp {
        decoder: FrameDecoder,
        /// The identifier of the last request.
        mid: String,
    },
    /// A WebSocket that is not open yet; what is sent waits here.
    Upgrade(ClientUpgrade, Vec<u8>),
    Ws(ws::FrameDecoder),
}

/// Where and how to connect.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    /// Address of the server.
    pub address: SocketAddr,
    /// Its name or address as the user wrote it.
    pub host: &'a str,
    /// The path of a WebSocket; `None` for the transport tcp.
    pub path: Option<&'a str>,
    /// TCP keepalive.
    pub keepalive: KeepAlive,
    /// TLS, if it has any.
    pub tls: Option<&'a ClientTls>,
}

impl Connection {
    /// Starts connecting. Call [`Connection::step`] whenever the descriptor becomes readable or writable.
    ///
    /// # Errors
    /// No descriptors are left, there is no route to the address, or a file of TLS cannot be used.
    pub fn open(peer: &Peer) -> io::Result<Connection> {
        let tcp = start_connect(peer.address)?;
        tcp.set_nodelay(true)?;
        peer.keepalive.apply_to(&tcp)?;
        let stream = match peer.tls {
            None => Stream::Plain(tcp),
            Some(tls) => {
                let ssl = tls
                    .open(peer.host)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
                Stream::Tls(Box::new(SslStream::new(ssl, tcp)?))
            }
        };
        let (framing, output) = match peer.path {
            None => {
                let decoder = FrameDecoder::default();
                let mid = String::new();
                (Framing::Tcp { decoder, mid }, Vec::new())
            }
            Some(path) => {
                let nonce = rand::random();
                let place = tcp_url(peer.host, peer.address.port());
                let place = place.trim_start_matches("tcp://");
                let upgrade = Framing::Upgrade(ClientUpgrade::new(nonce), Vec::new());
                (upgrade, ws::request(path, place, nonce))
            }
        };
        Ok(Connection {
            stream,
            stage: Stage::Connecting,
            framing,
            has_read: false,
            output,
            written: 0,
        })
    }

    /// Whether the connection is complete, and what was sent may have reached the server.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready && !matches!(self.framing, Framing::Upgrade(..))
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
        let out = match &mut self.framing {
            Framing::Tcp { mid, .. } => {
                *mid = random_uuid();
                self.output.extend(tcp::request(mid, body));
                return self.flush();
            }
            Framing::Upgrade(_, waiting) => waiting,
            Framing::Ws(_) => &mut self.output,
        };
        out.extend(ws::masked_message(body, rand::random()));
        self.flush()
    }

    /// Says who we are, now or when connected. Over WebSocket, stock's masters discard it.
    ///
    /// # Errors
    /// The connection failed.
    pub fn claim(&mut self, envelope: &[u8]) -> io::Result<()> {
        let out = match &mut self.framing {
            Framing::Tcp { .. } => {
                self.output.extend(tcp::message(envelope));
                return self.flush();
            }
            Framing::Upgrade(_, waiting) => waiting,
            Framing::Ws(_) => &mut self.output,
        };
        out.extend(ws::masked_message(envelope, rand::random()));
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
            if !is_connected(self.stream.tcp())? {
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
        let invalid =
            |e: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
        let first;
        let mut bytes = bytes;
        if let Framing::Upgrade(upgrade, waiting) = &mut self.framing {
            let Some(frames) = upgrade.push(bytes).map_err(|e| invalid(&e))? else {
                return Ok(());
            };
            self.output.append(waiting);
            self.framing = Framing::Ws(ws::FrameDecoder::default());
            first = frames;
            bytes = &first;
        }
        let output = &mut self.output;
        match &mut self.framing {
            Framing::Tcp { decoder, mid } => {
                let decoded = decoder.decode(bytes, MAX_MESSAGE, |frame| {
                    if tcp::mid(frame.head).is_none_or(|of| of == mid) {
                        each(frame.body);
                    }
                });
                decoded.map_err(|e| invalid(&e))?;
            }
            Framing::Ws(decoder) => {
                let decoded = decoder.decode(bytes, MAX_MESSAGE, |event| match event {
                    WsEvent::Message(body) => each(&body),
                    WsEvent::Ping(context) => {
                        output.extend(ws::masked_pong(&context, rand::random()));
                    }
                });
                match decoded {
                    Err(ws::WsError::Closed) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    decoded => decoded.map_err(|e| invalid(&e))?,
                }
            }
            Framing::Upgrade(..) => {}
        }
        self.flush()
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
