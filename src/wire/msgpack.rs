//! msgpack as Salt speaks it.
//!
//! On the network both text and bytes use the *old* raw family (fixstr, raw16,
//! raw32; never str8 or bin); locally (event bus, job cache, signed loads) the
//! current specification with str8 and bin is used. Decoding accepts everything
//! and turns bytes that are valid UTF-8 into text
//! (`salt/payload.py dumps`, `loads`; reference `salt-protocol.md` 1.7).

use super::budget::{self, Budget, Exceeded};
use super::value::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Deepest nesting accepted; bounds the recursion. It leaves room for what halite puts around values from outside: events,
/// answers of runners.
pub const MAX_DEPTH: usize = budget::MAX_DEPTH + 28;
/// Most fields of a [load](decode_load).
const MAX_FIELDS: usize = 256;

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
                put_len(out, b.len(), [0xc4, 0xc5, 0xc6]);
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

/// Decodes exactly one load: a map whose keys are text, each there once. Whoever [looks into it](fields) without decoding
/// it sees the same.
///
/// # Errors
/// It is something else, or exceeds a limit.
pub fn decode_load(bytes: &[u8], mut budget: Budget) -> Result<Map, DecodeError> {
    let mut fields = fields(bytes)?;
    budget.take(2 * fields.left)?;
    let mut out = Vec::with_capacity(fields.left);
    while let Some(field) = fields.next_with(|r| r.value_at(budget::MAX_DEPTH - 1, &mut budget)) {
        let (name, value) = field?;
        out.push((name.into(), value));
    }
    match fields.rest() {
        [] => Ok(Map(out)),
        _ => Err(DecodeError::Trailing),
    }
}

/// The fields of a map, as they stand in its bytes: see [`fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    reader: Reader<'a>,
    left: usize,
    seen: Vec<&'a str>,
}

/// Reads the fields of a map without decoding their values: each name, and the bytes of its value. The map may be cut short;
/// its last field is then an error.
///
/// # Errors
/// It is not a map, or has too many fields. The fields themselves are errors from the first that is malformed, whose name is
/// not text, or has been there before.
pub fn fields(bytes: &[u8]) -> Result<Fields<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.item()? {
        Item::Map(left) if left <= MAX_FIELDS => Ok(Fields {
            reader,
            left,
            seen: Vec::with_capacity(left),
        }),
        _ => Err(DecodeError::BadFields),
    }
}

impl<'a> Fields<'a> {
    /// What follows the fields read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// The next field, whose value is taken by `read`; none after an error.
    fn next_with<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Option<Result<(&'a str, T), DecodeError>> {
        self.left = self.left.checked_sub(1)?;
        let field = self
            .name()
            .and_then(|name| Ok((name, read(&mut self.reader)?)));
        if field.is_err() {
            self.left = 0;
        }
        Some(field)
    }

    fn name(&mut self) -> Result<&'a str, DecodeError> {
        let name = self.reader.item()?.text();
        let new = name.filter(|name| !self.seen.contains(name));
        let new = new.ok_or(DecodeError::BadFields)?;
        self.seen.push(new);
        Ok(new)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(&'a str, &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(Reader::skip)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of `tests/vectors/msgpack.json` by name; `None` for those without a literal here.
    fn vector_value(name: &str) -> Option<Value> {
        Some(match name {
            "short-str" => "abc".into(),
            "str-31" => "a".repeat(31).into(),
            "str-32" => "a".repeat(32).into(),
            "str-255" => "a".repeat(255).into(),
            "str-65536" => "a".repeat(65536).into(),
            "bytes-3" => vec![0u8, 0xff, 1].into(),
            "bytes-40" => vec![0xfeu8; 40].into(),
            "int" => 300.into(),
            "neg" => (-5).into(),
            "bigint-jid" => "20231114221320000000".into(),
            "over-u64" => "18446744073709551617".into(),
            "float" => 1.5.into(),
            "bool-none" => vec![true.into(), false.into(), Value::Nil].into(),
            "map" => crate::map! {"a" => 1, "b" => vec![Value::from(1), Value::from(2)]}.into(),
            "utf8" => "h\u{e9}llo \u{2603}".into(),
            "set" => vec![Value::from(1)].into(),
            _ => return None,
        })
    }

    fn unhex(text: &str) -> Vec<u8> {
        let digit = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn vectors_of_stock_salt() {
        let json = include_str!("../../tests/vectors/msgpack.json");
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        let mut compared = 0;
        for vector in json["vectors"].as_array().unwrap() {
            let name = vector["name"].as_str().unwrap();
            let Some(value) = vector_value(name) else {
                assert_eq!(name, "datetime");
                let bytes = unhex(vector["wire_hex"].as_str().unwrap());
                assert_eq!(decode(&bytes).unwrap(), "20231114T22:13:20.123456".into());
                continue;
            };
            for (profile, key) in [(Profile::Wire, "wire"), (Profile::Local, "bin_type")] {
                let bytes = encode(&value, profile);
                let prefix = unhex(vector[format!("{key}_prefix_hex")].as_str().unwrap());
                assert!(bytes.starts_with(&prefix), "{name} {key}");
                if let Some(hex) = vector[format!("{key}_hex")].as_str() {
                    assert_eq!(bytes, unhex(hex), "{name} {key}");
                }
                assert_eq!(decode(&bytes).unwrap(), value, "{name} {key}");
                compared += 1;
            }
            let length = encode(&value, Profile::Wire).len() as u64;
            assert_eq!(vector["wire_len"].as_u64(), Some(length), "{name}");
        }
        assert!(compared >= 32);
    }

    fn any_value() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (i64::MAX as u64 + 1..).prop_map(Value::UInt),
            any::<f64>()
                .prop_filter("NaN equals nothing", |f| !f.is_nan())
                .prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
            proptest::collection::vec(any::<u8>(), 0..300)
                .prop_filter("text", |b| std::str::from_utf8(b).is_err())
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 20, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
                proptest::collection::btree_map("[a-z]{0,8}", inner, 0..20)
                    .prop_map(|m| m.into_iter().collect::<Map>().into()),
            ]
        })
    }

    proptest::proptest! {
        #[test]
        fn values_come_back(value in any_value()) {
            for profile in [Profile::Wire, Profile::Local] {
                proptest::prop_assert_eq!(&decode(&encode(&value, profile)).unwrap(), &value);
            }
        }

        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let decoded = decode(&bytes);
            let mut reader = Reader::new(&bytes);
            // Skipping and reading agree on where a document ends.
            if decoded.is_ok() {
                proptest::prop_assert_eq!(reader.skip().unwrap(), &bytes[..]);
            }
        }
    }

    /// One inside the other: each `[name, <the next>]`.
    fn named_constants(count: usize) -> Vec<u8> {
        (0..count).fold(vec![0xc0], |inner, _| {
            let pair = [&b"\x92\xa1x"[..], &inner].concat();
            let mut out = vec![0xc9];
            out.extend((pair.len() as u32).to_be_bytes());
            out.push(NAMED as u8);
            out.extend(pair);
            out
        })
    }

    #[test]
    fn extensions_inside_extensions_share_the_limits() {
        assert_eq!(decode(&named_constants(20)), Ok(Value::Nil));
        for count in [100, 10_000] {
            let bytes = named_constants(count);
            assert_eq!(decode(&bytes), Err(Exceeded::Depth.into()), "{count}");
            assert!(Reader::new(&bytes).value().is_err());
        }
        // Directly inside each other they are no constants, but no deeper either.
        let direct = (0..10_000).fold(vec![0xc0], |inner, _| {
            let mut out = vec![0xc9];
            out.extend((inner.len() as u32).to_be_bytes());
            out.push(NAMED as u8);
            out.extend(inner);
            out
        });
        assert_eq!(decode(&direct), Err(Exceeded::Depth.into()));
        assert_eq!(decode(b"\xd6\x4f\x92\xa1x\x07"), Ok(7.into()));
        assert_eq!(decode(b"\xd6\x4eabcd"), Ok("abcd".into()));
        assert_eq!(
            decode(b"\xd6\x4f\x92\xa1x\xc1"),
            Ok(vec![0x92u8, 0xa1, b'x', 0xc1].into())
        );
    }

    #[test]
    fn lengths_are_checked_before_memory_is_taken() {
        let array = |n: u32, fill: usize| {
            let mut out = vec![0xdd];
            out.extend(n.to_be_bytes());
            out.resize(5 + fill, 0xc0);
            out
        };
        let many = 4 * budget::MAX_VALUES;
        assert_eq!(decode(&array(u32::MAX, 9)), Err(DecodeError::Truncated));
        assert_eq!(
            decode(&array(many as u32, many)),
            Err(Exceeded::Values.into())
        );
        // A claim counts when it is made, so that nested ones cannot each take as much as the input has bytes.
        let nested = [array(100_000, 0).repeat(60), vec![0xc0; 100_000]].concat();
        assert_eq!(decode(&nested), Err(Exceeded::Values.into()));
        let texts: Vec<Value> = (0..2 * budget::MAX_VALUES)
            .map(|n| n.to_string().into())
            .collect();
        assert!(decode(&encode(&texts.into(), Profile::Wire)).is_ok());
    }

    #[test]
    fn a_load_has_each_name_once() {
        let load = |bytes: &[u8]| decode_load(bytes, Budget::fixed());
        assert_eq!(
            load(b"\x82\xa3cmd\xa1x\xa2id\x01"),
            Ok(crate::map! {"cmd" => "x", "id" => 1})
        );
        for bad in [
            &b"\x82\xa3cmd\xa1x\xa3cmd\xa1y"[..],
            // The same name as bytes, as an extension, behind a list that hides it.
            b"\x82\xa3cmd\xa1x\xc4\x03cmd\xa1y",
            b"\x82\xc7\x03\x4ecmd\xa1x\xa3cmd\xa1y",
            b"\x81\x92\xa3cmd\xa1x\xc0",
            b"\x81\x01\x02",
            b"\x90",
            b"\xa1x",
        ] {
            assert_eq!(load(bad), Err(DecodeError::BadFields), "{bad:x?}");
        }
        let many: Map = (0..=MAX_FIELDS).map(|n| (n.to_string(), 1)).collect();
        let many = encode_map(&many, Profile::Wire);
        assert_eq!(load(&many), Err(DecodeError::BadFields));
        assert_eq!(load(b"\x81\xa1x\xc0\xc0"), Err(DecodeError::Trailing));
        let cut: Vec<_> = fields(b"\x82\xa1a\x01\xa1b").unwrap().collect();
        assert_eq!(cut, [Ok(("a", &b"\x01"[..])), Err(DecodeError::Truncated)]);
    }

    #[test]
    fn of_equal_keys_the_last_counts() {
        let ids = |n: i64| (Value::from("id"), Value::from(n));
        let mut pairs = vec![ids(1), (Value::from("x"), Value::Nil), ids(2)];
        let bytes = encode_map(&Map(pairs.clone()), Profile::Wire);
        assert_eq!(
            decode(&bytes),
            Ok(Value::Map(crate::map! {"id" => 2, "x" => Value::Nil}))
        );
        // The same for a map too large for pairwise comparison.
        pairs.extend((0..40).map(|n| (Value::from(n), Value::Nil)));
        pairs.push((Value::from(7), Value::from(true)));
        pairs.push(ids(3));
        let got = decode(&encode_map(&Map(pairs), Profile::Wire))
            .unwrap()
            .into_map()
            .unwrap();
        assert_eq!((got.len(), got.int("id")), (42, Some(3)));
        assert_eq!(got.0[9], (Value::from(7), Value::from(true)));
    }
}
