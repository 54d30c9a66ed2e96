//! Events: a tag and a map.

use crate::frame::{self, Framing};
use crate::msgpack;
use crate::stamp::{self, StampStyle};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// Longest tag, in bytes. Salt sets no limit; its own tags stay below 300.
pub const MAX_TAG: usize = 4096;

/// Deepest nesting of data that is unpacked. A thread with a small stack must not end because of an event.
pub const MAX_DEPTH: usize = 128;

const TAGEND: &[u8] = b"\n\n";

/// One event of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// For instance `salt/job/20261121093002194977/ret/web1`.
    pub tag: String,
    /// The data: one msgpack map, not yet decoded.
    pub payload: Vec<u8>,
}

/// Why something is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventError {
    /// The tag is empty, longer than [`MAX_TAG`], not UTF-8, holds an empty line, or never ends.
    BadTag,
    /// The data is not one whole msgpack map.
    NotAMap,
    /// The data cannot be packed, or not decoded as the requested type; with the reason.
    Data(String),
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            EventError::BadTag => write!(
                f,
                "an event tag must be UTF-8 text of 1 to {MAX_TAG} bytes without an empty line"
            ),
            EventError::NotAMap => f.write_str("the data of an event must be a map"),
            EventError::Data(why) => write!(f, "the data of the event does not fit: {why}"),
        }
    }
}

impl std::error::Error for EventError {}

impl Event {
    /// Creates an event from `data`, which must serialize as a map or a struct with named fields.
    pub fn new(tag: impl Into<String>, data: &impl Serialize) -> Result<Event, EventError> {
        let payload = rmp_serde::to_vec_named(data).map_err(|e| EventError::Data(e.to_string()))?;
        Event::from_payload(tag, payload)
    }

    /// Creates an event from data that is already packed.
    pub fn from_payload(tag: impl Into<String>, payload: Vec<u8>) -> Result<Event, EventError> {
        let tag = tag.into();
        check_tag(tag.as_bytes())?;
        check_map(&payload)?;
        if msgpack::value_len(&payload) != Some(payload.len()) {
            return Err(EventError::NotAMap);
        }
        Ok(Event { tag, payload })
    }

    /// Reads the body of a frame: `tag "\n\n" msgpack` (`salt/utils/event.py SaltEvent.unpack`).
    ///
    /// Only checks that the data starts as a map; [`decode`](Event::decode) finds other faults.
    pub fn from_body(body: &[u8]) -> Result<Event, EventError> {
        let (tag, payload) = split_body(body)?;
        Ok(Event {
            tag: tag.to_owned(),
            payload: payload.to_vec(),
        })
    }

    /// The body of a frame.
    pub fn body(&self) -> Vec<u8> {
        [self.tag.as_bytes(), TAGEND, &self.payload].concat()
    }

    /// The whole frame.
    pub fn frame(&self, framing: Framing) -> Vec<u8> {
        frame::encode_parts(&[self.tag.as_bytes(), TAGEND, &self.payload], framing)
    }

    /// Unpacks the data, which may be nested [`MAX_DEPTH`] deep.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, EventError> {
        let mut unpacker = rmp_serde::Deserializer::from_read_ref(&self.payload);
        unpacker.set_max_depth(MAX_DEPTH);
        T::deserialize(&mut unpacker).map_err(|e| EventError::Data(e.to_string()))
    }

    /// Adds `_stamp` with the current time if the data has none. Returns whether it was added.
    pub fn stamp(&mut self, style: StampStyle) -> Result<bool, EventError> {
        self.put_stamp(&stamp::stamp_now(style), false)
    }

    /// Sets `_stamp` to the current time, as Salt does for every event it fires.
    pub fn restamp(&mut self, style: StampStyle) -> Result<(), EventError> {
        self.put_stamp(&stamp::stamp_now(style), true).map(drop)
    }

    /// The value of `_stamp`, found without decoding the rest.
    pub fn stamp_text(&self) -> Option<&str> {
        let at = stamp::find(&self.payload).ok()??;
        let (text, _) = msgpack::bytes_value(&self.payload[at])?;
        std::str::from_utf8(text).ok()
    }

    fn put_stamp(&mut self, text: &str, overwrite: bool) -> Result<bool, EventError> {
        match stamp::put(&self.payload, text, overwrite)? {
            Some(payload) => self.payload = payload,
            None => return Ok(false),
        }
        Ok(true)
    }
}

/// Tag and packed data of a frame's body, like [`Event::from_body`] but without copying.
pub fn split_body(body: &[u8]) -> Result<(&str, &[u8]), EventError> {
    let window = &body[..body.len().min(MAX_TAG + TAGEND.len())];
    let end = window
        .windows(TAGEND.len())
        .position(|w| w == TAGEND)
        .ok_or(EventError::BadTag)?;
    check_tag(&body[..end])?;
    let tag = std::str::from_utf8(&body[..end]).map_err(|_| EventError::BadTag)?;
    let payload = &body[end + TAGEND.len()..];
    check_map(payload)?;
    Ok((tag, payload))
}

fn check_tag(tag: &[u8]) -> Result<(), EventError> {
    let torn = tag.windows(TAGEND.len()).any(|w| w == TAGEND) || tag.ends_with(b"\n");
    if tag.is_empty() || tag.len() > MAX_TAG || torn {
        return Err(EventError::BadTag);
    }
    Ok(())
}

fn check_map(payload: &[u8]) -> Result<(), EventError> {
    msgpack::map(payload).map(drop).ok_or(EventError::NotAMap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Data {
        id: String,
        retcode: i64,
        out: Option<String>,
    }

    #[test]
    fn data_that_is_nested_too_deeply_is_refused() {
        let nested = |depth: usize| Event {
            tag: "a".into(),
            payload: [&b"\x81\xa1a"[..], &vec![0x91; depth], b"\xc0"].concat(),
        };
        let decode = |event: Event| event.decode::<serde::de::IgnoredAny>().is_ok();
        assert!(decode(nested(MAX_DEPTH / 2)));
        assert!(!decode(nested(MAX_DEPTH + 1)));
        assert!(!decode(nested(1_000_000)));
    }

    #[test]
    fn structs_travel_as_maps() {
        let data = Data {
            id: "web1".into(),
            retcode: -1,
            out: None,
        };
        let event = Event::new("a/b", &data).unwrap();
        assert_eq!(
            event.payload,
            b"\x83\xa2id\xa4web1\xa7retcode\xff\xa3out\xc0"
        );
        let back = Event::from_body(&event.body()).unwrap();
        assert_eq!(back, event);
        assert_eq!(back.decode::<Data>().unwrap(), data);
        assert!(matches!(back.decode::<Vec<u8>>(), Err(EventError::Data(_))));
    }

    #[test]
    fn what_is_no_event() {
        let empty = BTreeMap::<String, u8>::new();
        for tag in ["", "a\n\nb", "a\n", &"x".repeat(MAX_TAG + 1)] {
            assert_eq!(Event::new(tag, &empty), Err(EventError::BadTag));
        }
        assert!(Event::new("x".repeat(MAX_TAG), &empty).is_ok());
        assert_eq!(Event::new("a", &[1, 2]), Err(EventError::NotAMap));
        assert_eq!(
            Event::from_payload("a", b"\x80\x80".to_vec()),
            Err(EventError::NotAMap)
        );
        let cases: [(&[u8], EventError); 6] = [
            (b"", EventError::BadTag),
            (b"tag without end", EventError::BadTag),
            (b"\n\n\x80", EventError::BadTag),
            (b"\xff\n\n\x80", EventError::BadTag),
            (b"a\n\n", EventError::NotAMap),
            (b"a\n\n\x90", EventError::NotAMap),
        ];
        for (body, why) in cases {
            assert_eq!(Event::from_body(body), Err(why));
        }
    }

    #[test]
    fn longest_tag_comes_back() {
        let tag = "x".repeat(MAX_TAG);
        let event = Event::from_payload(tag.clone(), vec![0x80]).unwrap();
        assert_eq!(Event::from_body(&event.body()).unwrap().tag, tag);
    }
}
