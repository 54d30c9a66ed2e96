//! DER: writing and reading of the types that certificates are made of.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const BITS: u8 = 0x03;
pub const OCTETS: u8 = 0x04;
pub const NULL: u8 = 0x05;
pub const OID: u8 = 0x06;
pub const ENUMERATED: u8 = 0x0a;
pub const UTF8: u8 = 0x0c;
pub const PRINTABLE: u8 = 0x13;
pub const IA5: u8 = 0x16;
pub const UTC_TIME: u8 = 0x17;
pub const GENERAL_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
/// A field with a number, primitive.
pub const FIELD: u8 = 0x80;
/// A field with a number that has parts.
pub const PARTS: u8 = 0xa0;

/// First year that is no `UTCTime`.
const LATE: i16 = 2050;
const EARLY: i16 = 1950;

/// A value with its tag and length.
pub fn tlv(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = body.len().to_be_bytes();
    let zeros = length.iter().take_while(|b| **b == 0).count();
    match length.get(zeros..) {
        Some([]) | None => out.push(0),
        Some([short]) if *short < 0x80 => out.push(*short),
        Some(long) => {
            out.push(0x80 | long.len() as u8);
            out.extend(long);
        }
    }
    out.extend(body);
    out
}

/// Parts under a tag.
pub fn parts<T: AsRef<[u8]>>(tag: u8, parts: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        body.extend(part.as_ref());
    }
    tlv(tag, &body)
}

/// `SEQUENCE`.
pub fn seq<T: AsRef<[u8]>>(items: impl IntoIterator<Item = T>) -> Vec<u8> {
    parts(SEQUENCE, items)
}

/// `SET OF`, in the order that DER wants.
pub fn set_of(tag: u8, mut items: Vec<Vec<u8>>) -> Vec<u8> {
    items.sort();
    parts(tag, items)
}

/// The content of an `INTEGER` that is not negative.
pub fn magnitude(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let rest = &bytes[zeros..];
    let mut body = Vec::new();
    if rest.first().is_none_or(|b| b & 0x80 != 0) {
        body.push(0);
    }
    body.extend(rest);
    body
}

/// The content of a number, which is not negative.
pub fn unsigned(body: &[u8]) -> Vec<u8> {
    let zeros = body.iter().take_while(|b| **b == 0).count();
    body[zeros..].to_vec()
}

/// A small `INTEGER`.
pub fn int(number: u64) -> Vec<u8> {
    tlv(INTEGER, &magnitude(&number.to_be_bytes()))
}

/// `BOOLEAN`; DER has no false where that is the default.
pub fn boolean(tag: u8, value: bool) -> Vec<u8> {
    if value {
        vec![tag, 1, 0xff]
    } else {
        Vec::new()
    }
}

/// `BIT STRING` of named bits, in which bit 0 is the first one.
pub fn named_bits(tag: u8, bits: &[bool]) -> Vec<u8> {
    let Some(last) = bits.iter().rposition(|b| *b) else {
        return tlv(tag, &[0]);
    };
    let mut body = vec![0_u8; last / 8 + 2];
    body[0] = (7 - last % 8) as u8;
    for (at, _) in bits.iter().enumerate().filter(|(_, set)| **set) {
        body[at / 8 + 1] |= 0x80 >> (at % 8);
    }
    tlv(tag, &body)
}

/// The named bits of the content of a `BIT STRING`.
pub fn read_bits(body: &[u8]) -> Vec<bool> {
    let bytes = body.get(1..).unwrap_or_default();
    let bit = |at: usize| bytes[at / 8] & (0x80 >> (at % 8)) != 0;
    (0..bytes.len() * 8).map(bit).collect()
}

/// The content of an `OBJECT IDENTIFIER` in dotted form.
pub fn oid_body(text: &str) -> Option<Vec<u8>> {
    let numbers: Option<Vec<u64>> = text.split('.').map(|n| n.parse().ok()).collect();
    let numbers = numbers?;
    let [first, second, rest @ ..] = numbers.as_slice() else {
        return None;
    };
    if *first > 2 || (*first < 2 && *second > 39) {
        return None;
    }
    let mut body = Vec::new();
    let lead = first.checked_mul(40)?.checked_add(*second)?;
    for number in std::iter::once(&lead).chain(rest) {
        let mut septets = vec![(number & 0x7f) as u8];
        let mut left = number >> 7;
        while left > 0 {
            septets.push(0x80 | (left & 0x7f) as u8);
            left >>= 7;
        }
        body.extend(septets.iter().rev());
    }
    Some(body)
}

/// `OBJECT IDENTIFIER` of a table, whose entries are right.
pub fn oid(text: &str) -> Vec<u8> {
    tlv(OID, &oid_body(text).unwrap_or_default())
}

/// The dotted form of the content of an `OBJECT IDENTIFIER`.
pub fn oid_text(body: &[u8]) -> Option<String> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number: u64 = 0;
    for byte in body {
        number = number.checked_mul(128)? | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(number);
            number = 0;
        }
    }
    let (lead, rest) = numbers.split_first()?;
    let first = (lead / 40).min(2);
    let mut text = format!("{first}.{}", lead - first * 40);
    for number in rest {
        text.push_str(&format!(".{number}"));
    }
    Some(text)
}

fn zoned(seconds: i64) -> Zoned {
    let stamp = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    stamp.to_zoned(TimeZone::UTC)
}

/// A time in the form that certificates have it in.
pub fn time(seconds: i64) -> Vec<u8> {
    let when = zoned(seconds);
    if (EARLY..LATE).contains(&when.year()) {
        tlv(
            UTC_TIME,
            when.strftime("%y%m%d%H%M%SZ").to_string().as_bytes(),
        )
    } else {
        general_time(seconds)
    }
}

/// `GeneralizedTime`.
pub fn general_time(seconds: i64) -> Vec<u8> {
    let text = zoned(seconds).strftime("%Y%m%d%H%M%SZ").to_string();
    tlv(GENERAL_TIME, text.as_bytes())
}

/// A time as people read it.
pub fn show_time(seconds: i64) -> String {
    zoned(seconds).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn read_time(item: Tlv<'_>) -> Option<i64> {
    let text = std::str::from_utf8(item.body).ok()?;
    let text = match item.tag {
        UTC_TIME => {
            let early = text.get(..2)?.parse::<u8>().ok()? >= 50;
            format!("{}{text}", if early { "19" } else { "20" })
        }
        GENERAL_TIME => text.to_owned(),
        _ => return None,
    };
    let when = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    Some(when.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// A value that was read.
#[derive(Clone, Copy, Debug)]
pub struct Tlv<'a> {
    /// Its tag.
    pub tag: u8,
    /// Its content.
    pub body: &'a [u8],
    /// Itself.
    pub whole: &'a [u8],
}

/// Reads values one after the other. Everything is `None` if the bytes are not what is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next value.
    pub fn item(&mut self) -> Option<Tlv<'a>> {
        let (tag, first) = (*self.0.first()?, *self.0.get(1)?);
        // No certificate has a tag number above 30.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (head, length) = if first < 0x80 {
            (2, usize::from(first))
        } else {
            let count = usize::from(first & 0x7f);
            if !(1..=4).contains(&count) {
                return None;
            }
            let bytes = self.0.get(2..2 + count)?;
            let length = bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b));
            (2 + count, length)
        };
        let end = head.checked_add(length)?;
        let whole = self.0.get(..end)?;
        self.0 = &self.0[end..];
        Some(Tlv {
            tag,
            body: &whole[head..],
            whole,
        })
    }

    /// The content of the next value, which has this tag.
    pub fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.peek() == Some(tag) {
            self.item().map(|item| item.body)
        } else {
            None
        }
    }

    /// The parts of the next value, which has this tag.
    pub fn inside(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.take(tag).map(Reader)
    }

    /// The tag of the next value.
    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The dotted form of the next value.
    pub fn oid(&mut self) -> Option<String> {
        oid_text(self.take(OID)?)
    }

    /// The next value as a time.
    pub fn time(&mut self) -> Option<i64> {
        read_time(self.item()?)
    }

    /// All values to the end.
    pub fn all(mut self) -> Option<Vec<Tlv<'a>>> {
        let mut items = Vec::new();
        while !self.0.is_empty() {
            items.push(self.item()?);
        }
        Some(items)
    }
}

/// The only value in some bytes, which has this tag.
pub fn only(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let mut reader = Reader(bytes);
    let body = reader.take(tag)?;
    reader.0.is_empty().then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers() {
        assert_eq!(tlv(OCTETS, &[]), [4, 0]);
        assert_eq!(tlv(OCTETS, &[0; 200])[..3], [4, 0x81, 200]);
        assert_eq!(tlv(OCTETS, &[0; 300])[..4], [4, 0x82, 1, 44]);
        assert_eq!(int(0), [2, 1, 0]);
        assert_eq!(int(128), [2, 2, 0, 128]);
        assert_eq!(int(300), [2, 2, 1, 44]);
        assert_eq!(named_bits(BITS, &[false, false]), [3, 1, 0]);
        assert_eq!(named_bits(BITS, &[false, true]), [3, 2, 6, 0x40]);
    }

    #[test]
    fn object_identifiers() {
        for text in ["1.2.840.113549.1.1.11", "2.5.29.17", "2.999.1", "0.9.2342"] {
            assert_eq!(oid_text(&oid_body(text).unwrap()).unwrap(), text);
        }
        for bad in ["", "1", "3.1", "1.40", "1.x", "1..2"] {
            assert_eq!(oid_body(bad), None, "{bad}");
        }
    }

    #[test]
    fn times() {
        for text in [
            "1969-12-31 23:59:59",
            "2049-12-31 23:59:59",
            "2050-01-01 00:00:00",
        ] {
            let when = DateTime::strptime("%Y-%m-%d %H:%M:%S", text).unwrap();
            let seconds = when
                .to_zoned(TimeZone::UTC)
                .unwrap()
                .timestamp()
                .as_second();
            let bytes = time(seconds);
            assert_eq!(bytes[0] == UTC_TIME, !text.starts_with("2050"));
            assert_eq!(Reader(&bytes).time(), Some(seconds));
            assert_eq!(show_time(seconds), text);
        }
    }

    #[test]
    fn what_is_cut_off_is_not_read() {
        assert!(Reader(&[4, 5, 1]).item().is_none());
        assert!(Reader(&[4, 0x80, 1]).item().is_none());
        assert!(Reader(&[4, 0x84, 255, 255, 255, 255, 1]).item().is_none());
        assert!(Reader(&[0x1f, 1, 1]).item().is_none());
        assert!(only(&[5, 0, 5, 0], NULL).is_none());
    }
}
