//! What the masters of a cluster tell each other, sealed: nobody else who reaches NATS can read or make it.
//!
//! A record is `nonce || ciphertext || tag` of AES-256-GCM under a key of the cluster's secret and id. Its name and the mark of the
//! bucket are authenticated with it, so that it cannot be put in another place; the number that it contains grows with
//! each change, so that an earlier one cannot be put back.

use crate::claims::Run;
use crate::digest;
use halite_crypto::noise::fingerprint;
use halite_crypto::{ClusterSecret, Gcm, IdentityKey};
use halite_store::keys::KeyState;
use halite_wire::budget::Budget;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// Largest record, in bytes. A key has some 800.
pub const LARGEST: usize = 256 << 10;
/// Prefix of the names of minions' keys in the bucket.
const KEY: &str = "key.";
/// The name of [`Meta`].
pub const META: &str = "meta";
/// The name of [`PublicationKey`].
pub const PUBLICATION: &str = "aes";
/// The name of the RSA key that all masters have.
pub const PAIR: &str = "pki";
/// The name of [`Lead`].
pub const LEAD: &str = "lead";
/// Prefix of the names of [`Run`].
const RUN: &str = "run.";
/// Prefix of the names of [`Lead`] of gateways.
const GATEWAY: &str = "lead.";

/// The keys of one minion, by state: one in force, and perhaps a denied one. Empty after they were deleted.
pub type Keys = BTreeMap<KeyState, String>;

/// The keys of a minion as a master wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRecord {
    /// Grows with each write.
    pub number: u64,
    /// Grows with each change; not if an entry of a stranger was replaced.
    pub change: u64,
    /// How often an accepted key was taken away; sessions depend on it.
    pub epoch: u64,
    /// The keys.
    pub keys: Keys,
}

impl KeyRecord {
    /// Whether another record tells the same change: it is this one, or was written again against a stranger.
    pub fn has_same_change(&self, other: &KeyRecord) -> bool {
        (self.change, &self.keys) == (other.change, &other.keys)
    }

    /// As MessagePack has it.
    pub fn to_map(&self) -> Map {
        let keys: Map = self
            .keys
            .iter()
            .map(|(state, text)| (state.dir(), Value::from(text.as_str())))
            .collect();
        halite_wire::map! {
            "number" => self.number, "change" => self.change, "epoch" => self.epoch, "keys" => keys,
        }
    }

    /// `None` if something is missing or wrong.
    pub fn from_map(record: &Map) -> Option<KeyRecord> {
        let mut keys = Keys::new();
        for (state, text) in record.get("keys")?.as_map()?.iter() {
            let dir = state.as_str()?;
            let state = KeyState::ALL.into_iter().find(|state| state.dir() == dir)?;
            keys.insert(state, text.as_str()?.to_owned());
        }
        let number = |name: &str| u64::try_from(record.int(name)?).ok();
        Some(KeyRecord {
            number: number("number")?,
            change: number("change")?,
            epoch: number("epoch")?,
            keys,
        })
    }
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

/// Who leads: a process of a master, and a number that grows with each write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The process: the master's id, and a random mark.
    pub holder: String,
    /// The number.
    pub number: u64,
}

/// The name of the entry that says which master runs this gateway.
pub fn lead_of(gateway: &str) -> String {
    format!("{GATEWAY}{gateway}")
}

/// The gateway of such an entry.
pub fn gateway_of(name: &str) -> Option<&str> {
    name.strip_prefix(GATEWAY)
}

/// The name of the entry with the last run of a scheduled job.
pub fn run_of(job: &str) -> String {
    format!("{RUN}{}", token(job))
}

/// The job of such an entry.
pub fn job_of(name: &str) -> Option<String> {
    text_of(name.strip_prefix(RUN)?)
}

/// What a bucket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Random, chosen by the master that made it.
    pub mark: String,
    /// The fingerprint of the key that all masters have.
    pub master_key: String,
    /// The master that made it, while it is still writing what it has: what is not there yet may come.
    pub filled_by: Option<String>,
    /// The marks of the buckets whose data were lost, if this one was filled from what their masters had.
    pub before: Vec<String>,
}

impl Meta {
    /// Of a new bucket, made by the master `id` with this key.
    pub fn new(mark: String, id: &str, key: &IdentityKey) -> Meta {
        Meta {
            mark,
            master_key: fingerprint(&key.public().to_pem()),
            filled_by: Some(id.to_owned()),
            before: Vec::new(),
        }
    }

    /// Whether this is the key of the masters whose bucket it is.
    pub fn has_key(&self, key: &IdentityKey) -> bool {
        fingerprint(&key.public().to_pem()) == self.master_key
    }
}

/// Seals and opens records.
pub struct Sealer {
    key: Gcm,
    /// The mark of the bucket; empty until it is known.
    mark: String,
}

impl Sealer {
    /// With the key of the cluster's secret.
    pub fn new(secret: &ClusterSecret) -> Sealer {
        Sealer {
            key: secret.seal("state"),
            mark: String::new(),
        }
    }

    /// From now on, records are of the bucket with this mark.
    pub fn set_mark(&mut self, mark: &str) {
        mark.clone_into(&mut self.mark);
    }

    fn place(&self, name: &str) -> Vec<u8> {
        let mark = if name == META { "" } else { &self.mark };
        format!("{mark}\0{name}").into_bytes()
    }

    fn seal(&self, name: &str, record: &Map) -> Vec<u8> {
        let plain = msgpack::encode_map(record, Profile::Local);
        self.key.seal(&self.place(name), &plain)
    }

    /// `None` if it was not made by a master of the cluster, for another name, or for another bucket.
    fn open(&self, name: &str, sealed: &[u8]) -> Option<Map> {
        if sealed.len() > LARGEST {
            return None;
        }
        let plain = self.key.open(&self.place(name), sealed).ok()?;
        msgpack::decode_load(&plain, Budget::of(plain.len())).ok()
    }

    /// Seals the keys of a minion.
    pub fn seal_keys(&self, id: &MinionId, record: &KeyRecord) -> Vec<u8> {
        self.seal(&name_of(id), &record.to_map())
    }

    /// Opens the keys of a minion.
    pub fn open_keys(&self, id: &MinionId, sealed: &[u8]) -> Option<KeyRecord> {
        KeyRecord::from_map(&self.open(&name_of(id), sealed)?)
    }

    /// Seals what the bucket is.
    pub fn seal_meta(&self, meta: &Meta) -> Vec<u8> {
        let record = halite_wire::map! {
            "mark" => meta.mark.as_str(), "master_key" => meta.master_key.as_str(),
            "filled_by" => meta.filled_by.as_deref().map_or(Value::Nil, Value::from),
            "before" => meta.before.clone(),
        };
        self.seal(META, &record)
    }

    /// Opens it.
    pub fn open_meta(&self, sealed: &[u8]) -> Option<Meta> {
        let record = self.open(META, sealed)?;
        Some(Meta {
            mark: record.str("mark")?.to_owned(),
            master_key: record.str("master_key")?.to_owned(),
            filled_by: record.str("filled_by").map(str::to_owned),
            before: record.get("before")?.str_list(),
        })
    }

    /// Seals who leads, for the entry with this name.
    pub fn seal_lead(&self, name: &str, lead: &Lead) -> Vec<u8> {
        let record = halite_wire::map! {"holder" => lead.holder.as_str(), "number" => lead.number};
        self.seal(name, &record)
    }

    /// Opens it.
    pub fn open_lead(&self, name: &str, sealed: &[u8]) -> Option<Lead> {
        let record = self.open(name, sealed)?;
        Some(Lead {
            holder: record.str("holder")?.to_owned(),
            number: u64::try_from(record.int("number")?).ok()?,
        })
    }

    /// Seals the last run of a scheduled job, for the entry with this name.
    pub fn seal_run(&self, name: &str, run: Run) -> Vec<u8> {
        let record = halite_wire::map! {"at" => run.at, "by" => run.by};
        self.seal(name, &record)
    }

    /// Opens it.
    pub fn open_run(&self, name: &str, sealed: &[u8]) -> Option<Run> {
        let record = self.open(name, sealed)?;
        let number = |name: &str| digest::number(record.get(name)?);
        Some(Run {
            at: number("at")?,
            by: number("by")?,
        })
    }

    /// Seals the private key that all masters have.
    pub fn seal_pair(&self, pair: &IdentityKey) -> Vec<u8> {
        self.key.seal(&self.place(PAIR), pair.to_pem().as_bytes())
    }

    /// Opens it; `None` if it is not that of the masters of `meta`.
    pub fn open_pair(&self, sealed: &[u8], meta: &Meta) -> Option<IdentityKey> {
        let plain = Zeroizing::new(self.key.open(&self.place(PAIR), sealed).ok()?);
        let pair = IdentityKey::from_pem(std::str::from_utf8(&plain).ok()?).ok()?;
        meta.has_key(&pair).then_some(pair)
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

/// The name of a minion's keys in the bucket.
pub fn name_of(id: &MinionId) -> String {
    format!("{KEY}{}", token(id.as_str()))
}

/// The minion whose keys have this name.
pub fn id_of(name: &str) -> Option<MinionId> {
    text_of(name.strip_prefix(KEY)?)?.parse().ok()
}

/// A text as a part of a NATS subject, where not all characters are allowed.
pub fn token(text: &str) -> String {
    let mut token = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => token.push(char::from(byte)),
            other => token.push_str(&format!("={other:02X}")),
        }
    }
    token
}

/// The text of a [`token`].
pub fn text_of(given: &str) -> Option<String> {
    let mut rest = given.bytes();
    let mut text = Vec::new();
    while let Some(byte) = rest.next() {
        if byte != b'=' {
            text.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        text.push(u8::from_str_radix(digits, 16).ok()?);
    }
    let text = String::from_utf8(text).ok()?;
    (!text.is_empty() && token(&text) == given).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(text: &str) -> Sealer {
        Sealer::new(&ClusterSecret::new(&text.repeat(32), "c").unwrap())
    }

    fn id(text: &str) -> MinionId {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_masters_can_read_and_write() {
        let (mut ours, others) = (sealer("a"), sealer("b"));
        let record = KeyRecord {
            number: 7,
            change: 5,
            epoch: 2,
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
        let lead = Lead {
            holder: "m1".into(),
            number: 2,
        };
        let sealed_lead = ours.seal_lead(LEAD, &lead);
        assert_eq!(ours.open_lead(LEAD, &sealed_lead), Some(lead));
        assert_eq!(ours.open_lead("lead.collective", &sealed_lead), None);
        let run = Run {
            at: 1_700_000_000,
            by: u64::MAX,
        };
        let (name, other_name) = (run_of("back up"), run_of("other"));
        let sealed_run = ours.seal_run(&name, run);
        assert_eq!(ours.open_run(&name, &sealed_run), Some(run));
        assert_eq!(ours.open_run(&other_name, &sealed_run), None);
        assert_eq!(job_of(&name).as_deref(), Some("back up"));
        let [key, other] =
            [(); 2].map(|()| IdentityKey::generate(halite_crypto::KeyType::Ed25519, 0).unwrap());
        let meta = Meta::new("m".into(), "m1", &key);
        assert!(meta.has_key(&key) && !meta.has_key(&other));
        let sealed_meta = ours.seal_meta(&meta);
        let pair = ours.seal_pair(&key);
        assert!(ours.open_pair(&pair, &meta).unwrap().to_pem() == key.to_pem());
        assert!(ours.open_pair(&ours.seal_pair(&other), &meta).is_none());
        assert!(ours.open_pair(&sealed_meta, &meta).is_none());
        // Of another bucket of the same cluster.
        ours.set_mark("m");
        assert_eq!(ours.open_publication(&sealed), None);
        assert!(ours.open_pair(&pair, &meta).is_none());
        assert_eq!(ours.open_meta(&sealed_meta), Some(meta));
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
