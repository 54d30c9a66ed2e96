//! What the masters of a cluster tell each other, sealed: nobody else who reaches NATS can read or make it.
//!
//! A record is `nonce || ciphertext || tag` of AES-256-GCM under a key of the cluster's secret. Its name in the bucket is
//! authenticated with it, so that it cannot be put in another place; the number that it contains grows with each change, so that
//! an earlier one cannot be put back.

use halite_crypto::{ClusterSecret, Gcm};
use halite_store::keys::KeyState;
use halite_wire::budget::Budget;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::BTreeMap;

/// Largest record, in bytes. A key has some 800.
const LARGEST: usize = 256 << 10;
/// Prefix of the names of minions' keys in the bucket.
const KEY: &str = "key.";
/// The name of [`PublicationKey`].
pub const PUBLICATION: &str = "aes";

/// The keys of one minion, by state: one in force, and perhaps a denied one. Empty after they were deleted.
pub type Keys = BTreeMap<KeyState, String>;

/// The keys of a minion as a master wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRecord {
    /// Grows with each change.
    pub number: u64,
    /// The keys.
    pub keys: Keys,
}

/// Which key of publications is in force; it is derived from this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicationKey {
    /// Grows with each new key.
    pub number: u64,
    /// Random, so that a number that is used again, after the bucket was lost, gives another key.
    pub random: Vec<u8>,
    /// When it came into force, in Unix seconds.
    pub since: u64,
}

/// Seals and opens records.
pub struct Sealer(Gcm);

impl Sealer {
    /// With the key of the cluster's secret.
    pub fn new(secret: &ClusterSecret) -> Sealer {
        Sealer(secret.seal("state"))
    }

    fn seal(&self, name: &str, record: &Map) -> Vec<u8> {
        let plain = msgpack::encode_map(record, Profile::Local);
        self.0.seal(name.as_bytes(), &plain)
    }

    /// `None` if it was not made by a master of the cluster, or for another name.
    fn open(&self, name: &str, sealed: &[u8]) -> Option<Map> {
        if sealed.len() > LARGEST {
            return None;
        }
        let plain = self.0.open(name.as_bytes(), sealed).ok()?;
        msgpack::decode_load(&plain, Budget::of(plain.len())).ok()
    }

    /// Seals the keys of a minion.
    pub fn seal_keys(&self, id: &MinionId, record: &KeyRecord) -> Vec<u8> {
        let keys: Map = record
            .keys
            .iter()
            .map(|(state, text)| (state.dir(), Value::from(text.as_str())))
            .collect();
        let record = halite_wire::map! {"number" => record.number, "keys" => keys};
        self.seal(&name_of(id), &record)
    }

    /// Opens the keys of a minion.
    pub fn open_keys(&self, id: &MinionId, sealed: &[u8]) -> Option<KeyRecord> {
        let record = self.open(&name_of(id), sealed)?;
        let mut keys = Keys::new();
        for (state, text) in record.get("keys")?.as_map()?.iter() {
            let dir = state.as_str()?;
            let state = KeyState::ALL.into_iter().find(|state| state.dir() == dir)?;
            keys.insert(state, text.as_str()?.to_owned());
        }
        let number = u64::try_from(record.int("number")?).ok()?;
        Some(KeyRecord { number, keys })
    }

    /// Seals a text under a name.
    pub fn seal_mark(&self, name: &str, text: &str) -> Vec<u8> {
        self.seal(name, &halite_wire::map! {"text" => text})
    }

    /// Opens it.
    pub fn open_mark(&self, name: &str, sealed: &[u8]) -> Option<String> {
        Some(self.open(name, sealed)?.str("text")?.to_owned())
    }

    /// Seals what the key of publications is derived from.
    pub fn seal_publication(&self, key: &PublicationKey) -> Vec<u8> {
        let record = halite_wire::map! {
            "number" => key.number, "random" => Value::Bytes(key.random.clone()), "since" => key.since,
        };
        self.seal(PUBLICATION, &record)
    }

    /// Opens it.
    pub fn open_publication(&self, sealed: &[u8]) -> Option<PublicationKey> {
        let record = self.open(PUBLICATION, sealed)?;
        let number = |name: &str| u64::try_from(record.int(name)?).ok();
        Some(PublicationKey {
            number: number("number")?,
            random: record.bytes("random")?.to_vec(),
            since: number("since")?,
        })
    }
}

/// The name of a minion's keys in the bucket, where not all characters of ids are allowed.
pub fn name_of(id: &MinionId) -> String {
    let mut name = KEY.to_owned();
    for byte in id.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            other => name.push_str(&format!("={other:02X}")),
        }
    }
    name
}

/// The minion whose keys have this name.
pub fn id_of(name: &str) -> Option<MinionId> {
    let mut rest = name.strip_prefix(KEY)?.bytes();
    let mut id = Vec::new();
    while let Some(byte) = rest.next() {
        if byte != b'=' {
            id.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        id.push(u8::from_str_radix(digits, 16).ok()?);
    }
    let id: MinionId = String::from_utf8(id).ok()?.parse().ok()?;
    (name_of(&id) == name).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(text: &str) -> Sealer {
        Sealer::new(&ClusterSecret::new(&text.repeat(32)).unwrap())
    }

    fn id(text: &str) -> MinionId {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_masters_can_read_and_write() {
        let (ours, others) = (sealer("a"), sealer("b"));
        let record = KeyRecord {
            number: 7,
            keys: [
                (KeyState::Accepted, "one".to_owned()),
                (KeyState::Denied, "two".to_owned()),
            ]
            .into(),
        };
        let sealed = ours.seal_keys(&id("m1"), &record);
        assert_eq!(ours.open_keys(&id("m1"), &sealed), Some(record.clone()));
        // In the place of another minion, with another secret, changed, or cut off.
        assert_eq!(ours.open_keys(&id("m2"), &sealed), None);
        assert_eq!(others.open_keys(&id("m1"), &sealed), None);
        for at in [0, 20, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(ours.open_keys(&id("m1"), &changed), None);
        }
        assert_eq!(ours.open_keys(&id("m1"), &sealed[1..]), None);
        assert_eq!(ours.open_keys(&id("m1"), b""), None);
        let empty = KeyRecord::default();
        let sealed = ours.seal_keys(&id("m1"), &empty);
        assert_eq!(ours.open_keys(&id("m1"), &sealed), Some(empty));
        assert_eq!(ours.open_publication(&sealed), None);
        let key = PublicationKey {
            number: 3,
            random: vec![1, 2, 3],
            since: 1_700_000_000,
        };
        let sealed = ours.seal_publication(&key);
        assert_eq!(ours.open_publication(&sealed), Some(key));
    }

    #[test]
    fn ids_become_names_and_back() {
        for (text, name) in [
            ("web1", "key.web1"),
            ("web1.example.org", "key.web1=2Eexample=2Eorg"),
            ("a=b", "key.a=3Db"),
        ] {
            assert_eq!(name_of(&id(text)), name);
            assert_eq!(id_of(name), Some(id(text)));
        }
        for wrong in [
            "web1", "key.", "key.a.b", "key.a=2", "key.a=ZZ", "key.=61", "key.a=2f", "key.=2F",
            "aes",
        ] {
            assert_eq!(id_of(wrong), None, "{wrong}");
        }
    }
}
