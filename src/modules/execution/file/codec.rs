//! Encodings by their Python names.

use super::super::CallError;
use super::os;
use crate::execution::declare::Result;
use std::io::Read;

/// A supported encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// UTF-8, optionally with a byte order mark.
    Utf8 {
        /// Whether a mark is skipped when decoding and added when encoding.
        mark: bool,
    },
    /// Bytes above 127 are invalid.
    Ascii,
    /// One byte per character.
    Latin1,
    /// Two bytes per unit; without a byte order, the mark at the start decides.
    Utf16(Option<ByteOrder>),
    /// Four bytes per character.
    Utf32(Option<ByteOrder>),
}

/// Byte order of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Low byte first.
    Little,
    /// High byte first.
    Big,
}

impl Codec {
    /// Finds an encoding by name.
    ///
    /// # Errors
    /// `LookupError`: unknown or unsupported encoding.
    pub fn by_name(name: &str) -> Result<Codec> {
        let plain = name.to_ascii_lowercase().replace(['_', ' '], "-");
        Ok(match plain.as_str() {
            "utf-8" | "utf8" | "u8" | "cp65001" => Codec::Utf8 { mark: false },
            "utf-8-sig" => Codec::Utf8 { mark: true },
            "ascii" | "us-ascii" | "646" => Codec::Ascii,
            "latin-1" | "latin1" | "latin" | "iso-8859-1" | "iso8859-1" | "8859" | "cp819"
            | "l1" => Codec::Latin1,
            "utf-16" | "utf16" | "u16" => Codec::Utf16(None),
            "utf-16-le" | "utf-16le" => Codec::Utf16(Some(ByteOrder::Little)),
            "utf-16-be" | "utf-16be" => Codec::Utf16(Some(ByteOrder::Big)),
            "utf-32" | "utf32" | "u32" => Codec::Utf32(None),
            "utf-32-le" | "utf-32le" => Codec::Utf32(Some(ByteOrder::Little)),
            "utf-32-be" | "utf-32be" => Codec::Utf32(Some(ByteOrder::Big)),
            _ => {
                return Err(CallError::raised(
                    "LookupError",
                    format!("unknown encoding: {name}"),
                ));
            }
        })
    }

    /// Decodes bytes.
    ///
    /// # Errors
    /// `UnicodeDecodeError`.
    pub fn decode(self, data: &[u8]) -> Result<String> {
        match self {
            Codec::Utf8 { mark } => {
                let data = if mark {
                    data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data)
                } else {
                    data
                };
                os::decoded(data.to_vec())
            }
            Codec::Ascii => match data.iter().position(|b| *b > 127) {
                None => Ok(halite_wire::pylines::latin1(data)),
                Some(at) => Err(bad(format!(
                    "'ascii' codec can't decode byte 0x{:02x} in position {at}: ordinal not in range(128)",
                    data[at]
                ))),
            },
            Codec::Latin1 => Ok(halite_wire::pylines::latin1(data)),
            Codec::Utf16(order) => {
                let (order, data) = marked(order, data, &[0xff, 0xfe], &[0xfe, 0xff]);
                let units: Vec<u16> = data.chunks(2).map(|c| unit(order, c) as u16).collect();
                String::from_utf16(&units)
                    .ok()
                    .filter(|_| data.len().is_multiple_of(2))
                    .ok_or_else(|| bad("'utf-16' codec can't decode the bytes: truncated data"))
            }
            Codec::Utf32(order) => {
                let (order, data) = marked(order, data, &[0xff, 0xfe, 0, 0], &[0, 0, 0xfe, 0xff]);
                let chars = data.chunks(4).map(|c| char::from_u32(unit(order, c)));
                chars
                    .collect::<Option<String>>()
                    .filter(|_| data.len().is_multiple_of(4))
                    .ok_or_else(|| bad("'utf-32' codec can't decode the bytes: truncated data"))
            }
        }
    }

    /// Encodes text.
    ///
    /// # Errors
    /// `UnicodeEncodeError` with `errors="strict"`.
    pub fn encode(self, text: &str, errors: &str) -> Result<Vec<u8>> {
        let put = |order: ByteOrder, unit: u32, width: usize, out: &mut Vec<u8>| match order {
            ByteOrder::Little => out.extend(&unit.to_le_bytes()[..width]),
            ByteOrder::Big => out.extend(&unit.to_be_bytes()[4 - width..]),
        };
        let mut out = Vec::new();
        match self {
            Codec::Utf8 { mark } => {
                if mark {
                    out.extend(b"\xef\xbb\xbf");
                }
                out.extend(text.as_bytes());
            }
            Codec::Ascii => return narrow(text, 128, "ascii", errors),
            Codec::Latin1 => return narrow(text, 256, "latin-1", errors),
            Codec::Utf16(order) => {
                let mark = order.is_none().then_some(0xfeff);
                for unit in mark.into_iter().chain(text.encode_utf16()) {
                    put(
                        order.unwrap_or(ByteOrder::Little),
                        u32::from(unit),
                        2,
                        &mut out,
                    );
                }
            }
            Codec::Utf32(order) => {
                let mark = order.is_none().then_some(0xfeff);
                for unit in mark.into_iter().chain(text.chars().map(u32::from)) {
                    put(order.unwrap_or(ByteOrder::Little), unit, 4, &mut out);
                }
            }
        }
        Ok(out)
    }
}

fn bad(text: impl Into<String>) -> CallError {
    CallError::raised("UnicodeDecodeError", text)
}

fn marked<'a>(
    order: Option<ByteOrder>,
    data: &'a [u8],
    little: &[u8],
    big: &[u8],
) -> (ByteOrder, &'a [u8]) {
    if let Some(order) = order {
        return (order, data);
    }
    match (data.strip_prefix(little), data.strip_prefix(big)) {
        (_, Some(rest)) => (ByteOrder::Big, rest),
        (Some(rest), _) => (ByteOrder::Little, rest),
        _ => (ByteOrder::Little, data),
    }
}

fn unit(order: ByteOrder, bytes: &[u8]) -> u32 {
    let add = |sum: u32, b: &u8| sum << 8 | u32::from(*b);
    match order {
        ByteOrder::Big => bytes.iter().fold(0, add),
        ByteOrder::Little => bytes.iter().rev().fold(0, add),
    }
}

/// One byte per character; `errors` decides about the rest.
fn narrow(text: &str, below: u32, name: &str, errors: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for (at, c) in text.chars().enumerate() {
        let number = u32::from(c);
        match u8::try_from(number).ok().filter(|_| number < below) {
            Some(byte) => out.push(byte),
            None => match errors {
                "ignore" => {}
                "replace" => out.push(b'?'),
                "xmlcharrefreplace" => out.extend(format!("&#{number};").into_bytes()),
                "backslashreplace" => out.extend(match number {
                    0..=0xff => format!("\\x{number:02x}").into_bytes(),
                    0x100..=0xffff => format!("\\u{number:04x}").into_bytes(),
                    _ => format!("\\U{number:08x}").into_bytes(),
                }),
                "strict" => {
                    let shown = match number {
                        0..=0xff => format!("\\x{number:02x}"),
                        0x100..=0xffff => format!("\\u{number:04x}"),
                        _ => format!("\\U{number:08x}"),
                    };
                    return Err(CallError::raised(
                        "UnicodeEncodeError",
                        format!(
                            "'{name}' codec can't encode character '{shown}' in position {at}: ordinal not in range({below})"
                        ),
                    ));
                }
                other => {
                    return Err(CallError::raised(
                        "LookupError",
                        format!("unknown error handler name '{other}'"),
                    ));
                }
            },
        }
    }
    Ok(out)
}

/// Guesses a file's encoding (`salt/utils/files.py get_encoding`); `None` if none fits.
pub fn guess(path: &str) -> Option<Codec> {
    let mut data = Vec::new();
    let file = halite_sys::safe_open::open_finite(path.as_ref()).ok()?;
    file.take(2048).read_to_end(&mut data).ok()?;
    let marks: [(&[u8], Codec); 5] = [
        (&[0, 0, 0xfe, 0xff], Codec::Utf32(Some(ByteOrder::Big))),
        (&[0xff, 0xfe, 0, 0], Codec::Utf32(Some(ByteOrder::Little))),
        (&[0xfe, 0xff], Codec::Utf16(Some(ByteOrder::Big))),
        (&[0xff, 0xfe], Codec::Utf16(Some(ByteOrder::Little))),
        (&[0xef, 0xbb, 0xbf], Codec::Utf8 { mark: false }),
    ];
    if let Some((_, codec)) = marks.iter().find(|(mark, _)| data.starts_with(mark)) {
        return Some(*codec);
    }
    std::str::from_utf8(&data)
        .is_ok()
        .then_some(Codec::Utf8 { mark: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let text = "h\u{e9}\u{1f600}\n";
        for name in [
            "utf-8",
            "UTF_16",
            "utf-16-be",
            "utf-32",
            "utf-32-le",
            "utf-8-sig",
        ] {
            let codec = Codec::by_name(name).unwrap();
            let bytes = codec.encode(text, "strict").unwrap();
            assert_eq!(codec.decode(&bytes).unwrap(), text, "{name}");
        }
        assert_eq!(Codec::Latin1.encode("\u{e9}", "strict").unwrap(), b"\xe9");
        let refused = Codec::Ascii.encode("\u{e9}", "strict").unwrap_err();
        assert_eq!(
            refused.message(),
            "'ascii' codec can't encode character '\\xe9' in position 0: ordinal not in range(128)"
        );
        assert_eq!(Codec::Ascii.encode("\u{e9}", "replace").unwrap(), b"?");
        assert!(Codec::by_name("klingon").is_err());
        assert!(Codec::Utf16(None).decode(b"\xff\xfea").is_err());
    }
}
