//! The end of a value that arrives in pieces.

use super::DecodeError;

/// The length in bytes of the first item of `bytes` without its children, and their number; `None` if its header is cut
/// short. What follows the header may be cut short, so the length may exceed `bytes`.
///
/// # Errors
/// The reserved code `c1`.
pub fn extent(bytes: &[u8]) -> Result<Option<(usize, usize)>, DecodeError> {
    let Some(code) = bytes.first().copied() else {
        return Ok(None);
    };
    // A length of that many bytes after the code.
    let counted = |width: usize| {
        let length = bytes.get(1..=width)?;
        Some(length.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    };
    let sized = |width: usize, more: usize| {
        let length = counted(width)?;
        Some((length.saturating_add(1 + width + more), 0))
    };
    let collection = |width: usize, each: usize| {
        let count = counted(width)?;
        Some((1 + width, count.saturating_mul(each)))
    };
    Ok(match code {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Some((1, 0)),
        0x80..=0x8f => Some((1, usize::from(code & 15) * 2)),
        0x90..=0x9f => Some((1, (code & 15).into())),
        0xa0..=0xbf => Some((1 + usize::from(code & 31), 0)),
        0xc1 => return Err(DecodeError::BadCode),
        0xc4..=0xc6 => sized(1 << (code - 0xc4), 0),
        0xc7..=0xc9 => sized(1 << (code - 0xc7), 1),
        0xca | 0xce | 0xd2 => Some((5, 0)),
        0xcb | 0xcf | 0xd3 => Some((9, 0)),
        0xcc | 0xd0 => Some((2, 0)),
        0xcd | 0xd1 => Some((3, 0)),
        0xd4..=0xd8 => Some((2 + (1 << (code - 0xd4)), 0)),
        0xd9..=0xdb => sized(1 << (code - 0xd9), 0),
        0xdc | 0xdd => collection(2 << (code - 0xdc), 1),
        0xde | 0xdf => collection(2 << (code - 0xde), 2),
    })
}
