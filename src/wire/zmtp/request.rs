//! The server's side of a request port: what clients with REQ or DEALER sockets send. No IO.

use super::{COMMAND, GREETING, MORE, Stage, ZmtpError, frame, is_greeting_complete, ready_type};
use crate::incomplete::Incomplete;

/// Largest command, in bytes; clients send READY and heartbeats.
const MAX_COMMAND: usize = 4096;
/// Most frames of a message; a request has two, and is worth a note with some more.
const MAX_FRAMES: usize = 8;

/// What a client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestEvent {
    /// A request.
    Request(Vec<u8>),
    /// A message that is no request: an empty frame and another one.
    Malformed,
    /// Heartbeat: requests a PONG with these bytes.
    Ping(Vec<u8>),
    /// READY, PONG, or a command that has no meaning here.
    Other,
}

/// Decodes the input of one client. Buffers at most one incomplete message.
#[derive(Debug, Default)]
pub struct RequestDecoder {
    rest: Incomplete,
    stage: Stage,
    /// Frames of the incomplete message.
    frames: usize,
    /// Whether they are no request.
    malformed: bool,
}

impl RequestDecoder {
    /// Whether greeting and handshake are complete.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Bytes of the incomplete message that are held.
    pub fn held(&self) -> usize {
        self.rest.len()
    }

    /// Whether a message or the handshake has begun and is not complete.
    pub fn is_midway(&self) -> bool {
        !self.is_open() || self.frames > 0 || self.rest.len() > 0
    }

    /// Decodes bytes and passes everything that they complete to `take`. A message has at most `max_message` bytes.
    ///
    /// # Errors
    /// The peer is not a client; no more may be decoded.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        max_message: usize,
        mut take: impl FnMut(RequestEvent),
    ) -> Result<(), ZmtpError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.feed(bytes, |input| {
            self.decode_all(input, max_message, &mut take)
        })?;
        self.rest = rest;
        Ok(())
    }

    /// Returns the number of bytes consumed.
    fn decode_all(
        &mut self,
        bytes: &[u8],
        max_message: usize,
        take: &mut impl FnMut(RequestEvent),
    ) -> Result<usize, ZmtpError> {
        let mut used = 0;
        if self.stage == Stage::Greeting {
            if !is_greeting_complete(bytes)? {
                return Ok(0);
            }
            self.stage = Stage::Handshake;
            used = GREETING;
        }
        loop {
            let left = bytes.get(used..).unwrap_or_default();
            let is_command = left.first().is_some_and(|flags| flags & COMMAND != 0);
            if !is_command && self.stage != Stage::Open && !left.is_empty() {
                return Err(ZmtpError::Unready);
            }
            let largest = if is_command { MAX_COMMAND } else { max_message };
            let Some((flags, body, length)) = frame(left, largest)? else {
                return Ok(used);
            };
            used += length;
            if is_command {
                take(self.command(body)?);
            } else if let Some(event) = self.message_frame(flags, body)? {
                take(event);
            }
        }
    }

    fn command(&mut self, body: &[u8]) -> Result<RequestEvent, ZmtpError> {
        if self.stage != Stage::Open {
            return match ready_type(body)? {
                Some(b"REQ" | b"DEALER" | b"ROUTER") => {
                    self.stage = Stage::Open;
                    Ok(RequestEvent::Other)
                }
                Some(_) => Err(ZmtpError::Client),
                None => Err(ZmtpError::Unready),
            };
        }
        Ok(super::ping_context(body)?.map_or(RequestEvent::Other, RequestEvent::Ping))
    }

    fn message_frame(&mut self, flags: u8, body: &[u8]) -> Result<Option<RequestEvent>, ZmtpError> {
        let more = flags & MORE != 0;
        self.malformed |= match self.frames {
            0 => !body.is_empty() || !more,
            1 => more,
            _ => true,
        };
        self.frames += 1;
        if more {
            return if self.frames < MAX_FRAMES {
                Ok(None)
            } else {
                Err(ZmtpError::Frame)
            };
        }
        self.frames = 0;
        Ok(Some(if std::mem::take(&mut self.malformed) {
            RequestEvent::Malformed
        } else {
            RequestEvent::Request(body.to_vec())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{handshake, part, ping};
    use super::*;

    const MAX: usize = 1000;

    fn decoded(pieces: &[&[u8]]) -> Result<Vec<RequestEvent>, ZmtpError> {
        let mut decoder = RequestDecoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            decoder.decode(piece, MAX, |event| events.push(event))?;
        }
        Ok(events)
    }

    fn request(body: &[u8]) -> Vec<u8> {
        [part(b"", true), part(body, false)].concat()
    }

    #[test]
    fn requests_arrive_however_they_are_divided() {
        let stream = [
            handshake("REQ"),
            request(b"one"),
            ping(),
            request(&[7; 900]),
            part(b"alone", false),
            request(b""),
        ]
        .concat();
        let expected = [
            RequestEvent::Other,
            RequestEvent::Request(b"one".to_vec()),
            RequestEvent::Ping(Vec::new()),
            RequestEvent::Request(vec![7; 900]),
            RequestEvent::Malformed,
            RequestEvent::Request(Vec::new()),
        ];
        for size in [1, 2, 3, 7, 64, 500, 5000] {
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(decoded(&pieces).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn whoever_is_no_client_is_refused() {
        let open = handshake("DEALER");
        let refused = |bytes: &[u8]| decoded(&[&open, bytes]).unwrap_err();
        assert_eq!(
            decoded(&[b"GET / HTTP/1.1"]),
            Err(ZmtpError::Greeting(crate::Spoken::Http))
        );
        assert_eq!(decoded(&[&handshake("SUB")]), Err(ZmtpError::Client));
        assert_eq!(
            decoded(&[&open[..GREETING], &request(b"x")]),
            Err(ZmtpError::Unready)
        );
        assert_eq!(refused(&part(&[0; MAX + 1], false)[..20]), ZmtpError::Frame);
        assert_eq!(
            refused(&part(b"", true).repeat(MAX_FRAMES)),
            ZmtpError::Frame
        );
        // The length alone is enough to refuse a command.
        assert_eq!(refused(b"\x06\0\0\0\0\0\0\xff\xff"), ZmtpError::Frame);
        let many = [part(b"", true), part(b"a", true), part(b"b", false)].concat();
        let events = decoded(&[&open, &many, &request(b"good")]).unwrap();
        assert_eq!(
            events[1..],
            [
                RequestEvent::Malformed,
                RequestEvent::Request(b"good".to_vec())
            ]
        );
    }

    #[test]
    fn an_incomplete_message_is_known() {
        let mut decoder = RequestDecoder::default();
        let stream = [handshake("REQ"), request(b"body")].concat();
        assert!(decoder.is_midway());
        for (at, byte) in stream.iter().enumerate() {
            decoder.decode(&[*byte], MAX, |_| ()).unwrap();
            let whole = at + 1 == handshake("REQ").len() || at + 1 == stream.len();
            assert_eq!(decoder.is_midway(), !whole, "{at}");
        }
        assert_eq!(decoder.held(), 0);
    }
}
