//! What masters tell each other about jobs.

use halite_wire::budget::Budget;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};

/// Bytes before a text of up to 64 KiB.
const PREFIX: usize = 3;

/// A map as MessagePack: each on its own, so that one at the limits of what can be read does not take others with it.
pub type Packed = Vec<u8>;

/// Packs a map.
pub fn pack(map: &Map) -> Packed {
    msgpack::encode_map(map, Profile::Local)
}

/// The map; `None` if it cannot be read.
pub fn unpack(packed: &[u8]) -> Option<Map> {
    msgpack::decode(packed).ok()?.into_map()
}

/// What one message tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// When it was sent, in Unix seconds.
    pub at: u64,
    /// What is new about jobs.
    pub records: Vec<JobRecord>,
}

/// What is new about one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// The job.
    pub jid: Jid,
    /// Its load.
    pub load: Option<Packed>,
    /// Ids expected to return; with the load.
    pub minions: Vec<String>,
    /// Listed ids without an accepted key; with the load.
    pub missing: Vec<String>,
    /// If it is to be published: when it was, in Unix seconds.
    pub published: u64,
    /// The same: what `publish_pull.ipc` takes, the load for minions and the topics.
    pub publication: Vec<Vec<u8>>,
    /// Loads of returns.
    pub returns: Vec<Packed>,
    /// Whether a minion started the job: its return is also the load.
    pub is_started_by_minion: bool,
}

impl JobRecord {
    /// Without anything.
    pub fn of(jid: Jid) -> JobRecord {
        JobRecord {
            jid,
            load: None,
            minions: Vec::new(),
            missing: Vec::new(),
            published: 0,
            publication: Vec::new(),
            returns: Vec::new(),
            is_started_by_minion: false,
        }
    }

    /// Its bytes in a message, about.
    pub fn size(&self) -> usize {
        let all = self.returns.iter().chain(&self.load);
        let ids = self.minions.iter().chain(&self.missing);
        let packed: usize = all.chain(&self.publication).map(Vec::len).sum();
        packed + ids.map(|id| id.len() + PREFIX).sum::<usize>()
    }

    fn to_map(&self) -> Map {
        let list = |all: &[Vec<u8>]| Value::Array(all.iter().cloned().map(Value::Bytes).collect());
        halite_wire::map! {
            "jid" => self.jid.as_str(),
            "load" => self.load.clone().map_or(Value::Nil, Value::Bytes),
            "minions" => self.minions.clone(), "missing" => self.missing.clone(),
            "published" => self.published, "publication" => list(&self.publication),
            "returns" => list(&self.returns), "started_by_minion" => self.is_started_by_minion,
        }
    }

    fn from_map(map: &Map) -> Option<JobRecord> {
        let bytes = |value: &Value| value.as_bytes().map(<[u8]>::to_vec);
        let list = |name: &str| {
            map.get(name)?
                .as_array()?
                .iter()
                .map(bytes)
                .collect::<Option<_>>()
        };
        Some(JobRecord {
            jid: map.str("jid")?.parse().ok()?,
            load: bytes(map.get("load")?),
            minions: map.get("minions")?.str_list(),
            missing: map.get("missing")?.str_list(),
            published: u64::try_from(map.int("published")?).ok()?,
            publication: list("publication")?,
            returns: list("returns")?,
            is_started_by_minion: map.get("started_by_minion")?.as_bool()?,
        })
    }
}

impl Message {
    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let map = halite_wire::map! {"at" => self.at, "records" => records_value(&self.records)};
        msgpack::encode_map(&map, Profile::Local)
    }

    /// Reads it; `None` if it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let map = msgpack::decode_load(bytes, Budget::of(bytes.len())).ok()?;
        Some(Message {
            at: u64::try_from(map.int("at")?).ok()?,
            records: records_of(map.get("records")?)?,
        })
    }
}

/// Records as a value.
pub fn records_value(records: &[JobRecord]) -> Value {
    let records = records.iter().map(|record| Value::Map(record.to_map()));
    Value::Array(records.collect())
}

/// The records of a value.
pub fn records_of(value: &Value) -> Option<Vec<JobRecord>> {
    let record = |value: &Value| JobRecord::from_map(value.as_map()?);
    value.as_array()?.iter().map(record).collect()
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_at_the_limits_takes_no_other_with_it() {
        let mut deep = Value::Nil;
        for _ in 0..halite_wire::budget::MAX_DEPTH - 1 {
            deep = Value::Array(vec![deep]);
        }
        let jid: Jid = "20261126000000000001".parse().unwrap();
        let mut record = JobRecord::of(jid);
        record.load = Some(pack(&halite_wire::map! {"fun" => "test.ping"}));
        record.minions = vec!["m1".into()];
        record.publication = vec![b"load".to_vec(), b"topic".to_vec()];
        let return_of = |id: &str, value: Value| halite_wire::map! {"id" => id, "return" => value};
        let nils = Value::Array(vec![Value::Nil; (1 << 18) - 10]);
        let returns = [
            return_of("deep", deep),
            return_of("wide", nils.clone()),
            return_of("wide2", nils),
        ];
        record.returns = returns.iter().map(pack).collect();
        let records = vec![record];
        let message = Message { at: 7, records };
        let read = Message::decode(&message.encode()).unwrap();
        assert_eq!(read, message);
        let read = read.records[0].returns.iter().map(|one| unpack(one));
        assert!(read.eq(returns.into_iter().map(Some)));
        assert_eq!(Message::decode(b"garbage"), None);
    }
}
