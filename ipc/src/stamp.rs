//! The time in every event: `_stamp`, set by whoever fires it.

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

/// The present time as text.
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

/// Where the value of `_stamp` lies in a packed map.
pub(crate) fn find(payload: &[u8]) -> Result<Option<Range<usize>>, EventError> {
    Ok(walk(payload).ok_or(EventError::NotAMap)?.1)
}

/// The packed map with `_stamp` set; `None` when it has one that is to stay.
///
/// An existing one is replaced in its place, a new one goes to the end, as in a Python dict.
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

/// Number of pairs and place of the stamp of exactly one packed map.
fn walk(payload: &[u8]) -> Option<(u64, Option<Range<usize>>)> {
    let (pairs, rest) = msgpack::map(payload)?;
    let mut at = payload.len() - rest.len();
    let mut found = None;
    for _ in 0..pairs {
        let key = payload.get(at..)?;
        let is_stamp = msgpack::octets(key).is_some_and(|(k, _)| k == KEY.as_bytes());
        let start = at + msgpack::value_len(key)?;
        at = start + msgpack::value_len(payload.get(start..)?)?;
        if is_stamp {
            found = Some(start..at);
        }
    }
    (at == payload.len()).then_some((pairs, found))
}
