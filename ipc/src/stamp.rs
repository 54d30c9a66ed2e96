//! The time in every event: `_stamp`, set by the sender.

use crate::event::EventError;
use crate::msgpack;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

const KEY: &str = "_stamp";

/// How the time is written; always UTC (`salt/utils/event.py SaltEvent.fire_event`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StampStyle {
    /// `2026-11-21T09:16:16.385321`: Salt 3006 and 3007.
    #[default]
    Naive,
    /// `2026-11-21T09:16:16.385321+00:00`: Salt 3008.
    Offset,
}

/// The current time as text.
pub fn stamp_now(style: StampStyle) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format(now.as_secs(), now.subsec_micros(), style)
}

/// Python's `isoformat`, which leaves the fraction out when it is zero.
fn format(secs: u64, micros: u32, style: StampStyle) -> String {
    let (y, m, d) = civil(secs / 86400);
    let (hour, min, sec) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    let mut text = format!("{y:04}-{m:02}-{d:02}T{hour:02}:{min:02}:{sec:02}");
    if micros != 0 {
        text += &format!(".{micros:06}");
    }
    if style == StampStyle::Offset {
        text += "+00:00";
    }
    text
}

/// Year, month and day of a number of days since 1970-01-01, in eras of 400 years
/// that begin in March so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let yday = day - (365 * year + year / 4 - year / 100);
    let march = (5 * yday + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let day = yday - (153 * march + 2) / 5 + 1;
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// The byte range of the value of `_stamp` in a packed map.
pub(crate) fn find(payload: &[u8]) -> Result<Option<Range<usize>>, EventError> {
    Ok(walk(payload).ok_or(EventError::NotAMap)?.1)
}

/// The packed map with `_stamp` set; `None` if it already has one and `overwrite` is false.
///
/// An existing one is replaced in place, a new one is appended, as in a Python dict.
pub(crate) fn put(
    payload: &[u8],
    text: &str,
    overwrite: bool,
) -> Result<Option<Vec<u8>>, EventError> {
    let (pairs, found) = walk(payload).ok_or(EventError::NotAMap)?;
    let mut out = Vec::with_capacity(payload.len() + 48);
    match found {
        Some(_) if !overwrite => return Ok(None),
        Some(at) => {
            out.extend_from_slice(&payload[..at.start]);
            msgpack::put_short_str(&mut out, text);
            out.extend_from_slice(&payload[at.end..]);
        }
        None => {
            let (_, rest) = msgpack::map(payload).ok_or(EventError::NotAMap)?;
            msgpack::put_map(&mut out, pairs + 1);
            out.extend_from_slice(rest);
            msgpack::put_short_str(&mut out, KEY);
            msgpack::put_short_str(&mut out, text);
        }
    }
    Ok(Some(out))
}

/// Number of pairs and range of the stamp's value in `payload`, which must be exactly one packed map.
fn walk(payload: &[u8]) -> Option<(u64, Option<Range<usize>>)> {
    let (pairs, rest) = msgpack::map(payload)?;
    let mut at = payload.len() - rest.len();
    let mut found = None;
    for _ in 0..pairs {
        let key = payload.get(at..)?;
        let is_stamp = msgpack::bytes_value(key).is_some_and(|(k, _)| k == KEY.as_bytes());
        let start = at + msgpack::value_len(key)?;
        at = start + msgpack::value_len(payload.get(start..)?)?;
        if is_stamp {
            found = Some(start..at);
        }
    }
    (at == payload.len()).then_some((pairs, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use std::collections::BTreeMap;

    /// Against Python: `datetime.fromtimestamp(s, timezone.utc).isoformat()`.
    #[test]
    fn as_python_writes_it() {
        let cases = [
            (0, 0, "1970-01-01T00:00:00"),
            (951_782_399, 1, "2000-02-28T23:59:59.000001"),
            (951_782_400, 0, "2000-02-29T00:00:00"),
            (1_795_252_576, 385_321, "2026-11-21T09:16:16.385321"),
            (4_107_542_400, 0, "2100-03-01T00:00:00"),
            (1_735_689_599, 999_999, "2024-12-31T23:59:59.999999"),
        ];
        for (secs, micros, want) in cases {
            assert_eq!(format(secs, micros, StampStyle::Naive), want);
            assert_eq!(
                format(secs, micros, StampStyle::Offset),
                format!("{want}+00:00")
            );
        }
    }

    #[test]
    fn added_at_the_end_or_replaced_in_place() {
        let plain = b"\x82\xa1a\x01\xa1b\x92\xc0\xc3";
        let put = |payload: &[u8], text, over| super::put(payload, text, over).unwrap();
        let stamped = put(plain, "T", false).unwrap();
        assert_eq!(stamped, b"\x83\xa1a\x01\xa1b\x92\xc0\xc3\xa6_stamp\xa1T");
        assert_eq!(put(&stamped, "U", false), None);
        assert_eq!(
            put(&stamped, "U", true).unwrap(),
            b"\x83\xa1a\x01\xa1b\x92\xc0\xc3\xa6_stamp\xa1U"
        );
        let middle = b"\x82\xc4\x06_stamp\xd9\x01T\xa1b\x01";
        assert_eq!(
            put(middle, "longer", true).unwrap(),
            b"\x82\xc4\x06_stamp\xa6longer\xa1b\x01"
        );
        // A value that looks like the key is not the key.
        let value = b"\x81\xa1a\xa6_stamp";
        assert_eq!(put(value, "T", false).unwrap()[0], 0x82);
    }

    #[test]
    fn the_header_may_grow() {
        for n in [0usize, 14, 15, 16, 65_534, 65_535, 65_536] {
            let data: BTreeMap<String, u8> = (0..n).map(|i| (format!("k{i}"), 1)).collect();
            let mut event = Event::new("t", &data).unwrap();
            assert_eq!(event.stamp(StampStyle::Offset), Ok(true));
            assert_eq!(event.stamp(StampStyle::Offset), Ok(false));
            let text = event.stamp_text().unwrap().to_owned();
            assert!(text.ends_with("+00:00") && text.starts_with("20"), "{text}");
            let (pairs, found) = walk(&event.payload).unwrap();
            assert_eq!((pairs, found.is_some()), (n as u64 + 1, true));
            assert!(
                event
                    .decode::<BTreeMap<String, serde::de::IgnoredAny>>()
                    .is_ok()
            );
        }
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x91\x01",
            b"\x81\xa1a",
            b"\x81\xa1a\x01\x01",
            b"\xdf\xff\xff\xff\xff",
        ] {
            assert_eq!(
                put(bytes, "T", true),
                Err(EventError::NotAMap),
                "{bytes:x?}"
            );
        }
    }
}
