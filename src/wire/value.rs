//! The free-form value in loads, returns, grains, pillar and events.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::fmt;

/// Anything msgpack, JSON or YAML can carry between Salt peers.
///
/// Binary fields that happen to be valid UTF-8 arrive as [`Value::Str`]
/// (`salt/transport/frame.py decode_embedded_strs`), so protocol code asks for
/// bytes with [`Value::as_bytes`], which accepts both.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// msgpack nil, Python `None`.
    #[default]
    Nil,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An integer above `i64::MAX`; smaller ones are always [`Value::Int`].
    UInt(u64),
    /// A 64-bit float.
    Float(f64),
    /// Text.
    Str(String),
    /// Bytes that are not valid UTF-8, or that must be sent as binary.
    Bytes(Vec<u8>),
    /// A list; tuples and sets arrive as lists too.
    Array(Vec<Value>),
    /// A map, in the order it was sent.
    Map(Map),
}

/// A map that keeps the order of insertion. Keys are usually text but need not be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(pub Vec<(Value, Value)>);

impl Map {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value under a text key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(k, _)| k.is_str(key)).map(|(_, v)| v)
    }

    /// The value under a text key, mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.0
            .iter_mut()
            .find(|(k, _)| k.is_str(key))
            .map(|(_, v)| v)
    }

    /// Whether a text key is present.
    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a text key: in place if it exists, else at the end (as in a Python dict).
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let key = key.into();
        match self.get_mut(&key) {
            Some(slot) => *slot = value.into(),
            None => self.0.push((Value::Str(key), value.into())),
        }
    }

    /// Removes a text key, keeping the order of the rest.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.0.iter().position(|(k, _)| k.is_str(key))?;
        Some(self.0.remove(at).1)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Entries in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (Value, Value)> {
        self.0.iter()
    }

    /// The text under a key, if it is text.
    pub fn str(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// The bytes under a key, whether they came as text or as binary.
    pub fn bytes(&self, key: &str) -> Option<&[u8]> {
        self.get(key).and_then(Value::as_bytes)
    }

    /// The integer under a key, if it is one.
    pub fn int(&self, key: &str) -> Option<i64> {
        self.get(key).and_then(Value::as_int)
    }
}

impl Value {
    /// The text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The bytes of text or binary.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Str(s) => Some(s.as_bytes()),
            Value::Bytes(b) => Some(b),
            _ => None,
        }
    }

    /// The integer, if it fits an `i64`.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The list, if this is one.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The map, if this is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The map by value, if this is one.
    pub fn into_map(self) -> Option<Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }

    /// Whether this is exactly that text.
    pub fn is_str(&self, text: &str) -> bool {
        matches!(self, Value::Str(s) if s == text)
    }

    /// Whether this is nil.
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// The result of Python's `bool()`.
    pub fn truthy(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Bool(b) => *b,
            Value::Int(i) => *i != 0,
            Value::UInt(u) => *u != 0,
            Value::Float(f) => *f != 0.0,
            Value::Str(s) => !s.is_empty(),
            Value::Bytes(b) => !b.is_empty(),
            Value::Array(a) => !a.is_empty(),
            Value::Map(m) => !m.is_empty(),
        }
    }

    /// The texts of a list; other items are left out.
    pub fn str_list(&self) -> Vec<String> {
        self.as_array()
            .unwrap_or_default()
            .iter()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect()
    }
}

macro_rules! from {
    ($($from:ty => |$x:ident| $make:expr;)*) => {$(
        impl From<$from> for Value {
            fn from($x: $from) -> Value {
                $make
            }
        }
    )*};
}

from! {
    bool => |x| Value::Bool(x);
    i32 => |x| Value::Int(x.into());
    i64 => |x| Value::Int(x);
    u16 => |x| Value::Int(x.into());
    u32 => |x| Value::Int(x.into());
    u64 => |x| i64::try_from(x).map_or(Value::UInt(x), Value::Int);
    usize => |x| Value::from(x as u64);
    f64 => |x| Value::Float(x);
    &str => |x| Value::Str(x.to_owned());
    &String => |x| Value::Str(x.clone());
    String => |x| Value::Str(x);
    Vec<u8> => |x| Value::Bytes(x);
    &[u8] => |x| Value::Bytes(x.to_vec());
    Vec<Value> => |x| Value::Array(x);
    Map => |x| Value::Map(x);
}

impl From<Vec<String>> for Value {
    fn from(x: Vec<String>) -> Value {
        Value::Array(x.into_iter().map(Value::Str).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(x: Option<T>) -> Value {
        x.map_or(Value::Nil, Into::into)
    }
}

impl<K: Into<Value>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Map {
        Map(iter
            .into_iter()
            .map(|(k, v)| (k.into(), v.into()))
            .collect())
    }
}

/// Builds a [`Map`] from `"key" => value` pairs, in that order.
#[macro_export]
macro_rules! map {
    ($($k:expr => $v:expr),* $(,)?) => {
        $crate::Map(vec![$(($crate::Value::from($k), $crate::Value::from($v))),*])
    };
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Nil => s.serialize_none(),
            Value::Bool(b) => s.serialize_bool(*b),
            Value::Int(i) => s.serialize_i64(*i),
            Value::UInt(u) => s.serialize_u64(*u),
            Value::Float(f) => s.serialize_f64(*f),
            Value::Str(t) => s.serialize_str(t),
            Value::Bytes(b) => s.serialize_bytes(b),
            Value::Array(a) => {
                let mut seq = s.serialize_seq(Some(a.len()))?;
                a.iter().try_for_each(|v| seq.serialize_element(v))?;
                seq.end()
            }
            Value::Map(m) => m.serialize(s),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.len()))?;
        self.iter()
            .try_for_each(|(k, v)| map.serialize_entry(k, v))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("any value")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Nil)
            }
            fn visit_none<E>(self) -> Result<Value, E> {
                Ok(Value::Nil)
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
                Deserialize::deserialize(d)
            }
            fn visit_bool<E>(self, x: bool) -> Result<Value, E> {
                Ok(x.into())
            }
            fn visit_i64<E>(self, x: i64) -> Result<Value, E> {
                Ok(x.into())
            }
            fn visit_u64<E>(self, x: u64) -> Result<Value, E> {
                Ok(x.into())
            }
            fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
                Ok(x.into())
            }
            fn visit_str<E>(self, x: &str) -> Result<Value, E> {
                Ok(x.into())
            }
            fn visit_bytes<E>(self, x: &[u8]) -> Result<Value, E> {
                Ok(match std::str::from_utf8(x) {
                    Ok(text) => text.into(),
                    Err(_) => x.into(),
                })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> Result<Value, A::Error> {
                let mut out = Vec::new();
                while let Some(v) = a.next_element()? {
                    out.push(v);
                }
                Ok(Value::Array(out))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut a: A) -> Result<Value, A::Error> {
                let mut out = Vec::new();
                while let Some(kv) = a.next_entry()? {
                    out.push(kv);
                }
                Ok(Value::Map(Map(out)))
            }
        }
        d.deserialize_any(V)
    }
}
