//! Python's `marshal` format, version 2: what its standard library reads and writes fastest, with integers as keys,
//! bytes, and `None` told apart.
//!
//! Version 2 has no references, so a document is as large in memory as its length allows. The decoder asks for nothing
//! before it has seen the bytes for it, and knows data only: no code objects.

use halite_wire::{Map, Value};
use num_bigint::{BigInt, Sign};
use std::fmt;

/// Deepest nesting.
const MAX_DEPTH: usize = 200;
/// Values in one document; some 32 bytes each in memory.
const MAX_VALUES: usize = 8 << 20;
/// Digits of a long integer; more are no number but an attempt to keep this side busy.
const MAX_DIGITS: usize = 1000;
/// Bits in a digit of a long integer.
const DIGIT: u32 = 15;

/// Why a document cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarshalError {
    /// It ends too early, or goes on behind its value.
    Length,
    /// A type other than data, or a number out of range.
    Type(u8),
    /// Nested too deeply.
    Depth,
    /// Too many values.
    Values,
}

impl fmt::Display for MarshalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MarshalError::Length => f.write_str("its length is wrong"),
            MarshalError::Type(code) => {
                write!(f, "it has a value of type {:?}", char::from(*code))
            }
            MarshalError::Depth => {
                write!(f, "more than {MAX_DEPTH} lists or maps inside one another")
            }
            MarshalError::Values => write!(f, "more than {MAX_VALUES} values"),
        }
    }
}

impl std::error::Error for MarshalError {}

/// Encodes a value for `marshal.loads`.
pub fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Nil => out.push(b'N'),
        Value::Bool(true) => out.push(b'T'),
        Value::Bool(false) => out.push(b'F'),
        Value::Int(i) => match i32::try_from(*i) {
            Ok(small) => {
                out.push(b'i');
                out.extend(small.to_le_bytes());
            }
            Err(_) => long(i.unsigned_abs(), *i < 0, out),
        },
        Value::UInt(u) => long(*u, false, out),
        Value::Float(x) => {
            out.push(b'g');
            out.extend(x.to_le_bytes());
        }
        Value::Str(text) => sized(b'u', text.as_bytes(), out),
        Value::Bytes(bytes) => sized(b's', bytes, out),
        Value::Array(list) => {
            out.push(b'[');
            count(list.len(), out);
            list.iter().for_each(|one| encode(one, out));
        }
        Value::Map(map) => encode_map(map, out),
    }
}

/// Encodes a map.
pub fn encode_map(map: &Map, out: &mut Vec<u8>) {
    out.push(b'{');
    for (key, value) in map.iter() {
        // Python cannot have a list or a map as key.
        if !matches!(key, Value::Array(_) | Value::Map(_)) {
            encode(key, out);
            encode(value, out);
        }
    }
    out.push(b'0');
}

/// A frame is at most as long as [`crate::frame::MAX_LEN`], below what fits.
fn count(len: usize, out: &mut Vec<u8>) {
    out.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
}

fn sized(code: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(code);
    count(bytes.len(), out);
    out.extend(bytes);
}

fn long(mut magnitude: u64, negative: bool, out: &mut Vec<u8>) {
    let mut digits = Vec::new();
    while magnitude > 0 {
        digits.push((magnitude & ((1 << DIGIT) - 1)) as u16);
        magnitude >>= DIGIT;
    }
    let n = digits.len() as i32;
    out.push(b'l');
    out.extend((if negative { -n } else { n }).to_le_bytes());
    digits.iter().for_each(|d| out.extend(d.to_le_bytes()));
}

/// Decodes what `marshal.dumps(value, 2)` has written. Tuples and sets become lists, complex and huge numbers text.
///
/// # Errors
/// The document is damaged, exceeds a limit, or holds something else than data.
pub fn decode(bytes: &[u8]) -> Result<Value, MarshalError> {
    let mut reader = Reader {
        rest: bytes,
        values: 0,
    };
    let value = reader.value(0)?;
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err(MarshalError::Length)
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    values: usize,
}

impl Reader<'_> {
    fn take(&mut self, len: usize) -> Result<&[u8], MarshalError> {
        let (head, tail) = self
            .rest
            .split_at_checked(len)
            .ok_or(MarshalError::Length)?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MarshalError> {
        self.take(N)?.try_into().map_err(|_| MarshalError::Length)
    }

    fn code(&mut self) -> Result<u8, MarshalError> {
        self.array::<1>().map(|[code]| code)
    }

    fn number(&mut self) -> Result<i32, MarshalError> {
        self.array().map(i32::from_le_bytes)
    }

    fn len(&mut self) -> Result<usize, MarshalError> {
        usize::try_from(self.number()?).map_err(|_| MarshalError::Length)
    }

    fn value(&mut self, depth: usize) -> Result<Value, MarshalError> {
        let code = self.code()?;
        self.coded(code, depth)
    }

    fn coded(&mut self, code: u8, depth: usize) -> Result<Value, MarshalError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(MarshalError::Values);
        }
        if depth > MAX_DEPTH {
            return Err(MarshalError::Depth);
        }
        Ok(match code {
            b'N' => Value::Nil,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            b'i' => Value::Int(self.number()?.into()),
            b'l' => self.long()?,
            b'g' => Value::Float(f64::from_le_bytes(self.array()?)),
            b'y' => {
                let (re, im) = (
                    f64::from_le_bytes(self.array()?),
                    f64::from_le_bytes(self.array()?),
                );
                format!("({re}{im:+}j)").into()
            }
            b's' => {
                let len = self.len()?;
                Value::Bytes(self.take(len)?.to_vec())
            }
            // Surrogates, as in undecodable file names, have no place in our text.
            b'u' | b't' => {
                let len = self.len()?;
                Value::Str(String::from_utf8_lossy(self.take(len)?).into_owned())
            }
            b'(' | b'[' | b'<' | b'>' => self.list(depth)?,
            b'{' => self.map(depth)?,
            other => return Err(MarshalError::Type(other)),
        })
    }

    fn list(&mut self, depth: usize) -> Result<Value, MarshalError> {
        let len = self.len()?;
        // Each value takes a byte at least.
        if len > self.rest.len() {
            return Err(MarshalError::Length);
        }
        let mut list = Vec::new();
        for _ in 0..len {
            list.push(self.value(depth + 1)?);
        }
        Ok(Value::Array(list))
    }

    fn map(&mut self, depth: usize) -> Result<Value, MarshalError> {
        let mut map = Map::new();
        loop {
            match self.code()? {
                b'0' => return Ok(Value::Map(map)),
                code => {
                    let key = self.coded(code, depth + 1)?;
                    map.0.push((key, self.value(depth + 1)?));
                }
            }
        }
    }

    fn long(&mut self) -> Result<Value, MarshalError> {
        let signed = self.number()?;
        let count = signed.unsigned_abs() as usize;
        let bytes = self.take(count.checked_mul(2).ok_or(MarshalError::Length)?)?;
        if count > MAX_DIGITS {
            return Err(MarshalError::Type(b'l'));
        }
        let digits: Vec<u64> = bytes
            .chunks_exact(2)
            .map(|pair| u64::from(u16::from_le_bytes([pair[0], pair[1]])))
            .collect();
        if digits.iter().any(|d| d >> DIGIT != 0) {
            return Err(MarshalError::Type(b'l'));
        }
        // 4 digits and some bits fill 64 bits.
        if count <= 4 {
            let magnitude = digits.iter().rev().fold(0u64, |all, d| all << DIGIT | d);
            let value = magnitude.cast_signed();
            return Ok(Value::Int(if signed < 0 { -value } else { value }));
        }
        let mut all = BigInt::from(0);
        for digit in digits.iter().rev() {
            all = (all << DIGIT) + *digit;
        }
        if signed < 0 {
            all = BigInt::from_biguint(Sign::Minus, all.magnitude().clone());
        }
        Ok(if let Ok(small) = i64::try_from(&all) {
            Value::Int(small)
        } else if let Ok(large) = u64::try_from(&all) {
            Value::UInt(large)
        } else {
            // As stock does for numbers that msgpack cannot hold.
            all.to_string().into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn there_and_back(value: Value) -> Value {
        let mut bytes = Vec::new();
        encode(&value, &mut bytes);
        decode(&bytes).unwrap()
    }

    #[test]
    fn values_survive() {
        let mut odd = map! {"a" => Value::Array(vec![1.into(), (-5).into()]), "b" => map! {"c" => Value::Nil}};
        odd.0.push((Value::Int(3), Value::Float(1.5)));
        for value in [
            Value::Int(i64::MIN),
            Value::Int(i64::MAX),
            Value::Int(-40_000_000_000),
            Value::UInt(u64::MAX),
            Value::Bytes(vec![0, 255]),
            "ünï".into(),
            true.into(),
            odd.into(),
        ] {
            assert_eq!(there_and_back(value.clone()), value);
        }
    }

    #[test]
    fn python_wrote_this() {
        // marshal.dumps({1: (True, b'x'), 'k': 2**70, 's': frozenset([7])}, 2)
        let bytes = b"{i\x01\x00\x00\x00(\x02\x00\x00\x00Ts\x01\x00\x00\x00xu\x01\x00\x00\x00kl\x05\x00\x00\x00\
            \x00\x00\x00\x00\x00\x00\x00\x00\x00\x04u\x01\x00\x00\x00s>\x01\x00\x00\x00i\x07\x00\x00\x000";
        let mut want = Map::new();
        want.0.push((
            Value::Int(1),
            Value::Array(vec![true.into(), Value::Bytes(b"x".to_vec())]),
        ));
        want.set("k", "1180591620717411303424");
        want.set("s", Value::Array(vec![7.into()]));
        assert_eq!(decode(bytes), Ok(want.into()));
    }

    #[test]
    fn bad_documents_are_refused() {
        assert_eq!(decode(b""), Err(MarshalError::Length));
        assert_eq!(decode(b"NN"), Err(MarshalError::Length));
        assert_eq!(decode(b"c\0\0\0\0"), Err(MarshalError::Type(b'c')));
        // Lengths that promise more than there is.
        for code in *b"su([<>" {
            assert_eq!(
                decode(&[code, 255, 255, 255, 127]),
                Err(MarshalError::Length)
            );
        }
        assert_eq!(decode(b"l\x00\x00\x00\x80"), Err(MarshalError::Length));
        let deep = [b'[', 1, 0, 0, 0].repeat(MAX_DEPTH + 2);
        assert_eq!(decode(&deep), Err(MarshalError::Depth));
    }
}
