//! What a master remembers of its cluster over restarts.

use crate::link::Cursor;
use crate::record::KeyRecord;
use crate::sync::Base;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::safe_open::read_finite;
use halite_wire::budget::Budget;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Largest file, in bytes: some 1000 for each minion.
const LARGEST: u64 = 256 << 20;

/// The content of `cachedir/cluster/member`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `cluster_id`.
    pub cluster: String,
    /// Which bucket it was: random, chosen when it was filled.
    pub bucket: String,
    /// The highest number of a key of publications.
    pub publication: u64,
    /// What files and bucket had when they were last the same.
    pub base: BTreeMap<MinionId, Base>,
    /// The buckets before this one, whose data were lost, the last one first.
    pub before: Vec<String>,
}

impl Memory {
    /// Reads it; `None` if this master has not been a member.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn read(path: &Path) -> io::Result<Option<Memory>> {
        read(path, parse)
    }

    /// Stores it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let base: Map = self
            .base
            .iter()
            .map(|(id, base)| {
                let of_id = halite_wire::map! {
                    "revision" => base.revision, "record" => base.record.to_map(),
                };
                (id.as_str(), Value::from(of_id))
            })
            .collect();
        let map = halite_wire::map! {
            "cluster" => self.cluster.as_str(), "bucket" => self.bucket.as_str(),
            "publication" => self.publication, "base" => base, "before" => self.before.clone(),
        };
        write(path, &map)
    }
}

/// What a master remembers of the streams: `cachedir/cluster/streams`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamsMemory {
    /// The bucket, as in [`Memory`].
    pub bucket: String,
    /// Where this master is in the stream of jobs.
    pub jobs: Cursor,
    /// Where it is in the stream of data.
    pub data: Cursor,
    /// Up to when everything in this master's job log is told, in Unix seconds.
    pub told: u64,
    /// When the last message about jobs that was taken was sent, in Unix seconds.
    pub heard: u64,
    /// Jobs that are to be compared with those of the others: since when, in Unix seconds.
    pub resync: Option<u64>,
    /// What is new of jobs that started then or later is announced on the bus, in Unix seconds.
    pub announce: Option<u64>,
}

impl StreamsMemory {
    /// Its place.
    pub fn path(cluster_dir: &Path) -> PathBuf {
        cluster_dir.join("streams")
    }

    /// Reads it; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn read(path: &Path) -> io::Result<Option<StreamsMemory>> {
        read(path, |map| {
            let cursor = |name: &str| {
                let map = map.get(name)?.as_map()?;
                Some(Cursor {
                    stream: map.int("stream")?,
                    sequence: u64::try_from(map.int("sequence")?).ok()?,
                })
            };
            Some(StreamsMemory {
                bucket: map.str("bucket")?.to_owned(),
                jobs: cursor("jobs")?,
                data: cursor("data")?,
                told: u64::try_from(map.int("told")?).ok()?,
                // Versions before 0.2 do not have them.
                heard: u64::try_from(map.int("heard").unwrap_or(0)).ok()?,
                resync: map.int("resync").and_then(|at| u64::try_from(at).ok()),
                announce: map.int("announce").and_then(|at| u64::try_from(at).ok()),
            })
        })
    }

    /// Stores it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let cursor = |cursor: &Cursor| {
            halite_wire::map! {"stream" => cursor.stream, "sequence" => cursor.sequence}
        };
        let map = halite_wire::map! {
            "bucket" => self.bucket.as_str(), "told" => self.told,
            "jobs" => cursor(&self.jobs), "data" => cursor(&self.data),
            "heard" => self.heard, "resync" => self.resync.map_or(Value::Nil, Value::from),
            "announce" => self.announce.map_or(Value::Nil, Value::from),
        };
        write(path, &map)
    }
}

fn read<T>(path: &Path, parse: fn(&Map) -> Option<T>) -> io::Result<Option<T>> {
    let bytes = match read_finite(path, LARGEST) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let map = msgpack::decode_load(&bytes, Budget::of(bytes.len())).ok();
    match map.as_ref().and_then(parse) {
        Some(memory) => Ok(Some(memory)),
        None => Err(io::Error::other(format!("{} is damaged", path.display()))),
    }
}

fn write(path: &Path, map: &Map) -> io::Result<()> {
    make_dir(path.parent().unwrap_or(Path::new("/")), 0o700)?;
    write_atomic(path, &msgpack::encode_map(map, Profile::Local), 0o600)
}

fn parse(map: &Map) -> Option<Memory> {
    let number = |map: &Map, name: &str| u64::try_from(map.int(name)?).ok();
    let mut base = BTreeMap::new();
    for (id, parts) in map.get("base")?.as_map()?.iter() {
        let parts = parts.as_map()?;
        let of_id = Base {
            revision: number(parts, "revision")?,
            record: KeyRecord::from_map(parts.get("record")?.as_map()?)?,
        };
        base.insert(id.as_str()?.parse().ok()?, of_id);
    }
    Some(Memory {
        cluster: map.str("cluster")?.to_owned(),
        bucket: map.str("bucket")?.to_owned(),
        publication: number(map, "publication")?,
        base,
        before: map.get("before").map(Value::str_list).unwrap_or_default(),
    })
}

/// Its place.
pub fn path(cluster_dir: &Path) -> PathBuf {
    cluster_dir.join("member")
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_store::keys::KeyState;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir.path().join("cluster"));
        assert_eq!(Memory::read(&path).unwrap(), None);
        let base = Base {
            revision: 7,
            record: KeyRecord {
                number: 3,
                change: 2,
                epoch: 1,
                keys: [(KeyState::Accepted, "a key".to_owned())].into(),
            },
        };
        let memory = Memory {
            cluster: "prod".into(),
            bucket: "b".into(),
            publication: 9,
            base: [("m1".parse().unwrap(), base)].into(),
            before: vec!["a".into()],
        };
        memory.write(&path).unwrap();
        assert_eq!(Memory::read(&path).unwrap(), Some(memory));
        std::fs::write(&path, "x").unwrap();
        assert!(Memory::read(&path).is_err());
        let streams = StreamsMemory {
            bucket: "b".into(),
            jobs: Cursor {
                stream: 1,
                sequence: 2,
            },
            data: Cursor {
                stream: 3,
                sequence: 4,
            },
            told: 5,
            heard: 6,
            resync: Some(7),
            announce: Some(8),
        };
        let path = StreamsMemory::path(dir.path());
        streams.write(&path).unwrap();
        assert_eq!(StreamsMemory::read(&path).unwrap(), Some(streams));
    }
}
