//! What is asked of the master, before it is sealed.

use halite_wire::msgpack::{self, DecodeError, Profile};
use halite_wire::{Map, Value};

/// The fields of a request. A large result is sent as it was stored, without being decoded.
#[derive(Clone, Debug)]
pub struct Load<'a>(Vec<(&'a str, Field<'a>)>);

#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Value(&'a Value),
    /// Encoded with [`Profile::Local`].
    Encoded(&'a [u8]),
}

impl<'a> From<&'a Map> for Load<'a> {
    fn from(map: &'a Map) -> Load<'a> {
        let fields = map
            .iter()
            .filter_map(|(key, value)| Some((key.as_str()?, Field::Value(value))));
        Load(fields.collect())
    }
}

impl<'a> Load<'a> {
    /// A load that is encoded with [`Profile::Local`].
    ///
    /// # Errors
    /// It is not a map, is cut short, or does not have each name once.
    pub fn encoded(bytes: &'a [u8]) -> Result<Load<'a>, DecodeError> {
        let mut all = msgpack::fields(bytes)?;
        let mut fields = Vec::new();
        for field in &mut all {
            let (name, value) = field?;
            fields.push((name, Field::Encoded(value)));
        }
        match all.rest() {
            [] => Ok(Load(fields)),
            _ => Err(DecodeError::Trailing),
        }
    }

    /// Sets a field: in place if it exists, else at the end.
    pub(super) fn set(&mut self, name: &'a str, value: &'a Value) {
        let value = Field::Value(value);
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name, value)),
        }
    }

    /// The msgpack document, without the fields `except`.
    pub(super) fn encode(&self, profile: Profile, except: &[&str]) -> Vec<u8> {
        let fields = || self.0.iter().filter(|(name, _)| !except.contains(name));
        let mut out = Vec::with_capacity(128);
        msgpack::put_map_header(&mut out, fields().count());
        for (name, field) in fields() {
            msgpack::put_str(&mut out, name.as_bytes(), profile);
            match (field, profile) {
                (Field::Value(value), _) => msgpack::encode_into(&mut out, value, profile),
                (Field::Encoded(bytes), Profile::Local) => out.extend_from_slice(bytes),
                (Field::Encoded(bytes), Profile::Wire) => msgpack::put_for_wire(&mut out, bytes),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_load_is_sent_as_a_decoded_one() {
        let long = "x".repeat(300);
        let load = halite_wire::map! {
            "id" => "m1", "cmd" => "_return", "fun" => "x".repeat(40),
            "return" => halite_wire::map! {
                "text" => long.as_str(), "bytes" => vec![0xff_u8; 300], "few" => vec![0xff_u8, 1],
                "list" => vec![Value::Nil, 1.5.into(), (-3).into(), 70_000.into(), "".into()],
            },
        };
        let bytes = msgpack::encode_map(&load, Profile::Local);
        let mut encoded = Load::encoded(&bytes).unwrap();
        let mut decoded = Load::from(&load);
        let id = Value::from("m2");
        for profile in [Profile::Local, Profile::Wire] {
            for except in [&[][..], &["fun"]] {
                assert_eq!(
                    encoded.encode(profile, except),
                    decoded.encode(profile, except)
                );
            }
            encoded.set("id", &id);
            encoded.set("ts", &id);
            decoded.set("id", &id);
            decoded.set("ts", &id);
        }
        assert_eq!(Load::from(&load).encode(Profile::Local, &[]), bytes);
    }

    #[test]
    fn a_damaged_load_is_an_error() {
        let bytes =
            msgpack::encode_map(&halite_wire::map! {"a" => "text", "b" => 1}, Profile::Local);
        for cut in 0..bytes.len() {
            assert!(Load::encoded(&bytes[..cut]).is_err(), "{cut}");
        }
        let more = [&bytes[..], &[0]].concat();
        assert_eq!(Load::encoded(&more).unwrap_err(), DecodeError::Trailing);
    }
}
