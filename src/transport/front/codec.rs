//! The protocols of request ports. [`RequestServer`](super::RequestServer) uses only [`RequestCodec`]; to add a transport,
//! implement it.

use halite_wire::tcp::{self, FrameDecoder, TcpError};
use halite_wire::ws::{self, ServerUpgrade, WsError, WsEvent};
use halite_wire::zmtp::{self, RequestDecoder, RequestEvent};
use std::fmt;

/// What a client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// A request.
    Request {
        /// What tells the client to which of its requests a reply belongs; empty if it waits for one at a time.
        mark: Vec<u8>,
        /// The request itself.
        body: Vec<u8>,
    },
    /// A message that is no request.
    Malformed,
    /// Something that is to be answered with these bytes.
    Answer(Vec<u8>),
    /// Anything else; only shows that the client is alive.
    Other,
}

/// The protocol of one connection to a request port. No IO.
pub trait RequestCodec: Default {
    /// Why the peer is not a client.
    type Error: fmt::Display;

    /// Most messages in one read (64 KiB) of a client that waits for replies.
    const MAX_MESSAGES: usize;

    /// Decodes any number of bytes and passes each message that they complete to `take`. A message has at most `max` bytes.
    ///
    /// # Errors
    /// The peer is not a client; no more may be decoded.
    fn decode(
        &mut self,
        bytes: &[u8],
        max: usize,
        take: impl FnMut(ClientMessage),
    ) -> Result<(), Self::Error>;

    /// Whether a message or the handshake has begun and is not complete.
    fn is_midway(&self) -> bool;

    /// Bytes of the incomplete message that are held.
    fn held(&self) -> usize;

    /// What the server sends first.
    fn hello() -> Vec<u8> {
        Vec::new()
    }

    /// A heartbeat that clients answer by themselves; `None` if the protocol has none.
    fn ping() -> Option<Vec<u8>> {
        None
    }

    /// What precedes a reply of `length` bytes to the request with that mark.
    fn reply_start(mark: &[u8], length: usize) -> Vec<u8>;
}

/// ZMTP 3, the protocol of ZeroMQ's REQ sockets ([`halite_wire::zmtp`]).
#[derive(Debug, Default)]
pub struct Zmtp(RequestDecoder);

impl RequestCodec for Zmtp {
    type Error = zmtp::ZmtpError;

    /// A client has one request in flight; a few more are tolerated.
    const MAX_MESSAGES: usize = 64;

    fn decode(
        &mut self,
        bytes: &[u8],
        max: usize,
        mut take: impl FnMut(ClientMessage),
    ) -> Result<(), zmtp::ZmtpError> {
        self.0.decode(bytes, max, |event| {
            take(match event {
                RequestEvent::Request(body) => ClientMessage::Request {
                    mark: Vec::new(),
                    body,
                },
                RequestEvent::Malformed => ClientMessage::Malformed,
                RequestEvent::Ping(context) => ClientMessage::Answer(zmtp::pong(&context)),
                RequestEvent::Other => ClientMessage::Other,
            });
        })
    }

    fn is_midway(&self) -> bool {
        self.0.is_midway()
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn hello() -> Vec<u8> {
        zmtp::handshake("ROUTER")
    }

    fn ping() -> Option<Vec<u8>> {
        Some(zmtp::ping())
    }

    fn reply_start(_mark: &[u8], length: usize) -> Vec<u8> {
        [zmtp::EMPTY_PART, &zmtp::part_header(length, false)].concat()
    }
}

/// Longest head of a request, in bytes, that a reply repeats; clients send an identifier of 36 characters.
const MAX_HEAD: usize = 512;

/// Salt's TCP transport ([`halite_wire::tcp`]). Its connections stay open however long they are idle: the protocol has no
/// heartbeat, and a minion keeps one for its returns.
#[derive(Debug, Default)]
pub struct Tcp(FrameDecoder);

impl RequestCodec for Tcp {
    type Error = TcpError;

    /// Clients do not wait for replies: a minion sends its events as they come.
    const MAX_MESSAGES: usize = 2048;

    fn decode(
        &mut self,
        bytes: &[u8],
        max: usize,
        mut take: impl FnMut(ClientMessage),
    ) -> Result<(), TcpError> {
        self.0.decode(bytes, max, |frame| {
            take(if frame.head.len() > MAX_HEAD {
                ClientMessage::Malformed
            } else {
                ClientMessage::Request {
                    mark: frame.head.to_vec(),
                    body: frame.body.to_vec(),
                }
            });
        })
    }

    fn is_midway(&self) -> bool {
        self.0.held() > 0
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn reply_start(mark: &[u8], _length: usize) -> Vec<u8> {
        tcp::frame_start(mark)
    }
}

/// WebSocket ([`halite_wire::ws`]). Its connections stay open however long they are idle, as those of [`Tcp`].
#[derive(Debug, Default)]
pub struct Ws(WsServer);

/// The server's side of a WebSocket.
#[derive(Debug)]
pub(crate) enum WsServer {
    Upgrade(ServerUpgrade),
    Open(ws::FrameDecoder),
}

impl Default for WsServer {
    fn default() -> WsServer {
        WsServer::Upgrade(ServerUpgrade::default())
    }
}

impl WsServer {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, WsServer::Open(_))
    }

    fn held(&self) -> usize {
        match self {
            WsServer::Upgrade(upgrade) => upgrade.held(),
            WsServer::Open(decoder) => decoder.held(),
        }
    }

    /// Decodes bytes and passes everything that they complete to `take`.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        max: usize,
        mut take: impl FnMut(WsInput),
    ) -> Result<(), WsError> {
        let first;
        let mut bytes = bytes;
        if let WsServer::Upgrade(upgrade) = self {
            let Some((response, frames)) = upgrade.push(bytes).map_err(WsError::Upgrade)? else {
                return Ok(());
            };
            take(WsInput::Upgraded(response));
            *self = WsServer::Open(ws::FrameDecoder::default());
            first = frames;
            bytes = &first;
        }
        let WsServer::Open(decoder) = self else {
            return Ok(());
        };
        decoder.decode(bytes, max, |event| {
            take(match event {
                WsEvent::Message(body) => WsInput::Message(body),
                WsEvent::Ping(context) => WsInput::Answer(ws::pong(&context)),
            });
        })
    }
}

/// What [`WsServer::decode`] finds.
pub(crate) enum WsInput {
    /// The stream is open once these bytes are sent.
    Upgraded(Vec<u8>),
    /// To be sent back.
    Answer(Vec<u8>),
    Message(Vec<u8>),
}

impl RequestCodec for Ws {
    type Error = WsError;

    /// A client has one request in flight; a few more are tolerated.
    const MAX_MESSAGES: usize = 64;

    fn decode(
        &mut self,
        bytes: &[u8],
        max: usize,
        mut take: impl FnMut(ClientMessage),
    ) -> Result<(), WsError> {
        self.0.decode(bytes, max, |input| {
            take(match input {
                WsInput::Upgraded(answer) | WsInput::Answer(answer) => {
                    ClientMessage::Answer(answer)
                }
                WsInput::Message(body) => ClientMessage::Request {
                    mark: Vec::new(),
                    body,
                },
            });
        })
    }

    fn is_midway(&self) -> bool {
        !self.0.is_open() || self.0.held() > 0
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn reply_start(_mark: &[u8], length: usize) -> Vec<u8> {
        ws::message_start(length)
    }
}
