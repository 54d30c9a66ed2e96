//! JSON-like text of an event's data.

use halite_ipc::Event;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The data as one line.
pub fn json(event: &Event) -> String {
    match event.decode::<Text>() {
        Ok(text) => text.0,
        Err(e) => format!("({e})"),
    }
}

/// Any value, converted to text during deserialization.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Text, D::Error> {
        d.deserialize_any(Print)
    }
}

struct Print;

impl<'de> Visitor<'de> for Print {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text("null".into()))
    }
    fn visit_bool<E>(self, x: bool) -> Result<Text, E> {
        Ok(Text(x.to_string()))
    }
    fn visit_i64<E>(self, x: i64) -> Result<Text, E> {
        Ok(Text(x.to_string()))
    }
    fn visit_u64<E>(self, x: u64) -> Result<Text, E> {
        Ok(Text(x.to_string()))
    }
    fn visit_f64<E>(self, x: f64) -> Result<Text, E> {
        Ok(Text(x.to_string()))
    }
    fn visit_str<E>(self, x: &str) -> Result<Text, E> {
        Ok(Text(format!("{x:?}")))
    }
    fn visit_bytes<E>(self, x: &[u8]) -> Result<Text, E> {
        Ok(Text(format!("{:?}", String::from_utf8_lossy(x))))
    }
    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Text, D::Error> {
        // An extension type: its number and its bytes.
        d.deserialize_any(Print)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut a: A) -> Result<Text, A::Error> {
        let mut parts = Vec::new();
        while let Some(Text(v)) = a.next_element()? {
            parts.push(v);
        }
        Ok(Text(format!("[{}]", parts.join(", "))))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut a: A) -> Result<Text, A::Error> {
        let mut parts = Vec::new();
        while let Some((Text(k), Text(v))) = a.next_entry()? {
            parts.push(format!("{k}: {v}"));
        }
        Ok(Text(format!("{{{}}}", parts.join(", "))))
    }
}
