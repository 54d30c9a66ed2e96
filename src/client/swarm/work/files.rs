//! Files of the file server: whole files as fetched by minions, and chunks of a known file.

use crate::swarm::session::{Load, SessionError};
use halite_crypto::{HashType, Hasher};
use halite_wire::{Map, Value};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Largest file of which chunks are requested: it is kept in memory.
const LARGEST: usize = 256 << 20;

/// What to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchMode {
    /// The whole file once, to compare chunks with it. It is not timed.
    Reference,
    /// The whole file, checked against its hash.
    Whole,
    /// Single chunks of the file, one after the other.
    Piece,
}

/// A file that minions request.
#[derive(Debug)]
pub struct Files {
    path: String,
    saltenv: String,
    /// What is requested.
    pub portion: FetchMode,
    reference: Arc<Mutex<Reference>>,
}

/// The file as it was first fetched.
#[derive(Debug, Default)]
struct Reference {
    content: Vec<u8>,
    /// Offsets of the chunks, as divided by the master.
    begins: Vec<usize>,
    next: usize,
}

/// A transfer of a file to one minion.
pub struct Fetch {
    files: Arc<Files>,
    step: Step,
}

enum Step {
    Hash,
    Data {
        loc: usize,
        hasher: Hasher,
        sum: String,
    },
    Piece {
        loc: usize,
        end: usize,
    },
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Fetch({})", self.files.path)
    }
}

impl Files {
    /// The file at `path`, as `salt://path` or without the scheme, in an environment.
    pub fn new(path: &str, saltenv: &str, portion: FetchMode) -> Files {
        Files {
            path: path.strip_prefix("salt://").unwrap_or(path).to_owned(),
            saltenv: saltenv.to_owned(),
            portion,
            reference: Arc::default(),
        }
    }

    /// The same file in another mode; the reference is kept.
    pub fn portions(&self, portion: FetchMode) -> Files {
        Files {
            path: self.path.clone(),
            saltenv: self.saltenv.clone(),
            portion,
            reference: self.reference.clone(),
        }
    }

    /// Size of the reference in bytes, and its number of chunks.
    pub fn size(&self) -> (usize, usize) {
        let reference = self.reference.lock();
        reference
            .map(|r| (r.content.len(), r.begins.len()))
            .unwrap_or_default()
    }

    fn serve(&self, loc: usize) -> Arc<Load> {
        Arc::new(Load::new(&halite_wire::map! {
            "cmd" => "_serve_file", "path" => self.path.as_str(), "saltenv" => self.saltenv.as_str(),
            "loc" => loc as u64,
        }))
    }
}

impl Fetch {
    /// Starts with the first request.
    pub fn begin(files: &Arc<Files>) -> (Fetch, Arc<Load>) {
        let (step, load) = match (files.portion, files.reference.lock()) {
            (FetchMode::Piece, Ok(mut reference)) => {
                let n = reference.next % reference.begins.len().max(1);
                reference.next = n + 1;
                let loc = reference.begins.get(n).copied().unwrap_or_default();
                let end = reference.begins.get(n + 1).copied();
                let end = end.unwrap_or(reference.content.len());
                (Step::Piece { loc, end }, files.serve(loc))
            }
            _ => {
                let load = halite_wire::map! {
                    "cmd" => "_file_hash", "path" => files.path.as_str(), "saltenv" => files.saltenv.as_str(),
                };
                (Step::Hash, Arc::new(Load::new(&load)))
            }
        };
        let files = files.clone();
        (Fetch { files, step }, load)
    }

    /// What is requested.
    pub fn portion(&self) -> FetchMode {
        self.files.portion
    }

    /// Handles an answer; returns the next request, or `None` at the end.
    ///
    /// # Errors
    /// The answer is wrong.
    pub fn answer(&mut self, answer: &Value) -> Result<Option<Arc<Load>>, SessionError> {
        match &mut self.step {
            Step::Hash => {
                let (hash, sum) = hash(answer)?;
                self.step = Step::Data {
                    loc: 0,
                    hasher: hash.hasher(),
                    sum,
                };
                if let (FetchMode::Reference, Ok(mut reference)) =
                    (self.files.portion, self.files.reference.lock())
                {
                    *reference = Reference::default();
                }
                Ok(Some(self.files.serve(0)))
            }
            Step::Data { loc, hasher, sum } => {
                let data = data(answer, &self.files.path)?;
                if data.is_empty() {
                    let found = std::mem::replace(hasher, HashType::Sha256.hasher()).hex();
                    if found != *sum {
                        return SessionError::wrong(
                            "a file does not have the hash that the master named",
                        );
                    }
                    return Ok(None);
                }
                hasher.update(data);
                if self.files.portion == FetchMode::Reference {
                    self.files.store_reference(*loc, data)?;
                }
                *loc += data.len();
                Ok(Some(self.files.serve(*loc)))
            }
            Step::Piece { loc, end } => {
                let data = data(answer, &self.files.path)?;
                let reference = self.files.reference.lock();
                let right = reference.is_ok_and(|r| r.content.get(*loc..*end) == Some(data));
                if right {
                    Ok(None)
                } else {
                    SessionError::wrong("a piece of a file is not what it was before")
                }
            }
        }
    }
}

impl Files {
    fn store_reference(&self, loc: usize, data: &[u8]) -> Result<(), SessionError> {
        let Ok(mut reference) = self.reference.lock() else {
            return SessionError::wrong("the file cannot be stored");
        };
        if loc + data.len() > LARGEST {
            return SessionError::wrong("a file of which pieces are asked for has at most 256 MiB");
        }
        reference.begins.push(loc);
        reference.content.extend_from_slice(data);
        Ok(())
    }
}

/// Parses the answer to `_file_hash` (reference 8).
fn hash(answer: &Value) -> Result<(HashType, String), SessionError> {
    let Some(map) = answer.as_map().filter(|map| !map.is_empty()) else {
        return SessionError::wrong("the master does not have the file");
    };
    let kind = map
        .str("hash_type")
        .and_then(|h| h.parse::<HashType>().ok());
    match (kind, map.str("hsum")) {
        (Some(kind), Some(sum)) => Ok((kind, sum.to_owned())),
        _ => SessionError::wrong("the hash of a file cannot be read"),
    }
}

/// The data in an answer to `_serve_file` (reference 8.3). `dest` is empty if the master does not have the
/// file.
fn data<'a>(answer: &'a Value, path: &str) -> Result<&'a [u8], SessionError> {
    let none = Map::new();
    let map = answer.as_map().unwrap_or(&none);
    if map.str("dest") != Some(path) {
        return SessionError::wrong("a piece of a file is not from the file that was asked for");
    }
    match answer.as_map().and_then(|map| map.bytes("data")) {
        Some(data) => Ok(data),
        None => SessionError::wrong("a piece of a file has no data"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(content: &[u8]) -> Value {
        Value::Map(
            halite_wire::map! {"hash_type" => "sha256", "hsum" => HashType::Sha256.hex(content).as_str()},
        )
    }

    fn piece(data: &[u8]) -> Value {
        Value::Map(halite_wire::map! {"data" => data.to_vec(), "dest" => "d/f"})
    }

    fn whole(portion: FetchMode) -> (Arc<Files>, Fetch) {
        let files = Arc::new(Files::new("salt://d/f", "base", portion));
        let (fetch, _) = Fetch::begin(&files);
        (files, fetch)
    }

    #[test]
    fn a_whole_file_is_held_against_its_hash() {
        let (_, mut fetch) = whole(FetchMode::Whole);
        assert!(fetch.answer(&hash_of(b"abcd")).unwrap().is_some());
        assert!(fetch.answer(&piece(b"abc")).unwrap().is_some());
        assert!(fetch.answer(&piece(b"d")).unwrap().is_some());
        assert!(fetch.answer(&piece(b"")).unwrap().is_none());

        for pieces in [[b"abc", b"abc"], [b"abd", b"abc"]] {
            let (_, mut fetch) = whole(FetchMode::Whole);
            fetch.answer(&hash_of(b"abcabd")).unwrap();
            for data in pieces {
                assert!(fetch.answer(&piece(data)).unwrap().is_some());
            }
            let error = fetch.answer(&piece(b"")).unwrap_err();
            assert!(error.to_string().contains("hash"), "{pieces:?}");
        }
    }

    #[test]
    fn a_file_that_is_missing_or_another_is_wrong() {
        for answer in [Value::Map(Map::new()), Value::from(""), Value::Nil] {
            let (_, mut fetch) = whole(FetchMode::Whole);
            assert!(fetch.answer(&answer).is_err(), "{answer:?}");
        }
        for answer in [
            Value::Map(halite_wire::map! {"data" => b"abcd".to_vec(), "dest" => "d/g"}),
            Value::Map(halite_wire::map! {"data" => b"".to_vec(), "dest" => ""}),
            Value::Map(halite_wire::map! {"dest" => "d/f"}),
            Value::Nil,
        ] {
            let (_, mut fetch) = whole(FetchMode::Whole);
            fetch.answer(&hash_of(b"abcd")).unwrap();
            assert!(fetch.answer(&answer).is_err(), "{answer:?}");
        }
    }

    #[test]
    fn pieces_are_held_against_the_reference() {
        let (files, mut fetch) = whole(FetchMode::Reference);
        fetch.answer(&hash_of(b"abcde")).unwrap();
        for data in [&b"abc"[..], b"de", b""] {
            fetch.answer(&piece(data)).unwrap();
        }
        assert_eq!(files.size(), (5, 2));
        let files = Arc::new(files.portions(FetchMode::Piece));
        for data in [&b"abc"[..], b"de", b"abc"] {
            let (mut fetch, _) = Fetch::begin(&files);
            assert!(fetch.answer(&piece(data)).unwrap().is_none());
        }
        for data in [&b"dx"[..], b"ab", b"d"] {
            let (mut fetch, _) = Fetch::begin(&files);
            let error = fetch.answer(&piece(data)).unwrap_err();
            assert!(error.to_string().contains("piece"), "{data:?}");
        }
    }
}
