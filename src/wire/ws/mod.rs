//! WebSocket (RFC 6455), as far as `transport: ws` uses it: the upgrade, and binary messages without extensions
//! (`salt/transport/ws.py`; reference `salt-transports.md` 2). No IO.

mod upgrade;

pub use upgrade::{ClientUpgrade, ServerUpgrade, UpgradeError, request};

use crate::incomplete::Incomplete;
use std::fmt;

/// Longest frame of control, in bytes (RFC 6455 5.5).
const MAX_CONTROL: usize = 125;
/// What a client of stock sends as text to end a connection.
const CLOSE_TEXT: &[u8] = b"close";

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Why a peer does not speak WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WsError {
    /// The upgrade failed.
    Upgrade(UpgradeError),
    /// A message or frame of control is larger than allowed.
    TooLarge,
    /// A frame that the protocol does not allow.
    Frame,
    /// It has ended the stream.
    Closed,
}

impl fmt::Display for WsError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            WsError::Upgrade(e) => return e.fmt(f),
            WsError::TooLarge => "a message is too large",
            WsError::Frame => "a frame is malformed",
            WsError::Closed => "it has ended the WebSocket stream",
        })
    }
}

impl std::error::Error for WsError {}

/// What a peer has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WsEvent {
    /// A binary message.
    Message(Vec<u8>),
    /// A heartbeat; send it [`pong`] with these bytes.
    Ping(Vec<u8>),
}

/// Decodes frames. Buffers at most one message.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    rest: Incomplete,
    /// The message so far, if it is in fragments.
    message: Option<(Opcode, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

/// A frame: its first byte, payload, and length of the whole frame.
type Frame = (u8, Vec<u8>, usize);

impl FrameDecoder {
    /// Bytes of an incomplete message that are held.
    pub fn held(&self) -> usize {
        self.rest.len() + self.message.as_ref().map_or(0, |(_, held)| held.len())
    }

    /// Decodes bytes and passes everything that they complete to `take`. A message has at most `max` bytes.
    ///
    /// # Errors
    /// The peer violates the protocol or has ended the stream; no more may be decoded.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        max: usize,
        mut take: impl FnMut(WsEvent),
    ) -> Result<(), WsError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.feed(bytes, |bytes| {
            let mut used = 0;
            while let Some((first, payload, length)) = frame(&bytes[used..], max)? {
                self.frame(first, payload, max, &mut take)?;
                used += length;
            }
            Ok(used)
        })?;
        self.rest = rest;
        Ok(())
    }

    fn frame(
        &mut self,
        first: u8,
        payload: Vec<u8>,
        max: usize,
        take: &mut impl FnMut(WsEvent),
    ) -> Result<(), WsError> {
        let is_last = first & FIN != 0;
        let (opcode, mut whole) = match opcode(first)? {
            Opcode::Close => return Err(WsError::Closed),
            Opcode::Ping => {
                take(WsEvent::Ping(payload));
                return Ok(());
            }
            Opcode::Pong => return Ok(()),
            Opcode::Continuation => self.message.take().ok_or(WsError::Frame)?,
            _ if self.message.is_some() => return Err(WsError::Frame),
            opcode => (opcode, Vec::new()),
        };
        if whole.len() + payload.len() > max {
            return Err(WsError::TooLarge);
        }
        if whole.is_empty() {
            whole = payload;
        } else {
            whole.extend_from_slice(&payload);
        }
        match (is_last, opcode) {
            (false, _) => self.message = Some((opcode, whole)),
            (true, Opcode::Binary) => take(WsEvent::Message(whole)),
            (true, _) if whole == CLOSE_TEXT => return Err(WsError::Closed),
            (true, _) => {}
        }
        Ok(())
    }
}

fn opcode(first: u8) -> Result<Opcode, WsError> {
    if first & RESERVED != 0 {
        return Err(WsError::Frame);
    }
    let opcode = match first & 0x0f {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return Err(WsError::Frame),
    };
    let is_control = first & 0x08 != 0;
    if is_control && first & FIN == 0 {
        return Err(WsError::Frame);
    }
    Ok(opcode)
}

/// The first frame, unmasked, if it is complete.
fn frame(bytes: &[u8], max: usize) -> Result<Option<Frame>, WsError> {
    let [first, second, rest @ ..] = bytes else {
        return Ok(None);
    };
    opcode(*first)?;
    let number = |width: usize| {
        let length = rest.get(..width)?;
        Some(length.iter().fold(0u64, |n, b| n << 8 | u64::from(*b)))
    };
    let (width, length) = match second & !MASKED {
        126 => (2, number(2)),
        127 => (8, number(8)),
        short => (0, Some(short.into())),
    };
    let Some(length) = length else {
        return Ok(None);
    };
    let is_control = first & 0x08 != 0;
    let most = if is_control { MAX_CONTROL } else { max };
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= most);
    let length = length.ok_or(WsError::TooLarge)?;
    let mask = if second & MASKED != 0 { 4 } else { 0 };
    let Some((head, payload)) = rest.split_at_checked(width + mask) else {
        return Ok(None);
    };
    let Some(payload) = payload.get(..length) else {
        return Ok(None);
    };
    let mut payload = payload.to_vec();
    if let Some(key) = head.get(width..).and_then(|key| key.first_chunk()) {
        apply_mask(&mut payload, *key);
    }
    Ok(Some((*first, payload, 2 + width + mask + length)))
}

fn apply_mask(payload: &mut [u8], key: [u8; 4]) {
    for (byte, key) in payload.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// What precedes a server's binary message of `length` bytes.
pub fn message_start(length: usize) -> Vec<u8> {
    start(FIN | 2, length, 0)
}

/// A client's binary message. Its mask is to be random (RFC 6455 5.3).
pub fn masked_message(body: &[u8], mask: [u8; 4]) -> Vec<u8> {
    masked(FIN | 2, body, mask)
}

/// A server's answer to a heartbeat.
pub fn pong(context: &[u8]) -> Vec<u8> {
    let mut frame = start(FIN | 10, context.len(), 0);
    frame.extend_from_slice(context);
    frame
}

/// A client's answer to a heartbeat.
pub fn masked_pong(context: &[u8], mask: [u8; 4]) -> Vec<u8> {
    masked(FIN | 10, context, mask)
}

fn masked(first: u8, body: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut frame = start(first, body.len(), MASKED);
    frame.extend_from_slice(&mask);
    let at = frame.len();
    frame.extend_from_slice(body);
    apply_mask(&mut frame[at..], mask);
    frame
}

fn start(first: u8, length: usize, masked: u8) -> Vec<u8> {
    let mut frame = vec![first];
    if length < 126 {
        frame.push(masked | length as u8);
    } else if let Ok(length) = u16::try_from(length) {
        frame.push(masked | 126);
        frame.extend_from_slice(&length.to_be_bytes());
    } else {
        frame.push(masked | 127);
        frame.extend_from_slice(&(length as u64).to_be_bytes());
    }
    frame
}

#[cfg(test)]
mod tests;
