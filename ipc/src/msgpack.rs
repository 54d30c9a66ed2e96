//! The part of msgpack that framing needs: finds where a value ends without decoding it.

/// The kinds of values that framing distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Map,
    /// The str and the bin family.
    Bytes,
    Other,
}

/// The header of one value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub kind: ValueKind,
    /// Length of the header.
    pub header: usize,
    /// Bytes after the header that belong to this value itself.
    pub len: usize,
    /// Number of values that follow as its children (for a map, twice the pairs).
    pub children: u64,
}

/// The reserved code `c1`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadCode;

/// Reads the header at the start of `bytes`; `None` when it is not all there yet.
pub(crate) fn item(bytes: &[u8]) -> Result<Option<Item>, BadCode> {
    let Some(&code) = bytes.first() else {
        return Ok(None);
    };
    let plain = |len| Ok(Some(make(ValueKind::Other, 1, len, 0)));
    match code {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => plain(0),
        0x80..=0x8f => Ok(Some(make(ValueKind::Map, 1, 0, 2 * u64::from(code & 15)))),
        0x90..=0x9f => Ok(Some(make(ValueKind::Other, 1, 0, u64::from(code & 15)))),
        0xa0..=0xbf => Ok(Some(make(ValueKind::Bytes, 1, usize::from(code & 31), 0))),
        0xc1 => Err(BadCode),
        0xc4..=0xc6 => Ok(sized(bytes, 1 << (code - 0xc4), ValueKind::Bytes, 0)),
        0xc7..=0xc9 => Ok(sized(bytes, 1 << (code - 0xc7), ValueKind::Other, 1)),
        0xca => plain(4),
        0xcb => plain(8),
        0xcc..=0xcf => plain(1 << (code - 0xcc)),
        0xd0..=0xd3 => plain(1 << (code - 0xd0)),
        0xd4..=0xd8 => plain(1 + (1 << (code - 0xd4))),
        0xd9..=0xdb => Ok(sized(bytes, 1 << (code - 0xd9), ValueKind::Bytes, 0)),
        0xdc..=0xdd => Ok(counted(bytes, 2 << (code - 0xdc), ValueKind::Other, 1)),
        0xde..=0xdf => Ok(counted(bytes, 2 << (code - 0xde), ValueKind::Map, 2)),
    }
}

fn make(kind: ValueKind, header: usize, len: usize, children: u64) -> Item {
    Item {
        kind,
        header,
        len,
        children,
    }
}

fn sized(bytes: &[u8], width: usize, kind: ValueKind, extra: usize) -> Option<Item> {
    let n = number(bytes, width)?;
    Some(make(kind, 1 + width, (n as usize).saturating_add(extra), 0))
}

fn counted(bytes: &[u8], width: usize, kind: ValueKind, each: u64) -> Option<Item> {
    let n = number(bytes, width)?;
    Some(make(kind, 1 + width, 0, n * each))
}

/// The big-endian number behind the code; at most 32 bits wide.
fn number(bytes: &[u8], width: usize) -> Option<u64> {
    let digits = bytes.get(1..1 + width)?;
    Some(digits.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
}

/// Length of the first whole value in `bytes`; `None` when it is cut short or malformed.
pub(crate) fn value_len(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut left) = (0usize, 1u64);
    while left > 0 {
        let item = item(bytes.get(at..)?).ok()??;
        left = (left - 1).saturating_add(item.children);
        at = at.saturating_add(item.header).saturating_add(item.len);
    }
    (at <= bytes.len()).then_some(at)
}

/// The bytes of the str or bin value at the start of `bytes`, and what follows it.
pub(crate) fn bytes_value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let item = item(bytes).ok()??;
    if item.kind != ValueKind::Bytes {
        return None;
    }
    bytes.get(item.header..)?.split_at_checked(item.len)
}

/// Number of pairs of the map at the start of `bytes`, and what follows its header.
pub(crate) fn map(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let item = item(bytes).ok()??;
    if item.kind != ValueKind::Map {
        return None;
    }
    Some((item.children / 2, bytes.get(item.header..)?))
}

/// Appends a map header.
pub(crate) fn put_map(out: &mut Vec<u8>, pairs: u64) {
    if pairs < 16 {
        out.push(0x80 | pairs as u8);
    } else if let Ok(n) = u16::try_from(pairs) {
        out.push(0xde);
        out.extend_from_slice(&n.to_be_bytes());
    } else {
        out.push(0xdf);
        out.extend_from_slice(&(pairs as u32).to_be_bytes());
    }
}

/// Appends the header of a bin value.
pub(crate) fn put_bin(out: &mut Vec<u8>, len: usize) {
    if let Ok(n) = u8::try_from(len) {
        out.extend_from_slice(&[0xc4, n]);
    } else if let Ok(n) = u16::try_from(len) {
        out.push(0xc5);
        out.extend_from_slice(&n.to_be_bytes());
    } else {
        out.push(0xc6);
        out.extend_from_slice(&(len as u32).to_be_bytes());
    }
}

/// Appends text of fewer than 256 bytes.
pub(crate) fn put_short_str(out: &mut Vec<u8>, text: &str) {
    let len = text.len();
    if len < 32 {
        out.push(0xa0 | len as u8);
    } else {
        out.extend_from_slice(&[0xd9, len as u8]);
    }
    out.extend_from_slice(text.as_bytes());
}
