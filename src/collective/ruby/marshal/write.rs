//! From a [`Datum`] to bytes.

use super::VERSION;
use crate::ruby::{Datum, shortest};
use std::collections::HashMap;

/// Writes like `Marshal.dump`, but without links to objects, which readers do not need.
///
/// [`Datum::Str`] is marked as UTF-8, [`Datum::Bytes`] as binary.
pub fn write(datum: &Datum) -> Vec<u8> {
    write_ascii(datum, &[])
}

/// As [`write()`], but ASCII text under one of these symbols as key is marked as ASCII.
///
/// Ruby's digests, base64 and names of symbols are such text, and MCollective's programs send it so in places; readers accept
/// both. It is for messages that must be byte for byte the same as theirs.
pub fn write_ascii(datum: &Datum, keys: &[&str]) -> Vec<u8> {
    let mut writer = Writer {
        out: VERSION.to_vec(),
        symbols: HashMap::new(),
        keys,
    };
    writer.value(datum, false);
    writer.out
}

struct Writer<'a> {
    out: Vec<u8>,
    /// Indexes of the symbols written so far.
    symbols: HashMap<&'a str, usize>,
    keys: &'a [&'a str],
}

impl<'a> Writer<'a> {
    fn packed(&mut self, number: i64) {
        match number {
            0 => self.out.push(0),
            1..=122 => self.out.push((number + 5) as u8),
            -123..=-1 => self.out.push((number - 5) as u8),
            _ => {
                let bytes = number.to_le_bytes();
                let fill = if number < 0 { 0xff } else { 0 };
                let used = bytes
                    .iter()
                    .rposition(|b| *b != fill)
                    .map_or(1, |at| at + 1);
                let sign = if number < 0 { -1 } else { 1 };
                self.out.push((used as i8 * sign) as u8);
                self.out.extend(&bytes[..used]);
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.packed(bytes.len() as i64);
        self.out.extend(bytes);
    }

    fn symbol(&mut self, name: &'a str) {
        if let Some(place) = self.symbols.get(name) {
            let place = *place as i64;
            self.out.push(b';');
            self.packed(place);
            return;
        }
        let plain = name.is_ascii();
        self.out.extend(if plain { &b":"[..] } else { b"I:" });
        self.bytes(name.as_bytes());
        self.symbols.insert(name, self.symbols.len());
        if !plain {
            self.encoding(true);
        }
    }

    /// The single instance variable for UTF-8 or ASCII.
    fn encoding(&mut self, utf8: bool) {
        self.packed(1);
        self.symbol("E");
        self.out.push(if utf8 { b'T' } else { b'F' });
    }

    fn integer(&mut self, number: i128) {
        if let Some(small) = i64::try_from(number)
            .ok()
            .filter(|n| (-(1 << 30)..1 << 30).contains(n))
        {
            self.out.push(b'i');
            return self.packed(small);
        }
        self.out.push(b'l');
        self.out.push(if number < 0 { b'-' } else { b'+' });
        let bytes = number.unsigned_abs().to_le_bytes();
        let used = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
        let shorts = used.div_ceil(2);
        self.packed(shorts as i64);
        self.out.extend(&bytes[..shorts * 2]);
    }

    fn value(&mut self, datum: &'a Datum, ascii: bool) {
        match datum {
            Datum::Nil => self.out.push(b'0'),
            Datum::Bool(true) => self.out.push(b'T'),
            Datum::Bool(false) => self.out.push(b'F'),
            Datum::Int(number) => self.integer(*number),
            Datum::Float(number) => {
                self.out.push(b'f');
                self.bytes(float(*number).as_bytes());
            }
            Datum::Symbol(name) => self.symbol(name),
            Datum::Str(text) => {
                self.out.extend(b"I\"");
                self.bytes(text.as_bytes());
                self.encoding(!(ascii && text.is_ascii()));
            }
            Datum::Bytes(bytes) => {
                self.out.push(b'"');
                self.bytes(bytes);
            }
            Datum::Regexp { source, options } => {
                // Ruby fixes the encoding of an expression that is not ASCII by the bit 16.
                let fixed = if source.is_ascii() { 0 } else { 16 };
                self.out.extend(b"I/");
                self.bytes(source.as_bytes());
                self.out.push((options & 7) | fixed);
                self.encoding(fixed != 0);
            }
            Datum::Array(items) => {
                self.out.push(b'[');
                self.packed(items.len() as i64);
                items.iter().for_each(|item| self.value(item, ascii));
            }
            Datum::Hash(pairs) => {
                self.out.push(b'{');
                self.packed(pairs.len() as i64);
                for (key, value) in pairs {
                    self.value(key, false);
                    let named =
                        matches!(key, Datum::Symbol(name) if self.keys.contains(&name.as_str()));
                    self.value(value, named);
                }
            }
        }
    }
}

/// A float in Marshal: the fewest digits that parse back to it.
fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    if number == 0.0 {
        return format!("{sign}0");
    }
    let (digits, point) = shortest(number);
    let count = digits.len() as i32;
    let (first, rest) = digits.split_at(1);
    if point < -3 || point > count {
        let dot = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{dot}{rest}e{}", point - 1);
    }
    if point <= 0 {
        let zeros = "0".repeat(point.unsigned_abs() as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    match digits.split_at(point as usize) {
        (whole, "") => format!("{sign}{whole}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    }
}
