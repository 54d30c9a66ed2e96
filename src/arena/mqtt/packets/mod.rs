//! Splits a stream of bytes into packets of MQTT 5, and describes their reason codes.
//!
//! The packets themselves are encoded and decoded by `rumqttc`. Frames are split here, so that their size is checked
//! before they are stored; and acknowledgements are decoded here, since brokers send reason codes that the
//! specification does not allow.

use bytes::{Buf, Bytes, BytesMut};
use rumqttc::v5::mqttbytes::Error;
use rumqttc::v5::mqttbytes::v5::{Packet, SubscribeReasonCode};

/// Size limit of the header in front of a packet's content, in bytes.
const HEADER: usize = 5;
/// Reason codes from here on are errors.
const REFUSED: u8 = 0x80;

/// The type of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckKind {
    /// PUBACK: a publication with QoS 1 was delivered.
    There,
    /// PUBREC: one with QoS 2 was received.
    Received,
    /// PUBCOMP: it was delivered, once.
    Complete,
}

/// A packet from the broker.
#[derive(Debug)]
pub(super) enum Frame {
    /// An acknowledgement of a publication, with its id, and the reason code if it is rejected.
    Ack(AckKind, u16, Option<u8>),
    /// CONNACK: the broker refuses the connection, with the reason.
    Refused(String),
    /// DISCONNECT: the broker closes the connection, with the reason.
    Goodbye(String),
    /// Any other packet.
    Packet(Box<Packet>),
}

/// Splits the input into frames.
pub(super) struct Decoder {
    unread: BytesMut,
    largest: usize,
}

impl Decoder {
    /// Frames may be up to `largest` bytes.
    pub(super) fn new(largest: usize) -> Decoder {
        Decoder {
            unread: BytesMut::new(),
            largest,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Whether the input so far can be the answer to a CONNECT.
    pub(super) fn may_be_connack(&self) -> bool {
        // CONNACK, DISCONNECT.
        matches!(self.unread.first(), None | Some(0x20 | 0xe0))
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// The input is not MQTT 5, or the frame is larger than agreed.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, String> {
        let Some((header, content)) = lengths(&self.unread)? else {
            return Ok(None);
        };
        let whole = header + content;
        if whole > self.largest {
            return Err(format!(
                "it sends a packet of {whole} bytes; the limit is {} (max_packet)",
                self.largest
            ));
        }
        if self.unread.len() < whole {
            return Ok(None);
        }
        // A copy, so that a stored payload does not keep the whole buffer alive.
        let frame = BytesMut::from(&self.unread[..whole]);
        self.unread.advance(whole);
        if self.unread.is_empty() {
            // Large packets are rare: do not keep the buffer for ever.
            self.unread = BytesMut::new();
        }
        read(frame, header).map(Some)
    }
}

/// Sizes of a frame's header and content in bytes, once both are known.
fn lengths(bytes: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let mut content = 0;
    for (at, byte) in bytes.iter().enumerate().skip(1).take(HEADER - 1) {
        content |= usize::from(byte & 0x7f) << (7 * (at - 1));
        if byte & 0x80 == 0 {
            return Ok(Some((at + 1, content)));
        }
    }
    if bytes.len() < HEADER {
        Ok(None)
    } else {
        Err(malformed(&Error::MalformedRemainingLength))
    }
}

fn read(mut frame: BytesMut, header: usize) -> Result<Frame, String> {
    let kind = frame.first().map_or(0, |byte| byte >> 4);
    let content = &frame[header..];
    let number = |content: &[u8]| match content {
        [high, low, ..] => Ok(u16::from_be_bytes([*high, *low])),
        _ => Err(malformed(&Error::MalformedPacket)),
    };
    let ack = |step| {
        let refused = content.get(2).copied().filter(|code| *code >= REFUSED);
        Ok(Frame::Ack(step, number(content)?, refused))
    };
    match (kind, content) {
        (2, [_, code, ..]) if *code != 0 => {
            let words = connect_error(*code);
            let packet = Packet::read(&mut frame, None);
            let reason = match packet {
                Ok(Packet::ConnAck(ack)) => ack.properties.and_then(|p| p.reason_string),
                _ => None,
            };
            Ok(Frame::Refused(with_reason(words, reason)))
        }
        (4, _) => ack(AckKind::There),
        (5, _) => ack(AckKind::Received),
        (7, _) => ack(AckKind::Complete),
        (14, _) => {
            let code = content.first().copied().unwrap_or(0);
            let reason = match Packet::read(&mut frame, None) {
                Ok(Packet::Disconnect(end)) => end.properties.and_then(|p| p.reason_string),
                _ => None,
            };
            let words = format!("it disconnected: {}", reason_text(code));
            Ok(Frame::Goodbye(with_reason(words, reason)))
        }
        _ => match Packet::read(&mut frame, None) {
            Ok(packet) => Ok(Frame::Packet(Box::new(packet))),
            Err(e) => Err(malformed(&e)),
        },
    }
}

fn malformed(error: &Error) -> String {
    let why = match error {
        // The frame is complete, but something in it claims to be longer.
        Error::InsufficientBytes(_) => "a packet is cut off".to_owned(),
        other => other.to_string(),
    };
    format!("it violates MQTT 5: {why}")
}

fn with_reason(words: String, reason: Option<String>) -> String {
    match reason.filter(|reason| !reason.is_empty()) {
        Some(reason) => {
            let reason: String = reason.chars().take(300).collect();
            format!("{words} ({reason})")
        }
        None => words,
    }
}

/// Describes why the broker refuses the connection, and what to check.
fn connect_error(code: u8) -> String {
    match code {
        // Codes of MQTT 3.1.1, whose brokers do not know those of 5.
        1..=5 | 0x84 => "it does not speak MQTT 5".to_owned(),
        0x85 => "it refuses the client id".to_owned(),
        0x86 => "it refuses user or password".to_owned(),
        0x87 => "it refuses user or password, or the certificate (not authorized)".to_owned(),
        _ => reason_text(code).to_owned(),
    }
}

/// Describes a reason code.
pub(super) fn reason_text(code: u8) -> &'static str {
    match code {
        0x00 => "normal disconnection",
        0x81 => "it considers one of our packets malformed",
        0x82 => "protocol error",
        0x83 => "it cannot do that",
        0x87 => "not authorized",
        0x88 => "it is not available",
        0x89 => "it is busy",
        0x8a => "this client is banned",
        0x8b => "it shuts down",
        0x8c => "it requires another authentication method",
        0x8d => "it received nothing from us for too long",
        0x8e => "another client has connected with the same client id",
        0x8f => "it does not accept this filter",
        0x90 => "it does not accept this topic",
        0x91 => "this packet id is in use",
        0x93 => "too many publications at once",
        0x95 => "larger than it accepts",
        0x96 => "too many messages in a short time",
        0x97 => "a quota is used up",
        0x98 => "its operator closed the connection",
        0x99 => "the payload does not have the declared format",
        0x9b => "it does not support this quality of service",
        0x9c | 0x9d => "another server must be used",
        0x9e => "it does not support shared subscriptions",
        0x9f => "too many connections in a short time",
        0xa0 => "the maximum connect time is over",
        0xa2 => "it does not support wildcards",
        _ => "for an unknown reason",
    }
}

/// Why a subscription is rejected, if it is.
pub(super) fn subscribe_error(code: SubscribeReasonCode) -> Option<&'static str> {
    use SubscribeReasonCode as Code;
    let code = match code {
        Code::Success(_) => return None,
        Code::Failure | Code::Unspecified => 0x80,
        Code::ImplementationSpecific => 0x83,
        Code::NotAuthorized => 0x87,
        Code::TopicFilterInvalid => 0x8f,
        Code::PkidInUse => 0x91,
        Code::QuotaExceeded => 0x97,
        Code::SharedSubscriptionsNotSupported => 0x9e,
        Code::SubscriptionIdNotSupported => 0xa1,
        Code::WildcardSubscriptionsNotSupported => 0xa2,
    };
    Some(reason_text(code))
}

/// A topic as text.
pub(super) fn text(topic: &Bytes) -> Result<String, String> {
    match std::str::from_utf8(topic) {
        Ok(topic) if !topic.is_empty() => Ok(topic.to_owned()),
        _ => Err(malformed(&Error::TopicNotUtf8)),
    }
}

#[cfg(test)]
mod tests;
