//! The protocol between the publish port and its subscribers. [`PublishServer`](super::PublishServer) uses only
//! [`SubscriberCodec`]; to add a transport, implement it.

use crate::front::{WsInput, WsServer};
use halite_wire::msgpack;
use halite_wire::tcp::{self, FrameDecoder, TcpError};
use halite_wire::ws::{self, WsError};
use halite_wire::zmtp::{self, Command};
use std::fmt;

/// A message from a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriberMessage {
    /// Subscribes to publications with this prefix.
    Subscribe(Vec<u8>),
    /// Cancels the subscription to this prefix.
    Cancel(Vec<u8>),
    /// Something that is to be answered with these bytes.
    Answer(Vec<u8>),
    /// Says which minion it is: msgpack of an envelope, which somebody else must check.
    Claim(Vec<u8>),
    /// Anything else; only shows that the subscriber is alive.
    Other,
}

/// The protocol of one connection to a publish port. No IO. The functions without `self` encode frames, which are shared
/// by all subscribers that get them.
pub trait SubscriberCodec: Default {
    /// Why the peer is not a valid subscriber.
    type Error: fmt::Display;

    /// Whether subscribers name the topics they want, and get each publication with its topic. If not, they get everything
    /// until [`PublishPort::register`](super::PublishPort::register), and each publication once.
    const TOPICS: bool;

    /// Whether subscribers get publications from the start, without a subscription.
    const AT_ONCE: bool = false;

    /// Decodes any number of bytes and passes each message that they complete to `take`.
    ///
    /// # Errors
    /// The peer is not a subscriber; no more may be decoded.
    fn decode(
        &mut self,
        bytes: &[u8],
        take: impl FnMut(SubscriberMessage),
    ) -> Result<(), Self::Error>;

    /// Whether the handshake is complete.
    fn is_open(&self) -> bool;

    /// What the server sends first.
    fn hello() -> Vec<u8> {
        Vec::new()
    }

    /// The frame of a publication, or of a part of it if `more` parts follow. It ends with `body`.
    fn frame(body: &[u8], more: bool) -> Vec<u8>;

    /// A heartbeat; `None` if the protocol has none.
    fn ping() -> Option<Vec<u8>> {
        None
    }
}

/// ZMTP 3, the protocol of ZeroMQ's SUB sockets ([`halite_wire::zmtp`]).
#[derive(Debug, Default)]
pub struct Zmtp(zmtp::SubscriberDecoder);

impl SubscriberCodec for Zmtp {
    type Error = zmtp::ZmtpError;

    const TOPICS: bool = true;

    fn decode(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(SubscriberMessage),
    ) -> Result<(), zmtp::ZmtpError> {
        self.0.decode(bytes, |command| {
            take(match command {
                Command::Subscribe(topic) => SubscriberMessage::Subscribe(topic),
                Command::Cancel(topic) => SubscriberMessage::Cancel(topic),
                Command::Ping(context) => SubscriberMessage::Answer(zmtp::pong(&context)),
                Command::Ready | Command::Other => SubscriberMessage::Other,
            });
        })
    }

    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    fn hello() -> Vec<u8> {
        zmtp::hello()
    }

    fn frame(body: &[u8], more: bool) -> Vec<u8> {
        zmtp::part(body, more)
    }

    fn ping() -> Option<Vec<u8>> {
        Some(zmtp::ping())
    }
}

/// Largest frame that a subscriber sends, in bytes: its envelope has an id and a signature.
const MAX_CLAIM: usize = 8 << 10;

/// Salt's TCP transport ([`halite_wire::tcp`]).
#[derive(Debug, Default)]
pub struct Tcp {
    decoder: FrameDecoder,
    is_open: bool,
}

impl SubscriberCodec for Tcp {
    type Error = TcpError;

    const TOPICS: bool = false;

    const AT_ONCE: bool = true;

    fn decode(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(SubscriberMessage),
    ) -> Result<(), TcpError> {
        let is_open = &mut self.is_open;
        self.decoder.decode(bytes, MAX_CLAIM, |frame| {
            *is_open = true;
            take(SubscriberMessage::Claim(frame.body.to_vec()));
        })
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn frame(body: &[u8], _more: bool) -> Vec<u8> {
        tcp::publication(body)
    }
}

/// WebSocket ([`halite_wire::ws`]): everybody gets everything, once the stream is open. Halite's minions then say who they are,
/// as all do over tcp; stock's send nothing.
#[derive(Debug, Default)]
pub struct Ws(WsServer);

impl SubscriberCodec for Ws {
    type Error = WsError;

    const TOPICS: bool = false;

    fn decode(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(SubscriberMessage),
    ) -> Result<(), WsError> {
        self.0.decode(bytes, MAX_CLAIM, |input| match input {
            WsInput::Upgraded(answer) => {
                take(SubscriberMessage::Answer(answer));
                take(SubscriberMessage::Subscribe(Vec::new()));
            }
            WsInput::Answer(answer) => take(SubscriberMessage::Answer(answer)),
            WsInput::Message(body) => take(SubscriberMessage::Claim(body)),
        })
    }

    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    fn frame(body: &[u8], _more: bool) -> Vec<u8> {
        let mut wrapped = Vec::new();
        msgpack::put_bin_header(&mut wrapped, body.len());
        let length = wrapped.len() + body.len();
        [ws::message_start(length), wrapped, body.to_vec()].concat()
    }
}
