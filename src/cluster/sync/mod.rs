//! Keeps the key files of one master and the bucket of the cluster the same. No IO: it is told what happened and says what
//! to do, so that the tests can play any order of events.
//!
//! A change is decided by the bucket: it takes a write only if nothing was written since the writer last looked. Whoever
//! comes second takes over what the first one has written. What both had when they were last the same is the [`Base`]: by it, a
//! change of the files that was made while there was no connection is told from one that others have made.

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

/// How a master comes to the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// It has not been a member: minions that only this master knows wait to be accepted.
    New,
    /// It has made the bucket, or has been a member: what its files have and the bucket has not is a change like any other.
    Again,
}

/// What files and bucket had when they were last the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The revision in the bucket.
    pub revision: u64,
    /// The number of the record.
    pub number: u64,
    /// Its epoch.
    pub epoch: u64,
}

/// What the bucket has about a minion.
#[derive(Clone, Debug, Default)]
struct InBucket {
    revision: u64,
    record: KeyRecord,
    /// Whether the entry with this revision is of somebody else; the record is the last one of a master.
    is_foreign: bool,
}

/// The state of the synchronization.
#[derive(Debug, Default)]
pub struct KeySync {
    bucket: BTreeMap<MinionId, InBucket>,
    files: BTreeMap<MinionId, Keys>,
    base: BTreeMap<MinionId, Base>,
    /// Writes without an answer, each with the revision that it replaces.
    pending: BTreeMap<MinionId, (KeyRecord, u64)>,
    /// Minions with a write whose end is not known.
    uncertain: BTreeSet<MinionId>,
    /// Whether everything in the bucket is known.
    synced: bool,
    /// Whether the base has changed since [`KeySync::take_base`].
    is_base_new: bool,
}

impl KeySync {
    /// With the base of an earlier process.
    pub fn with_base(base: BTreeMap<MinionId, Base>) -> KeySync {
        KeySync {
            base,
            ..KeySync::default()
        }
    }

    /// Forgets the base: it is that of another bucket.
    pub fn drop_base(&mut self) {
        self.base.clear();
        self.is_base_new = true;
    }

    /// The base, to be stored, if it has changed since the last call.
    pub fn take_base(&mut self) -> Option<&BTreeMap<MinionId, Base>> {
        std::mem::take(&mut self.is_base_new).then_some(&self.base)
    }

    /// Whether everything in the bucket is known and nothing waits for an answer.
    #[cfg(test)]
    fn is_settled(&self) -> bool {
        self.synced && self.pending.is_empty()
    }

    /// How many minions have keys in the bucket.
    pub fn count(&self) -> usize {
        let all = self.bucket.values();
        all.filter(|known| !known.record.keys.is_empty()).count()
    }

    /// Whether the bucket has an accepted key of a minion.
    pub fn is_accepted(&self, id: &MinionId) -> bool {
        let known = self.bucket.get(id);
        known.is_some_and(|known| known.record.keys.contains_key(&KeyState::Accepted))
    }

    /// The files of a minion are now so.
    pub fn files_changed(&mut self, id: &MinionId, keys: Keys) -> Option<Act> {
        self.set_files(id, keys);
        self.put(id)
    }

    /// An entry of the bucket. The error is that its number says that it was there before: someone has put it back, and
    /// [`KeySync::foreign`] is to be called.
    pub fn entry(
        &mut self,
        id: &MinionId,
        record: KeyRecord,
        revision: u64,
    ) -> Result<Option<Act>, u64> {
        let base = self.base.get(id).copied().unwrap_or_default();
        let known = self.bucket.get(id);
        if known.is_some_and(|known| revision <= known.revision) {
            return Ok(None);
        }
        let highest = known.map_or(0, |known| known.record.number);
        let highest = highest.max(base.number);
        let is_base = (revision, record.number) == (base.revision, base.number);
        if record.number <= highest && !is_base {
            return Err(highest);
        }
        self.bucket.insert(
            id.clone(),
            InBucket {
                revision,
                record,
                is_foreign: false,
            },
        );
        // The answer to our write says which of the two it was.
        if !self.synced || self.pending.contains_key(id) {
            return Ok(None);
        }
        Ok(self.write(id))
    }

    /// An entry of the bucket that no master has written now. It is replaced by what this master knows, if it knows anything.
    pub fn foreign(&mut self, id: &MinionId, revision: u64) -> Option<Act> {
        let base = self.base.get(id).copied().unwrap_or_default();
        let known = self.bucket.entry(id.clone()).or_default();
        if revision <= known.revision {
            return None;
        }
        known.revision = revision;
        known.record.number = known.record.number.max(base.number);
        known.record.epoch = known.record.epoch.max(base.epoch);
        known.is_foreign = true;
        if !self.synced || self.pending.contains_key(id) {
            return None;
        }
        self.put(id)
    }

    /// All entries that were in the bucket have been told. The files of all minions are known by then.
    pub fn all_told(&mut self, joins: Joins) -> Vec<Act> {
        self.synced = true;
        let ids: BTreeSet<MinionId> = [
            self.bucket.keys().collect::<Vec<_>>(),
            self.files.keys().collect(),
            self.base.keys().collect(),
        ]
        .concat()
        .into_iter()
        .cloned()
        .collect();
        ids.iter().flat_map(|id| self.compare(id, joins)).collect()
    }

    /// What is to be done about a minion after a time without a connection.
    fn compare(&mut self, id: &MinionId, joins: Joins) -> Vec<Act> {
        let base = self.base.get(id).copied().unwrap_or_default();
        let known = self.bucket.get(id);
        let revision = known.map_or(0, |known| known.revision);
        if revision > base.revision && !known.is_some_and(|known| known.is_foreign) {
            // Others have changed it, or it is the first time.
            return self.write(id).into_iter().collect();
        }
        if revision == 0 && base.revision > 0 {
            // Someone has removed the entry: it is written again, with the next number.
            let record = KeyRecord {
                number: base.number,
                epoch: base.epoch,
                keys: Keys::new(),
            };
            self.bucket.insert(
                id.clone(),
                InBucket {
                    revision: 0,
                    record,
                    is_foreign: true,
                },
            );
            return self.put(id).into_iter().collect();
        }
        if self.bucket.get(id).is_some_and(|known| known.is_foreign) {
            return self.put(id).into_iter().collect();
        }
        let mut acts = Vec::new();
        if revision == 0 && joins == Joins::New {
            let keys = self.files.get(id).cloned().unwrap_or_default();
            let waiting = waiting(&keys);
            if keys != waiting {
                self.set_files(id, waiting.clone());
                acts.push(Act::Write {
                    id: id.clone(),
                    keys: waiting,
                });
            }
        }
        acts.extend(self.put(id));
        acts
    }

    /// A write to the bucket has ended.
    pub fn put_ended(&mut self, id: &MinionId, how: Put) -> Option<Act> {
        let (record, replaced) = self.pending.remove(id)?;
        match how {
            Put::Done(revision) => {
                let known = self.bucket.entry(id.clone()).or_default();
                if revision > known.revision {
                    *known = InBucket {
                        revision,
                        record,
                        is_foreign: false,
                    };
                }
                // The files may have changed again meanwhile, or another master was next.
                match self.bucket.get(id).is_some_and(|k| k.revision > revision) {
                    true => self.write(id),
                    false => self.put(id),
                }
            }
            // Until the entry that was faster is here, nobody knows whether a master has written it.
            Put::Conflict => {
                let is_here = self.bucket.get(id).is_some_and(|k| k.revision > replaced);
                is_here.then(|| self.write(id)).flatten()
            }
            // The watch tells what became of it; `retry` repeats it otherwise.
            Put::Unknown => {
                self.uncertain.insert(id.clone());
                None
            }
        }
    }

    /// Repeats writes whose end is not known.
    pub fn retry(&mut self) -> Vec<Act> {
        let ids = std::mem::take(&mut self.uncertain);
        ids.iter().filter_map(|id| self.put(id)).collect()
    }

    /// The connection is lost: nothing is known about the bucket until [`KeySync::all_told`].
    pub fn down(&mut self) {
        self.synced = false;
        self.pending.clear();
        self.uncertain.clear();
        self.bucket.clear();
    }

    fn set_files(&mut self, id: &MinionId, keys: Keys) {
        match keys.is_empty() {
            true => self.files.remove(id),
            false => self.files.insert(id.clone(), keys),
        };
    }

    /// Writes the files of a minion to the bucket if they differ.
    fn put(&mut self, id: &MinionId) -> Option<Act> {
        if !self.synced || self.pending.contains_key(id) || self.agrees(id) {
            return None;
        }
        let known = self.bucket.get(id).cloned().unwrap_or_default();
        let keys = self.files.get(id).cloned().unwrap_or_default();
        let is_accepted = |keys: &Keys| keys.contains_key(&KeyState::Accepted);
        let is_taken = is_accepted(&known.record.keys) && !is_accepted(&keys);
        let record = KeyRecord {
            number: known.record.number + 1,
            epoch: known.record.epoch + u64::from(is_taken),
            keys,
        };
        self.pending
            .insert(id.clone(), (record.clone(), known.revision));
        Some(Act::Put {
            id: id.clone(),
            record,
            revision: known.revision,
        })
    }

    /// Makes the files of a minion what the bucket has, if they differ.
    fn write(&mut self, id: &MinionId) -> Option<Act> {
        if self.agrees(id) {
            return None;
        }
        let known = self.bucket.get(id)?;
        if known.is_foreign {
            return self.put(id);
        }
        let keys = known.record.keys.clone();
        self.set_files(id, keys.clone());
        self.agrees(id);
        Some(Act::Write {
            id: id.clone(),
            keys,
        })
    }

    /// Whether files and bucket are the same; if so, that is the base.
    fn agrees(&mut self, id: &MinionId) -> bool {
        let Some(known) = self.bucket.get(id) else {
            return !self.files.contains_key(id);
        };
        let none = Keys::new();
        if known.is_foreign {
            // Of a minion that nobody knows there is nothing to be said.
            return known.record.number == 0 && !self.files.contains_key(id);
        }
        if self.files.get(id).unwrap_or(&none) != &known.record.keys {
            return false;
        }
        let base = Base {
            revision: known.revision,
            number: known.record.number,
            epoch: known.record.epoch,
        };
        if known.revision > 0 && self.base.get(id) != Some(&base) {
            self.base.insert(id.clone(), base);
            self.is_base_new = true;
        }
        true
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
