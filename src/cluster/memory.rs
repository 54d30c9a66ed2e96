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
            "publication" => self.publication, "base" => base,
        };
        write(path, &map)
    }
}

/// What a master remembers of the stream of jobs: `cachedir/cluster/jobs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsMemory {
    /// The bucket, as in [`Memory`].
    pub bucket: String,
    /// Where this master is in the stream.
    pub cursor: Cursor,
    /// Up to when everything in this master's job log is told, in Unix seconds.
    pub told: u64,
}

impl JobsMemory {
    /// Its place.
    pub fn path(cluster_dir: &Path) -> PathBuf {
        cluster_dir.join("jobs")
    }

    /// Reads it; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn read(path: &Path) -> io::Result<Option<JobsMemory>> {
        read(path, |map| {
            let number = |name: &str| u64::try_from(map.int(name)?).ok();
            Some(JobsMemory {
                bucket: map.str("bucket")?.to_owned(),
                cursor: Cursor {
                    stream: map.int("stream")?,
                    sequence: number("sequence")?,
                },
                told: number("told")?,
            })
        })
    }

    /// Stores it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let map = halite_wire::map! {
            "bucket" => self.bucket.as_str(), "told" => self.told,
            "stream" => self.cursor.stream, "sequence" => self.cursor.sequence,
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
        };
        memory.write(&path).unwrap();
        assert_eq!(Memory::read(&path).unwrap(), Some(memory));
        std::fs::write(&path, "x").unwrap();
        assert!(Memory::read(&path).is_err());
        let jobs = JobsMemory {
            bucket: "b".into(),
            cursor: Cursor {
                stream: 1,
                sequence: 2,
            },
            told: 5,
        };
        let path = JobsMemory::path(dir.path());
        jobs.write(&path).unwrap();
        assert_eq!(JobsMemory::read(&path).unwrap(), Some(jobs));
    }
}
