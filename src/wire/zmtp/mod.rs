//! ZMTP, the protocol of ZeroMQ on TCP: greeting, NULL mechanism, commands of subscribers and frames to them, requests of
//! clients (ZMTP 3.0 and 3.1, RFCs 23 and 37 of rfc.zeromq.org; reference `salt-protocol.md` 1.2). No IO.

mod request;
#[cfg(test)]
mod tests;

pub use request::{RequestDecoder, RequestEvent};

use crate::incomplete::Incomplete;
use crate::{Spoken, Transport};
use std::fmt;

/// Bytes of a greeting.
pub const GREETING: usize = 64;
/// Bytes 1 and 10 of a version 3 greeting, with eight bytes of padding between them; byte 11 is the major version.
const FIRST: u8 = 0xff;
const TENTH: u8 = 0x7f;
const MAJOR: u8 = 3;
const MECHANISM: &[u8] = b"NULL";
/// Largest frame, in bytes, that a subscriber may send; it sends only subscriptions and heartbeats.
const LARGEST: usize = 4096;
/// Longest heartbeat context, in bytes, that is echoed (RFC 37).
const CONTEXT: usize = 16;

/// Frame flag: another part of the message follows.
pub const MORE: u8 = 1;
/// Frame flag: the length takes eight bytes.
const LONG: u8 = 2;
/// Frame flag: a command, not part of a message.
pub const COMMAND: u8 = 4;

/// Why a peer is not a ZMTP subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZmtpError {
    /// It does not start with a ZMTP 3 greeting, but with what looks like this.
    Greeting(Spoken),
    /// It requests another mechanism than NULL.
    Mechanism,
    /// Its first command is not READY.
    Unready,
    /// Its socket type is not SUB or XSUB.
    Socket,
    /// Its socket type is not REQ, DEALER or ROUTER.
    Client,
    /// A frame is malformed or larger than allowed, or a message has too many.
    Frame,
    /// A message that is no subscription.
    Message,
}

impl fmt::Display for ZmtpError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            ZmtpError::Greeting(spoken) => spoken.refusal(Transport::ZeroMq),
            ZmtpError::Mechanism => "it asks for encryption, which this port does not support",
            ZmtpError::Unready => "it did not send READY",
            ZmtpError::Socket => "it is not a subscriber",
            ZmtpError::Client => "it sends no requests",
            ZmtpError::Frame => "a frame is too large or malformed",
            ZmtpError::Message => "it sent a message, which subscribers do not",
        })
    }
}

/// A command or subscription message from a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// READY: the handshake is complete.
    Ready,
    /// Subscribes to publications with this prefix.
    Subscribe(Vec<u8>),
    /// Cancels the subscription to this prefix.
    Cancel(Vec<u8>),
    /// Heartbeat: requests a PONG with these bytes (16 at most).
    Ping(Vec<u8>),
    /// PONG, or a command that has no meaning here.
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Greeting,
    Handshake,
    Open,
}

/// Decodes the input of one subscriber. Buffers at most one incomplete frame, and nothing between frames.
#[derive(Debug, Default)]
pub struct SubscriberDecoder {
    rest: Incomplete,
    stage: Stage,
}

impl SubscriberDecoder {
    /// Whether greeting and handshake are complete.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Decodes bytes and passes each command that they complete to `take`.
    ///
    /// # Errors
    /// The peer is not a subscriber; no more may be decoded.
    pub fn decode(&mut self, bytes: &[u8], mut take: impl FnMut(Command)) -> Result<(), ZmtpError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.feed(bytes, |input| {
            let mut used = 0;
            while let Some((command, length)) = self.next(input.get(used..).unwrap_or_default())? {
                if let Some(command) = command {
                    take(command);
                }
                used += length;
            }
            Ok(used)
        })?;
        self.rest = rest;
        Ok(())
    }

    /// The next command and its length, once complete; for the greeting, `None` and its length.
    fn next(&mut self, left: &[u8]) -> Result<Option<(Option<Command>, usize)>, ZmtpError> {
        if self.stage == Stage::Greeting {
            let whole = is_greeting_complete(left)?;
            if whole {
                self.stage = Stage::Handshake;
            }
            return Ok(whole.then_some((None, GREETING)));
        }
        let Some((flags, body, used)) = frame(left, LARGEST)? else {
            return Ok(None);
        };
        let command = match flags & COMMAND {
            0 => message(flags, body)?,
            _ => command(body)?,
        };
        match (self.stage, &command) {
            (Stage::Open, _) => {}
            (_, Command::Ready) => self.stage = Stage::Open,
            _ => return Err(ZmtpError::Unready),
        }
        Ok(Some((Some(command), used)))
    }
}

/// Whether `bytes` hold a complete greeting.
///
/// # Errors
/// It is not the greeting of a ZMTP 3 peer with the mechanism NULL; fails at the first wrong byte.
pub fn is_greeting_complete(bytes: &[u8]) -> Result<bool, ZmtpError> {
    let is = |at: usize, right: &dyn Fn(u8) -> bool| bytes.get(at).is_none_or(|b| right(*b));
    if !is(0, &|b| b == FIRST) || !is(9, &|b| b == TENTH) || !is(10, &|b| b >= MAJOR) {
        // An older version has the same first byte.
        let spoken = bytes.first().map_or(Spoken::Unknown, |b| Spoken::of(*b));
        return Err(ZmtpError::Greeting(match spoken {
            Spoken::ZeroMq => Spoken::Unknown,
            other => other,
        }));
    }
    let Some(mechanism) = bytes.get(12..32) else {
        return Ok(false);
    };
    let padded = mechanism.strip_prefix(MECHANISM);
    if !padded.is_some_and(|rest| rest.iter().all(|b| *b == 0)) {
        return Err(ZmtpError::Mechanism);
    }
    Ok(bytes.len() >= GREETING)
}

/// Flags, body, and the length of the whole frame in bytes.
pub type Frame<'a> = (u8, &'a [u8], usize);

/// Decodes the first frame, of at most `largest` bytes; `None` if it is not complete.
///
/// # Errors
/// The frame is larger, or has unknown flags.
pub fn frame(bytes: &[u8], largest: usize) -> Result<Option<Frame<'_>>, ZmtpError> {
    let Some(flags) = bytes.first() else {
        return Ok(None);
    };
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(ZmtpError::Frame);
    }
    let (length, head) = match flags & LONG {
        0 => (bytes.get(1).map(|n| u64::from(*n)), 2),
        _ => {
            let length = bytes.get(1..9).and_then(|n| n.try_into().ok());
            (length.map(u64::from_be_bytes), 9)
        }
    };
    let Some(length) = length else {
        return Ok(None);
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > largest {
        return Err(ZmtpError::Frame);
    }
    let whole = bytes.get(head..head + length);
    Ok(whole.map(|body| (*flags, body, head + length)))
}

/// In ZMTP 3.0, subscriptions are messages.
fn message(flags: u8, body: &[u8]) -> Result<Command, ZmtpError> {
    match body.split_first() {
        Some((1, topic)) if flags & MORE == 0 => Ok(Command::Subscribe(topic.to_vec())),
        Some((0, topic)) if flags & MORE == 0 => Ok(Command::Cancel(topic.to_vec())),
        _ => Err(ZmtpError::Message),
    }
}

fn command(body: &[u8]) -> Result<Command, ZmtpError> {
    let (name, data) = named(body)?;
    Ok(match name {
        b"READY" => match ready_type(body)? {
            Some(b"SUB" | b"XSUB") => Command::Ready,
            _ => return Err(ZmtpError::Socket),
        },
        b"SUBSCRIBE" => Command::Subscribe(data.to_vec()),
        b"CANCEL" => Command::Cancel(data.to_vec()),
        _ => ping_context(body)?.map_or(Command::Other, Command::Ping),
    })
}

/// Name and data of a command.
///
/// # Errors
/// It is malformed.
pub fn named(body: &[u8]) -> Result<(&[u8], &[u8]), ZmtpError> {
    let (length, rest) = body.split_first().ok_or(ZmtpError::Frame)?;
    rest.split_at_checked(usize::from(*length))
        .ok_or(ZmtpError::Frame)
}

/// The socket type in READY; `None` for another command, empty if there is none.
fn ready_type(body: &[u8]) -> Result<Option<&[u8]>, ZmtpError> {
    match named(body)? {
        (b"READY", data) => Ok(Some(property(data, b"Socket-Type")?.unwrap_or_default())),
        _ => Ok(None),
    }
}

/// What PING wants to have back, 16 bytes at most; `None` for another command.
///
/// # Errors
/// The command is malformed.
pub fn ping_context(body: &[u8]) -> Result<Option<Vec<u8>>, ZmtpError> {
    let (b"PING", data) = named(body)? else {
        return Ok(None);
    };
    // The first two bytes are how long the peer will wait for a sign of life.
    let context = data.get(2..).ok_or(ZmtpError::Frame)?;
    Ok(Some(context.iter().copied().take(CONTEXT).collect()))
}

/// A property of READY; names are case-insensitive.
fn property<'a>(mut data: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>, ZmtpError> {
    let mut found = None;
    while let Some((length, rest)) = data.split_first() {
        let (name, rest) = rest
            .split_at_checked(usize::from(*length))
            .ok_or(ZmtpError::Frame)?;
        let (length, rest) = rest.split_at_checked(4).ok_or(ZmtpError::Frame)?;
        let length = length.try_into().map_or(0, u32::from_be_bytes) as usize;
        let (value, rest) = rest.split_at_checked(length).ok_or(ZmtpError::Frame)?;
        if name.eq_ignore_ascii_case(wanted) {
            found = Some(value);
        }
        data = rest;
    }
    Ok(found)
}

/// What a publisher sends first: greeting and READY.
pub fn hello() -> Vec<u8> {
    handshake("PUB")
}

/// Greeting and READY of a socket of this type.
pub fn handshake(socket_type: &str) -> Vec<u8> {
    let mut out = vec![FIRST, 0, 0, 0, 0, 0, 0, 0, 1, TENTH, MAJOR, 1];
    out.extend_from_slice(MECHANISM);
    out.resize(GREETING, 0);
    let mut properties = Vec::new();
    for (name, value) in [("Socket-Type", socket_type), ("Identity", "")] {
        properties.push(name.len() as u8);
        properties.extend_from_slice(name.as_bytes());
        properties.extend_from_slice(&(value.len() as u32).to_be_bytes());
        properties.extend_from_slice(value.as_bytes());
    }
    out.extend(command_frame(b"READY", &properties));
    out
}

/// A heartbeat for a peer of version 3.1.
pub fn ping() -> Vec<u8> {
    command_frame(b"PING", &[0, 0])
}

/// Subscribes to publications that start with `topic` (ZMTP 3.1).
pub fn subscribe(topic: &[u8]) -> Vec<u8> {
    command_frame(b"SUBSCRIBE", topic)
}

/// The reply to [`Command::Ping`].
pub fn pong(context: &[u8]) -> Vec<u8> {
    command_frame(b"PONG", context)
}

fn command_frame(name: &[u8], data: &[u8]) -> Vec<u8> {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name);
    body.extend_from_slice(data);
    framed(COMMAND, &body)
}

/// The frame of an empty part that another part follows: what comes before a request and its reply.
pub const EMPTY_PART: &[u8] = &[MORE, 0];

/// The frame of one message part; `more` if another part follows.
pub fn part(body: &[u8], more: bool) -> Vec<u8> {
    framed(if more { MORE } else { 0 }, body)
}

/// The start of such a frame, before its body of `length` bytes.
pub fn part_header(length: usize, more: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(9);
    put_header(&mut out, if more { MORE } else { 0 }, length);
    out
}

fn framed(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(9 + body.len());
    put_header(&mut out, flags, body.len());
    out.extend_from_slice(body);
    out
}

fn put_header(out: &mut Vec<u8>, flags: u8, length: usize) {
    match u8::try_from(length) {
        Ok(length) => out.extend([flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}
