//! What masters tell each other about jobs.
//!
//! A message has a number that grows: one that was there before is not taken again. What is too large for one is cut into
//! pieces, each sealed with the number of the whole, so that those of different messages do not fit together.

use crate::seal::{Peers, Seal, new_origin};
use halite_crypto::ClusterSecret;
use halite_wire::budget::Budget;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::time::{Duration, Instant};

/// Most bytes of a piece: with what NATS adds, less than its `max_payload` of 1 MiB.
const PIECE: usize = 512 << 10;
/// Most pieces of a message: 16 MiB.
const MOST_PIECES: usize = 32;
/// Bytes before a piece: the number of the message, that of the piece, and how many there are.
const HEADER: usize = 12;
/// How long the next piece is waited for: its sender may have ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// What it is about.
const PURPOSE: &str = "log";

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
        all.chain(&self.publication).map(Vec::len).sum()
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

fn encode(message: &Message) -> Vec<u8> {
    let records = message
        .records
        .iter()
        .map(|record| Value::Map(record.to_map()));
    let map = halite_wire::map! {"at" => message.at, "records" => Value::Array(records.collect())};
    msgpack::encode_map(&map, Profile::Local)
}

fn decode(bytes: &[u8]) -> Option<Message> {
    let map = msgpack::decode_load(bytes, Budget::of(bytes.len())).ok()?;
    let records = map.get("records")?.as_array()?;
    let record = |value: &Value| JobRecord::from_map(value.as_map()?);
    Some(Message {
        at: u64::try_from(map.int("at")?).ok()?,
        records: records.iter().map(record).collect::<Option<_>>()?,
    })
}

/// Seals what this master tells.
pub struct Teller {
    /// Its own.
    pub origin: String,
    seal: Seal,
    /// That of the last message.
    number: u64,
}

impl Teller {
    /// Of the master `id`, for the bucket with this mark.
    pub fn new(secret: &ClusterSecret, id: &str, mark: &str) -> Teller {
        let origin = new_origin(id);
        Teller {
            seal: Seal::new(secret, mark, PURPOSE, &origin),
            origin,
            number: 0,
        }
    }

    /// The pieces of a message, in order; the error is its size, which is too large.
    pub fn seal(&mut self, message: &Message) -> Result<Vec<Vec<u8>>, usize> {
        let bytes = encode(message);
        let pieces: Vec<&[u8]> = bytes.chunks(PIECE).collect();
        if pieces.len() > MOST_PIECES {
            return Err(bytes.len());
        }
        self.number += 1;
        let (number, count) = (self.number, pieces.len() as u16);
        let seal = |(n, piece): (usize, &&[u8])| {
            let places = [(n as u16).to_be_bytes(), count.to_be_bytes()].concat();
            let parts: [&[u8]; 3] = [&number.to_be_bytes(), &places, piece];
            self.seal.seal(&parts.concat())
        };
        Ok(pieces.iter().enumerate().map(seal).collect())
    }
}

/// The last message of one start of a master.
#[derive(Default)]
struct Heard {
    /// Its number, and how many pieces it has.
    number: u64,
    count: usize,
    /// Those that have come, until it is complete.
    pieces: Vec<u8>,
    /// The number of the next one.
    next: usize,
    /// When the last one came.
    at: Option<Instant>,
}

impl Heard {
    fn is_waiting(&self) -> bool {
        !self.pieces.is_empty() && self.at.is_some_and(|at| at.elapsed() < PATIENCE)
    }

    /// Adds a piece; the message if it is complete.
    fn add(&mut self, number: u64, n: usize, count: usize, piece: &[u8]) -> Option<Vec<u8>> {
        if count > MOST_PIECES {
            return None;
        }
        if n == 0 && number > self.number {
            (self.number, self.count, self.next) = (number, count, 0);
            self.pieces.clear();
        }
        if (number, n, count) != (self.number, self.next, self.count) {
            // It is there again, or the beginning of its message is missing.
            return None;
        }
        self.at = Some(Instant::now());
        self.pieces.extend_from_slice(piece);
        self.next += 1;
        (self.next == count).then(|| std::mem::take(&mut self.pieces))
    }
}

/// No master of the cluster has sealed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// Opens what others tell.
pub struct Listener(Peers<Heard>);

impl Listener {
    /// For the bucket with this mark.
    pub fn new(secret: &ClusterSecret, mark: &str) -> Listener {
        Listener(Peers::new(secret, mark, PURPOSE))
    }

    /// Whether the rest of a message is still to come.
    pub fn is_between_pieces(&self) -> bool {
        self.0.all().any(Heard::is_waiting)
    }

    /// Opens a piece; `None` until the message is complete.
    pub fn open(&mut self, origin: &str, sealed: &[u8]) -> Result<Option<Message>, Foreign> {
        let opened = self.0.open(origin, sealed, Heard::is_waiting);
        let (heard, plain) = opened.ok_or(Foreign)?;
        let (header, piece) = plain.split_at_checked(HEADER).ok_or(Foreign)?;
        let (number, places) = header.split_first_chunk::<8>().ok_or(Foreign)?;
        let place = |at: usize| usize::from(u16::from_be_bytes([places[at], places[at + 1]]));
        let whole = heard.add(u64::from_be_bytes(*number), place(0), place(2), piece);
        match whole {
            Some(whole) => decode(&whole).map(Some).ok_or(Foreign),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> ClusterSecret {
        ClusterSecret::new(&"a".repeat(32), "c").unwrap()
    }

    fn message(length: usize) -> Message {
        let jid: Jid = "20261126000000000001".parse().unwrap();
        let mut record = JobRecord::of(jid);
        record.load = Some(pack(&halite_wire::map! {"fun" => "test.ping"}));
        record.minions = vec!["m1".into()];
        record.publication = vec![b"load".to_vec(), b"topic".to_vec()];
        let ret = halite_wire::map! {"id" => "m1", "return" => "x".repeat(length)};
        record.returns = vec![pack(&ret)];
        Message {
            at: 7,
            records: vec![record],
        }
    }

    #[test]
    fn what_is_sealed_is_opened() {
        let mut teller = Teller::new(&secret(), "m.1", "mark");
        assert_eq!(crate::seal::sender(&teller.origin), Some("m.1".to_owned()));
        let mut listener = Listener::new(&secret(), "mark");
        for length in [10, 3 * PIECE] {
            let message = message(length);
            let pieces = teller.seal(&message).unwrap();
            assert_eq!(pieces.len(), 1 + length / PIECE);
            let (last, first) = pieces.split_last().unwrap();
            for piece in first {
                assert_eq!(listener.open(&teller.origin, piece), Ok(None));
            }
            assert_eq!(listener.open(&teller.origin, last), Ok(Some(message)));
        }
        let huge = message(PIECE * MOST_PIECES);
        assert!(teller.seal(&huge).is_err());
    }

    #[test]
    fn a_return_at_the_limits_takes_no_other_with_it() {
        let mut deep = Value::Nil;
        for _ in 0..halite_wire::budget::MAX_DEPTH - 1 {
            deep = Value::Array(vec![deep]);
        }
        let mut message = message(1);
        let return_of = |id: &str, value: Value| halite_wire::map! {"id" => id, "return" => value};
        let nils = Value::Array(vec![Value::Nil; (1 << 18) - 10]);
        let returns = [
            return_of("deep", deep),
            return_of("wide", nils.clone()),
            return_of("wide2", nils),
        ];
        message.records[0].returns = returns.iter().map(pack).collect();
        let mut teller = Teller::new(&secret(), "m1", "mark");
        let mut listener = Listener::new(&secret(), "mark");
        let mut opened = None;
        for piece in teller.seal(&message).unwrap() {
            opened = listener.open(&teller.origin, &piece).unwrap();
        }
        let opened = opened.unwrap();
        let read = opened.records[0].returns.iter().map(|one| unpack(one));
        assert!(read.eq(returns.into_iter().map(Some)));
        assert_eq!(opened, message);
    }

    #[test]
    fn only_masters_of_the_cluster_are_believed() {
        let mut teller = Teller::new(&secret(), "m1", "mark");
        let other = Teller::new(&secret(), "m2", "mark");
        let sealed = teller.seal(&message(1)).unwrap().remove(0);
        for (mark, origin) in [("mark", &other.origin), ("other", &teller.origin)] {
            let mut listener = Listener::new(&secret(), mark);
            assert_eq!(listener.open(origin, &sealed), Err(Foreign));
        }
        let stranger = ClusterSecret::new(&"b".repeat(32), "c").unwrap();
        let mut listener = Listener::new(&stranger, "mark");
        assert_eq!(listener.open(&teller.origin, &sealed), Err(Foreign));
    }

    #[test]
    fn a_missing_piece_costs_one_message() {
        let mut teller = Teller::new(&secret(), "m1", "mark");
        let mut listener = Listener::new(&secret(), "mark");
        let pieces = teller.seal(&message(2 * PIECE)).unwrap();
        for piece in [&pieces[0], &pieces[2]] {
            assert_eq!(listener.open(&teller.origin, piece), Ok(None));
        }
        let next = teller.seal(&message(1)).unwrap();
        let opened = listener.open(&teller.origin, &next[0]);
        assert_eq!(opened, Ok(Some(message(1))));
    }

    /// Somebody who can write to NATS repeats what masters have sent, in any order.
    #[test]
    fn repeated_pieces_change_nothing() {
        let mut teller = Teller::new(&secret(), "m1", "mark");
        let mut listener = Listener::new(&secret(), "mark");
        let origin = teller.origin.clone();
        let small = teller.seal(&message(1)).unwrap().remove(0);
        let first = teller.seal(&message(2 * PIECE)).unwrap();
        let second = teller.seal(&message(2 * PIECE + 1)).unwrap();
        let mut open = |piece: &[u8]| listener.open(&origin, piece).unwrap();
        assert_eq!(open(&small), Some(message(1)));
        // Within a message: an old one, and a piece of another one.
        assert_eq!(open(&first[0]), None);
        assert_eq!(open(&small), None);
        assert_eq!(open(&second[1]), None);
        assert_eq!(open(&first[1]), None);
        assert_eq!(open(&first[0]), None);
        assert_eq!(open(&second[2]), None);
        assert_eq!(open(&first[2]), Some(message(2 * PIECE)));
        // Once more.
        assert!(
            first
                .iter()
                .chain([&small])
                .all(|piece| open(piece).is_none())
        );
        let last: Vec<_> = second.iter().filter_map(|piece| open(piece)).collect();
        assert_eq!(last, [message(2 * PIECE + 1)]);
    }
}
