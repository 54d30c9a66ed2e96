//! Keeps the key files of one master and the bucket of the cluster the same. No IO: it is told what happened and says what
//! to do, so that the tests can play any order of events.
//!
//! A change is decided by the bucket: it takes a write only if nothing was written since the writer last looked. Whoever
//! comes second takes over what the first one has written.

use crate::record::{KeyRecord, Keys};
use halite_store::keys::KeyState;
use halite_wire::ids::MinionId;
use std::collections::{BTreeMap, BTreeSet};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Write this to the bucket, if its revision is still this one (0: there is none).
    Put {
        /// Whose keys.
        id: MinionId,
        /// The record.
        record: KeyRecord,
        /// The revision that it replaces.
        revision: u64,
    },
    /// Make the files so.
    Write {
        /// Whose keys.
        id: MinionId,
        /// The keys; those of other states are to be removed.
        keys: Keys,
    },
}

/// How a write to the bucket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It has this revision.
    Done(u64),
    /// Another master was faster.
    Conflict,
    /// That is not known: there was no answer.
    Unknown,
}

/// What the bucket has about a minion.
#[derive(Clone, Debug, Default)]
struct InBucket {
    revision: u64,
    record: KeyRecord,
}

/// The state of the synchronization.
#[derive(Debug, Default)]
pub struct KeySync {
    bucket: BTreeMap<MinionId, InBucket>,
    files: BTreeMap<MinionId, Keys>,
    /// Writes without an answer.
    pending: BTreeMap<MinionId, KeyRecord>,
    /// Whether everything in the bucket is known.
    synced: bool,
}

impl KeySync {
    /// Whether everything in the bucket is known and nothing waits for an answer.
    pub fn is_settled(&self) -> bool {
        self.synced && self.pending.is_empty()
    }

    /// How many minions have keys in the bucket.
    pub fn count(&self) -> usize {
        let all = self.bucket.values();
        all.filter(|known| !known.record.keys.is_empty()).count()
    }

    /// The files of a minion are now so.
    pub fn files_changed(&mut self, id: &MinionId, keys: Keys) -> Option<Act> {
        match keys.is_empty() {
            true => self.files.remove(id),
            false => self.files.insert(id.clone(), keys),
        };
        self.put(id)
    }

    /// An entry of the bucket. The error is that it is older than one that was there before: someone has put it back.
    pub fn entry(
        &mut self,
        id: &MinionId,
        record: KeyRecord,
        revision: u64,
    ) -> Result<Option<Act>, u64> {
        let known = self.bucket.entry(id.clone()).or_default();
        if revision <= known.revision {
            return Ok(None);
        }
        if record.number < known.record.number {
            return Err(known.record.number);
        }
        *known = InBucket { revision, record };
        // The answer to our write says which of the two it was.
        if !self.synced || self.pending.contains_key(id) {
            return Ok(None);
        }
        Ok(self.write(id))
    }

    /// All entries that were in the bucket have been told. `is_first`: this master has made the bucket, so that its files fill it;
    /// otherwise minions that only this master knows wait to be accepted.
    pub fn all_told(&mut self, is_first: bool) -> Vec<Act> {
        self.synced = true;
        let ids: BTreeSet<MinionId> = self
            .bucket
            .keys()
            .chain(self.files.keys())
            .cloned()
            .collect();
        let mut acts = Vec::new();
        for id in ids {
            if self.bucket.get(&id).is_some_and(|known| known.revision > 0) {
                acts.extend(self.write(&id));
                continue;
            }
            if !is_first && let Some(keys) = self.files.get_mut(&id) {
                let waiting = waiting(keys);
                if *keys != waiting {
                    *keys = waiting.clone();
                    acts.push(Act::Write {
                        id: id.clone(),
                        keys: waiting,
                    });
                }
            }
            acts.extend(self.put(&id));
        }
        acts
    }

    /// A write to the bucket has ended.
    pub fn put_ended(&mut self, id: &MinionId, how: Put) -> Option<Act> {
        let record = self.pending.remove(id)?;
        match how {
            Put::Done(revision) => {
                let known = self.bucket.entry(id.clone()).or_default();
                if revision > known.revision {
                    *known = InBucket { revision, record };
                }
                // The files may have changed again meanwhile, or another master was next.
                match self.bucket.get(id).is_some_and(|k| k.revision > revision) {
                    true => self.write(id),
                    false => self.put(id),
                }
            }
            Put::Conflict => self.write(id),
            // The watch tells what became of it; `retry` repeats it otherwise.
            Put::Unknown => None,
        }
    }

    /// Repeats writes whose end is not known.
    pub fn retry(&mut self) -> Vec<Act> {
        let ids: Vec<MinionId> = self
            .files
            .keys()
            .chain(self.bucket.keys())
            .cloned()
            .collect();
        let ids: BTreeSet<MinionId> = ids.into_iter().collect();
        ids.iter().filter_map(|id| self.put(id)).collect()
    }

    /// The connection is lost: nothing is known about the bucket until [`KeySync::all_told`].
    pub fn down(&mut self) {
        self.synced = false;
        self.pending.clear();
    }

    /// Writes the files of a minion to the bucket if they differ.
    fn put(&mut self, id: &MinionId) -> Option<Act> {
        if !self.synced || self.pending.contains_key(id) {
            return None;
        }
        let keys = self.files.get(id).cloned().unwrap_or_default();
        let (revision, known) = match self.bucket.get(id) {
            Some(known) => (known.revision, known.record.clone()),
            None => (0, KeyRecord::default()),
        };
        if known.keys == keys {
            return None;
        }
        let record = KeyRecord {
            number: known.number + 1,
            keys,
        };
        self.pending.insert(id.clone(), record.clone());
        Some(Act::Put {
            id: id.clone(),
            record,
            revision,
        })
    }

    /// Makes the files of a minion what the bucket has, if they differ.
    fn write(&mut self, id: &MinionId) -> Option<Act> {
        let keys = self.bucket.get(id)?.record.keys.clone();
        if self.files.get(id).cloned().unwrap_or_default() == keys {
            return None;
        }
        match keys.is_empty() {
            true => self.files.remove(id),
            false => self.files.insert(id.clone(), keys.clone()),
        };
        Some(Act::Write {
            id: id.clone(),
            keys,
        })
    }
}

/// The keys with an accepted one waiting to be accepted.
fn waiting(keys: &Keys) -> Keys {
    let mut out = keys.clone();
    if let Some(key) = out.remove(&KeyState::Accepted) {
        out.entry(KeyState::Pending).or_insert(key);
    }
    out
}

#[cfg(test)]
mod tests;
