//! msgpack as Salt speaks it.
//!
//! On the network both text and bytes use the *old* raw family (fixstr, raw16,
//! raw32; never str8 or bin); locally (event bus, job cache, signed loads) the
//! current specification with str8 and bin is used. Decoding accepts everything
//! and turns bytes that are valid UTF-8 into text
//! (`salt/payload.py dumps`, `loads`; reference `salt-protocol.md` 1.7).

mod extent;
mod fields;
#[cfg(test)]
mod tests;

pub use extent::extent;
pub use fields::{Fields, decode_load, fields};

use super::budget::{self, Budget, Exceeded};
use super::value::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Deepest nesting accepted; bounds the recursion. It leaves room for what halite puts around values from outside: events,
/// answers of runners.
pub const MAX_DEPTH: usize = budget::MAX_DEPTH + 28;

/// Which family of string codes an encoder uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Old specification, for the network.
    Wire,
    /// Current specification (`use_bin_type`), for data that stays on a host.
    Local,
}

/// Why bytes are not a msgpack document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends inside a value.
    Truncated,
    /// The reserved code `c1`.
    BadCode,
    /// Nested too deeply, or too many values.
    TooLarge(Exceeded),
    /// A load that is not a map, or has a key twice, a key that is not text, or too many.
    BadFields,
    /// There are bytes after the document.
    Trailing,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the msgpack document is cut short",
            DecodeError::BadCode => "0xc1 is not a msgpack code",
            DecodeError::TooLarge(limit) => {
                return write!(f, "the msgpack document has {limit}");
            }
            DecodeError::BadFields => "the msgpack document is not a map with each name once",
            DecodeError::Trailing => "there are bytes after the msgpack document",
        })
    }
}

impl std::error::Error for DecodeError {}

impl From<Exceeded> for DecodeError {
    fn from(limit: Exceeded) -> DecodeError {
        DecodeError::TooLarge(limit)
    }
}

/// Encodes one value.
pub fn encode(value: &Value, profile: Profile) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    encode_into(&mut out, value, profile);
    out
}

/// Encodes one map that is not wrapped in a [`Value`].
pub fn encode_map(map: &Map, profile: Profile) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    put_map(&mut out, map, profile);
    out
}

/// Appends one map to `out`.
pub fn encode_map_into(out: &mut Vec<u8>, map: &Map, profile: Profile) {
    put_map(out, map, profile);
}

/// Approximate encoded size in bytes, to size a buffer in advance.
pub fn size_hint(value: &Value) -> usize {
    match value {
        Value::Str(s) => s.len() + 5,
        Value::Bytes(b) => b.len() + 5,
        Value::Array(a) => a.iter().map(size_hint).sum::<usize>() + 5,
        Value::Map(m) => {
            let pairs = m.iter().map(|(k, v)| size_hint(k) + size_hint(v));
            pairs.sum::<usize>() + 5
        }
        _ => 9,
    }
}

/// Appends one encoded value.
pub fn encode_into(out: &mut Vec<u8>, value: &Value, profile: Profile) {
    match value {
        Value::Nil => out.push(0xc0),
        Value::Bool(b) => out.push(0xc2 + u8::from(*b)),
        Value::Int(i) => put_int(out, *i),
        Value::UInt(u) => {
            out.push(0xcf);
            out.extend_from_slice(&u.to_be_bytes());
        }
        Value::Float(f) => {
            out.push(0xcb);
            out.extend_from_slice(&f.to_be_bytes());
        }
        Value::Str(s) => put_str(out, s.as_bytes(), profile),
        Value::Bytes(b) => match profile {
            Profile::Wire => put_str(out, b, profile),
            Profile::Local => {
                put_bin_header(out, b.len());
                out.extend_from_slice(b);
            }
        },
        Value::Array(a) => {
            put_array_header(out, a.len());
            a.iter().for_each(|v| encode_into(out, v, profile));
        }
        Value::Map(m) => put_map(out, m, profile),
    }
}

/// Appends an array header for `len` elements, which the caller then appends.
pub fn put_array_header(out: &mut Vec<u8>, len: usize) {
    put_collection(out, len, 0x90, 0xdc);
}

/// Appends a map header for `len` pairs, which the caller then appends.
pub fn put_map_header(out: &mut Vec<u8>, len: usize) {
    put_collection(out, len, 0x80, 0xde);
}

fn put_collection(out: &mut Vec<u8>, len: usize, fix: u8, code16: u8) {
    if len < 16 {
        out.push(fix | len as u8);
    } else if let Ok(n) = u16::try_from(len) {
        out.push(code16);
        out.extend_from_slice(&n.to_be_bytes());
    } else {
        out.push(code16 + 1);
        out.extend_from_slice(&(len as u32).to_be_bytes());
    }
}

fn put_map(out: &mut Vec<u8>, map: &Map, profile: Profile) {
    put_map_header(out, map.len());
    for (k, v) in map.iter() {
        encode_into(out, k, profile);
        encode_into(out, v, profile);
    }
}

/// Appends text (or, in the wire profile, bytes).
pub fn put_str(out: &mut Vec<u8>, s: &[u8], profile: Profile) {
    put_str_header(out, s.len(), profile);
    out.extend_from_slice(s);
}

/// Appends the header of a text of `len` bytes, which the caller then appends.
pub fn put_str_header(out: &mut Vec<u8>, len: usize, profile: Profile) {
    if len < 32 {
        out.push(0xa0 | len as u8);
    } else if profile == Profile::Wire && len < 256 {
        out.push(0xda);
        out.extend_from_slice(&(len as u16).to_be_bytes());
    } else {
        put_len(out, len, [0xd9, 0xda, 0xdb]);
    }
}

/// Appends what was encoded with [`Profile::Local`] as [`Profile::Wire`] has it. Only headers of text and bytes differ.
pub fn put_for_wire(out: &mut Vec<u8>, mut local: &[u8]) {
    while let Ok(Some((len, _))) = extent(local) {
        let (item, rest) = local.split_at(len.min(local.len()));
        let header = match item.first() {
            Some(code @ 0xc4..=0xc6) => Some(1 + (1 << (code - 0xc4))),
            Some(code @ 0xd9..=0xdb) => Some(1 + (1 << (code - 0xd9))),
            _ => None,
        };
        match header.and_then(|header| item.get(header..)) {
            Some(text) => put_str(out, text, Profile::Wire),
            None => out.extend_from_slice(item),
        }
        local = rest;
    }
}

/// Appends the header of `len` bytes of the bin family, which the caller then appends.
pub fn put_bin_header(out: &mut Vec<u8>, len: usize) {
    put_len(out, len, [0xc4, 0xc5, 0xc6]);
}

fn put_len(out: &mut Vec<u8>, len: usize, codes: [u8; 3]) {
    if let Ok(n) = u8::try_from(len) {
        out.extend_from_slice(&[codes[0], n]);
    } else if let Ok(n) = u16::try_from(len) {
        out.push(codes[1]);
        out.extend_from_slice(&n.to_be_bytes());
    } else {
        out.push(codes[2]);
        out.extend_from_slice(&(len as u32).to_be_bytes());
    }
}

fn put_int(out: &mut Vec<u8>, i: i64) {
    match i {
        0..=0x7f => out.push(i as u8),
        -32..=-1 => out.push(i as i8 as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, i as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(i as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(i as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&i.to_be_bytes());
        }
        -0x80..=-33 => out.extend_from_slice(&[0xd0, i as i8 as u8]),
        -0x8000..=-0x81 => {
            out.push(0xd1);
            out.extend_from_slice(&(i as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(i as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&i.to_be_bytes());
        }
    }
}

/// Decodes exactly one document.
pub fn decode(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut r = Reader::new(bytes);
    let value = r.value()?;
    if r.rest().is_empty() {
        Ok(value)
    } else {
        Err(DecodeError::Trailing)
    }
}

/// One decoded item that borrows from the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// nil
    Nil,
    /// A boolean.
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// A larger integer.
    UInt(u64),
    /// A float of either width.
    Float(f64),
    /// Bytes of the str family.
    Str(&'a [u8]),
    /// Bytes of the bin family.
    Bin(&'a [u8]),
    /// An extension: type and payload.
    Ext(i8, &'a [u8]),
    /// The header of an array of that many items.
    Array(usize),
    /// The header of a map of that many pairs.
    Map(usize),
}

impl<'a> Item<'a> {
    /// The text of either family of strings.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Item::Str(s) | Item::Bin(s) => std::str::from_utf8(s).ok(),
            _ => None,
        }
    }
}

/// Walks a document without allocating.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The unread input.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self
            .rest
            .split_at_checked(n)
            .ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    fn uint(&mut self, width: usize) -> Result<u64, DecodeError> {
        Ok(self
            .take(width)?
            .iter()
            .fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    fn len(&mut self, width: usize) -> Result<usize, DecodeError> {
        Ok(self.uint(width)? as usize)
    }

    /// The next item; for collections only the header is consumed.
    pub fn item(&mut self) -> Result<Item<'a>, DecodeError> {
        let code = self.take(1)?[0];
        Ok(match code {
            0x00..=0x7f => Item::Int(code.into()),
            0x80..=0x8f => Item::Map((code & 15).into()),
            0x90..=0x9f => Item::Array((code & 15).into()),
            0xa0..=0xbf => Item::Str(self.take((code & 31).into())?),
            0xc0 => Item::Nil,
            0xc1 => return Err(DecodeError::BadCode),
            0xc2 => Item::Bool(false),
            0xc3 => Item::Bool(true),
            0xc4..=0xc6 => {
                let n = self.len(1 << (code - 0xc4))?;
                Item::Bin(self.take(n)?)
            }
            0xc7..=0xc9 => {
                let n = self.len(1 << (code - 0xc7))?;
                self.ext(n)?
            }
            0xca => Item::Float(f32::from_bits(self.uint(4)? as u32).into()),
            0xcb => Item::Float(f64::from_bits(self.uint(8)?)),
            0xcc..=0xcf => {
                let n = self.uint(1 << (code - 0xcc))?;
                i64::try_from(n).map_or(Item::UInt(n), Item::Int)
            }
            0xd0 => Item::Int((self.uint(1)? as i8).into()),
            0xd1 => Item::Int((self.uint(2)? as i16).into()),
            0xd2 => Item::Int((self.uint(4)? as i32).into()),
            0xd3 => Item::Int(self.uint(8)? as i64),
            0xd4..=0xd8 => self.ext(1 << (code - 0xd4))?,
            0xd9..=0xdb => {
                let n = self.len(1 << (code - 0xd9))?;
                Item::Str(self.take(n)?)
            }
            0xdc..=0xdd => Item::Array(self.len(2 << (code - 0xdc))?),
            0xde..=0xdf => Item::Map(self.len(2 << (code - 0xde))?),
            0xe0..=0xff => Item::Int((code as i8).into()),
        })
    }

    fn ext(&mut self, n: usize) -> Result<Item<'a>, DecodeError> {
        let kind = self.take(1)?[0] as i8;
        Ok(Item::Ext(kind, self.take(n)?))
    }

    /// Skips one whole value and returns its bytes.
    pub fn skip(&mut self) -> Result<&'a [u8], DecodeError> {
        let start = self.rest;
        self.skip_at(MAX_DEPTH)?;
        Ok(&start[..start.len() - self.rest.len()])
    }

    /// `deeper`: how many levels of lists and maps there may be.
    fn skip_at(&mut self, deeper: usize) -> Result<(), DecodeError> {
        let children = match self.item()? {
            Item::Array(n) => n,
            Item::Map(n) => n.saturating_mul(2),
            _ => return Ok(()),
        };
        let deeper = deeper.checked_sub(1).ok_or(Exceeded::Depth)?;
        for _ in 0..children {
            self.skip_at(deeper)?;
        }
        Ok(())
    }

    /// Reads one whole value.
    pub fn value(&mut self) -> Result<Value, DecodeError> {
        self.value_at(MAX_DEPTH, &mut Budget::of(self.rest.len()))
    }

    fn value_at(&mut self, deeper: usize, budget: &mut Budget) -> Result<Value, DecodeError> {
        let inside = || deeper.checked_sub(1).ok_or(Exceeded::Depth);
        Ok(match self.item()? {
            Item::Nil => Value::Nil,
            Item::Bool(b) => Value::Bool(b),
            Item::Int(i) => Value::Int(i),
            Item::UInt(u) => Value::UInt(u),
            Item::Float(f) => Value::Float(f),
            Item::Str(s) | Item::Bin(s) => text_or_bytes(s),
            Item::Ext(NAMED, data) => named_value(data, inside()?, budget)?,
            Item::Ext(_, data) => text_or_bytes(data),
            Item::Array(n) => {
                let deeper = inside()?;
                let mut out = Vec::with_capacity(self.claim(n, 1, budget)?);
                for _ in 0..n {
                    out.push(self.value_at(deeper, budget)?);
                }
                Value::Array(out)
            }
            Item::Map(n) => {
                let deeper = inside()?;
                let mut out = Vec::with_capacity(self.claim(n, 2, budget)?);
                for _ in 0..n {
                    let key = self.value_at(deeper, budget)?;
                    out.push((key, self.value_at(deeper, budget)?));
                }
                Value::Map(Map(distinct(out)))
            }
        })
    }

    /// Checks the length in a header before anything is allocated for it: each value takes at least a byte of input.
    fn claim(&self, n: usize, each: usize, budget: &mut Budget) -> Result<usize, DecodeError> {
        if n > self.rest.len() / each {
            return Err(DecodeError::Truncated);
        }
        budget.take(n * each)?;
        Ok(n)
    }
}

/// Of equal keys the last value is used, in the position of the first, as in a Python dict:
/// what is checked here must be what a Python listener sees later.
fn distinct(pairs: Vec<(Value, Value)>) -> Vec<(Value, Value)> {
    if !has_twins(&pairs) {
        return pairs;
    }
    let mut places = HashMap::new();
    let mut out: Vec<(Value, Value)> = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let place = *places
            .entry(encode(&key, Profile::Local))
            .or_insert(out.len());
        if place == out.len() {
            out.push((key, value));
        } else {
            out[place].1 = value;
        }
    }
    out
}

fn has_twins(pairs: &[(Value, Value)]) -> bool {
    if pairs.len() <= 16 {
        let seen_before = |n: usize| pairs[..n].iter().any(|(key, _)| *key == pairs[n].0);
        return (1..pairs.len()).any(seen_before);
    }
    let (mut texts, mut others) = (HashSet::with_capacity(pairs.len()), HashSet::new());
    pairs.iter().any(|(key, _)| match key {
        Value::Str(text) => !texts.insert(text.as_str()),
        other => !others.insert(encode(other, Profile::Local)),
    })
}

fn text_or_bytes(s: &[u8]) -> Value {
    match std::str::from_utf8(s) {
        Ok(text) => Value::Str(text.to_owned()),
        Err(_) => Value::Bytes(s.to_vec()),
    }
}

/// The extension for a named constant `[name, value]`, which decodes to its value. All others decode to their bytes; type
/// 78 is a date as text.
const NAMED: i8 = 79;

/// The value of a named constant, or the bytes if it is none. It is decoded within what is left to the document around it.
fn named_value(data: &[u8], deeper: usize, budget: &mut Budget) -> Result<Value, DecodeError> {
    let mut inner = Reader::new(data);
    match inner.value_at(deeper, budget) {
        Ok(Value::Array(mut pair)) if pair.len() == 2 && inner.rest().is_empty() => {
            Ok(pair.swap_remove(1))
        }
        Err(limit @ DecodeError::TooLarge(_)) => Err(limit),
        _ => Ok(text_or_bytes(data)),
    }
}
