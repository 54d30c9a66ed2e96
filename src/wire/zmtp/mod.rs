//! The protocol of ZeroMQ on TCP as a publisher speaks it: greeting, the mechanism NULL, what subscribers say, frames
//! for them (ZMTP 3.0 and 3.1, RFCs 23 and 37 of rfc.zeromq.org; reference `salt-protocol.md` 1.2). No IO.

#[cfg(test)]
mod tests;

use std::fmt;

/// Bytes of a greeting.
pub const GREETING: usize = 64;
/// The beginning of every greeting of version 3, up to the major version; the eight octets between are padding.
const FIRST: u8 = 0xff;
const TENTH: u8 = 0x7f;
const MAJOR: u8 = 3;
const MECHANISM: &[u8] = b"NULL";
/// Bytes of the largest frame that a subscriber may send; it only ever sends subscriptions and heartbeats.
const LARGEST: usize = 4096;
/// Bytes of a heartbeat's context that are sent back (RFC 37).
const CONTEXT: usize = 16;

/// Frame flag: another part of the message follows.
pub const MORE: u8 = 1;
/// Frame flag: the length takes eight bytes.
const LONG: u8 = 2;
/// Frame flag: a command, not part of a message.
pub const COMMAND: u8 = 4;

/// Why a connection is no subscriber's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin as ZeroMQ of version 3 does.
    Greeting,
    /// It asks for another mechanism than NULL.
    Mechanism,
    /// The first word is not READY.
    Unready,
    /// It is another kind of socket than SUB or XSUB.
    Socket,
    /// A frame is larger than subscribers' frames are, or broken.
    Frame,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Fault::Greeting => "it does not speak ZMTP 3",
            Fault::Mechanism => "it asks for encryption, which this port has not",
            Fault::Unready => "it does not say READY",
            Fault::Socket => "it is no subscriber",
            Fault::Frame => "a frame is too large or broken",
        })
    }
}

/// What a subscriber says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is ready to subscribe.
    Ready,
    /// It wants what begins with this.
    Subscribe(Vec<u8>),
    /// It wants that no longer.
    Cancel(Vec<u8>),
    /// It wants to hear that we live, with these bytes (16 at most).
    Ping(Vec<u8>),
    /// It lives, or says what means nothing here.
    Other,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Greeting,
    Handshake,
    Open,
}

/// Reads what one subscriber says. Holds at most one unfinished frame, and no memory between frames.
#[derive(Debug, Default)]
pub struct Listener {
    rest: Vec<u8>,
    stage: Stage,
}

impl Listener {
    /// Whether greeting and handshake are over.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Takes in bytes and hands each word that they complete to `take`.
    ///
    /// # Errors
    /// The peer is no subscriber; nothing after that may be read.
    pub fn hear(&mut self, octets: &[u8], mut take: impl FnMut(Word)) -> Result<(), Fault> {
        let held = std::mem::take(&mut self.rest);
        let joined;
        let mut left = if held.is_empty() {
            octets
        } else {
            joined = [held.as_slice(), octets].concat();
            &joined
        };
        while let Some((word, used)) = self.next(left)? {
            if let Some(word) = word {
                take(word);
            }
            left = left.get(used..).unwrap_or_default();
        }
        self.rest = left.to_vec();
        Ok(())
    }

    /// The next word, if it is a whole one and not the greeting, and the bytes it takes.
    fn next(&mut self, left: &[u8]) -> Result<Option<(Option<Word>, usize)>, Fault> {
        if self.stage == Stage::Greeting {
            let whole = greeted(left)?;
            if whole {
                self.stage = Stage::Handshake;
            }
            return Ok(whole.then_some((None, GREETING)));
        }
        let Some((flags, body, used)) = frame(left, LARGEST)? else {
            return Ok(None);
        };
        let word = match flags & COMMAND {
            0 => message(flags, body),
            _ => command(body)?,
        };
        match (self.stage, &word) {
            (Stage::Open, _) => {}
            (_, Word::Ready) => self.stage = Stage::Open,
            _ => return Err(Fault::Unready),
        }
        Ok(Some((Some(word), used)))
    }
}

/// Whether a greeting is complete.
///
/// # Errors
/// It is not the greeting of a ZMTP 3 peer with the mechanism NULL; this is found with the first wrong byte.
pub fn greeted(octets: &[u8]) -> Result<bool, Fault> {
    let is = |at: usize, right: &dyn Fn(u8) -> bool| octets.get(at).is_none_or(|b| right(*b));
    if !is(0, &|b| b == FIRST) || !is(9, &|b| b == TENTH) || !is(10, &|b| b >= MAJOR) {
        return Err(Fault::Greeting);
    }
    let Some(mechanism) = octets.get(12..32) else {
        return Ok(false);
    };
    let padded = mechanism.strip_prefix(MECHANISM);
    if !padded.is_some_and(|rest| rest.iter().all(|b| *b == 0)) {
        return Err(Fault::Mechanism);
    }
    Ok(octets.len() >= GREETING)
}

/// Flags, body, and the octets of both with the length between.
pub type Frame<'a> = (u8, &'a [u8], usize);

/// The first frame, of at most `largest` bytes; `None` if it is not complete.
///
/// # Errors
/// The frame is larger, or has unknown flags.
pub fn frame(octets: &[u8], largest: usize) -> Result<Option<Frame<'_>>, Fault> {
    let Some(flags) = octets.first() else {
        return Ok(None);
    };
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(Fault::Frame);
    }
    let (length, head) = match flags & LONG {
        0 => (octets.get(1).map(|n| u64::from(*n)), 2),
        _ => {
            let length = octets.get(1..9).and_then(|n| n.try_into().ok());
            (length.map(u64::from_be_bytes), 9)
        }
    };
    let Some(length) = length else {
        return Ok(None);
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > largest {
        return Err(Fault::Frame);
    }
    let whole = octets.get(head..head + length);
    Ok(whole.map(|body| (*flags, body, head + length)))
}

/// Subscriptions of ZMTP 3.0 are messages.
fn message(flags: u8, body: &[u8]) -> Word {
    match body.split_first() {
        Some((1, topic)) if flags & MORE == 0 => Word::Subscribe(topic.to_vec()),
        Some((0, topic)) if flags & MORE == 0 => Word::Cancel(topic.to_vec()),
        _ => Word::Other,
    }
}

fn command(body: &[u8]) -> Result<Word, Fault> {
    let (length, rest) = body.split_first().ok_or(Fault::Frame)?;
    let (name, data) = rest
        .split_at_checked(usize::from(*length))
        .ok_or(Fault::Frame)?;
    Ok(match name {
        b"READY" => match property(data, b"Socket-Type")? {
            Some(b"SUB" | b"XSUB") => Word::Ready,
            _ => return Err(Fault::Socket),
        },
        b"SUBSCRIBE" => Word::Subscribe(data.to_vec()),
        b"CANCEL" => Word::Cancel(data.to_vec()),
        // Two bytes say how long the peer will wait for a sign of life.
        b"PING" => {
            let context = data.get(2..).ok_or(Fault::Frame)?;
            Word::Ping(context.iter().copied().take(CONTEXT).collect())
        }
        _ => Word::Other,
    })
}

/// A property of READY; names do not tell case.
fn property<'a>(mut data: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>, Fault> {
    let mut found = None;
    while let Some((length, rest)) = data.split_first() {
        let (name, rest) = rest
            .split_at_checked(usize::from(*length))
            .ok_or(Fault::Frame)?;
        let (length, rest) = rest.split_at_checked(4).ok_or(Fault::Frame)?;
        let length = length.try_into().map_or(0, u32::from_be_bytes) as usize;
        let (value, rest) = rest.split_at_checked(length).ok_or(Fault::Frame)?;
        if name.eq_ignore_ascii_case(wanted) {
            found = Some(value);
        }
        data = rest;
    }
    Ok(found)
}

/// What a publisher says first: its greeting, and that it is ready.
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
    out.extend(said(b"READY", &properties));
    out
}

/// Asks a peer of version 3.1 whether it lives.
pub fn ping() -> Vec<u8> {
    said(b"PING", &[0, 0])
}

/// Subscribes to what begins with `topic` (ZMTP 3.1).
pub fn subscribe(topic: &[u8]) -> Vec<u8> {
    said(b"SUBSCRIBE", topic)
}

/// The answer to [`Word::Ping`].
pub fn pong(context: &[u8]) -> Vec<u8> {
    said(b"PONG", context)
}

fn said(name: &[u8], data: &[u8]) -> Vec<u8> {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name);
    body.extend_from_slice(data);
    framed(COMMAND, &body)
}

/// One part of a message as a frame; `more` if another part follows.
pub fn part(body: &[u8], more: bool) -> Vec<u8> {
    framed(if more { MORE } else { 0 }, body)
}

fn framed(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(9 + body.len());
    match u8::try_from(body.len()) {
        Ok(length) => out.extend([flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
    out
}
