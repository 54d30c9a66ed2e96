//! What the publish port and its subscribers say to each other, byte by byte. [`PublishServer`](super::PublishServer) knows
//! [`SubscriberCodec`] alone; another transport is another type that implements it.

use halite_wire::zmtp::{self, Command};
use std::fmt;

/// What a subscriber says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriberMessage {
    /// It wants what begins with this.
    Subscribe(Vec<u8>),
    /// It wants that no longer.
    Cancel(Vec<u8>),
    /// It wants a [`pong`](SubscriberCodec::pong) with these bytes.
    Ping(Vec<u8>),
    /// It is alive.
    Other,
}

/// The protocol of one connection to a publish port. No IO. The functions without `self` make frames, each shared by all
/// the subscribers that get it.
pub trait SubscriberCodec: Default {
    /// Why a connection is not a subscriber's.
    type Error: fmt::Display;

    /// Takes in what was read, any number of bytes, and hands each message that they complete to `take`.
    ///
    /// # Errors
    /// The peer is not a subscriber; nothing after that may be read.
    fn decode(
        &mut self,
        bytes: &[u8],
        take: impl FnMut(SubscriberMessage),
    ) -> Result<(), Self::Error>;

    /// Whether the handshake is over.
    fn is_open(&self) -> bool;

    /// What the server says first; may be empty.
    fn hello() -> Vec<u8>;

    /// A publication, or a part of it that `more` follow. It ends with `body`.
    fn frame(body: &[u8], more: bool) -> Vec<u8>;

    /// Asks a subscriber whether it lives.
    fn ping() -> Vec<u8>;

    /// The answer to [`SubscriberMessage::Ping`].
    fn pong(context: &[u8]) -> Vec<u8>;
}

/// ZMTP 3, which SUB sockets of ZeroMQ speak ([`halite_wire::zmtp`]).
#[derive(Debug, Default)]
pub struct Zmtp(zmtp::SubscriberDecoder);

impl SubscriberCodec for Zmtp {
    type Error = zmtp::ZmtpError;

    fn decode(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(SubscriberMessage),
    ) -> Result<(), zmtp::ZmtpError> {
        self.0.decode(bytes, |command| {
            take(match command {
                Command::Subscribe(topic) => SubscriberMessage::Subscribe(topic),
                Command::Cancel(topic) => SubscriberMessage::Cancel(topic),
                Command::Ping(context) => SubscriberMessage::Ping(context),
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

    fn ping() -> Vec<u8> {
        zmtp::ping()
    }

    fn pong(context: &[u8]) -> Vec<u8> {
        zmtp::pong(context)
    }
}
