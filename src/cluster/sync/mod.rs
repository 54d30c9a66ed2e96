//! Keeps the key files of one master and the bucket of the cluster the same. No IO: it is told what happened and says what
//! to do, so that the tests can play any order of events.
//!
//! A change is decided by the bucket: it takes a write only if nothing was written since the writer last looked. Whoever
//! comes second takes over what the first one has changed. What both had when they were last the same is the [`Base`]: by it, a
//! change of the files that was made while there was no connection is told from one that others have made. Entries of
//! strangers are replaced by what was there before; that is no change, and never outweighs one.

use crate::record::{KeyRecord, Keys};
use halite_store::keys::KeyState;
use halite_wire::fnv::fnv;
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// The revision in the bucket.
    pub revision: u64,
    /// The record.
    pub record: KeyRecord,
}

/// What the bucket has about a minion.
#[derive(Clone, Debug, Default)]
struct InBucket {
    revision: u64,
    record: KeyRecord,
    /// Whether the entry with this revision is of somebody else; the record is the last one of a master.
    is_foreign: bool,
}

/// A write under way.
#[derive(Clone, Debug)]
struct Pending {
    record: KeyRecord,
    /// The revision that it replaces.
    replaced: u64,
    /// Whether the servers say that they have it. That is believed once the watch tells it: whoever reads along could answer, too.
    is_acknowledged: bool,
    /// Whether that was so at the last [`KeySync::retry`].
    is_late: bool,
}

/// The state of the synchronization.
#[derive(Debug, Default)]
pub struct KeySync {
    bucket: BTreeMap<MinionId, InBucket>,
    files: BTreeMap<MinionId, Keys>,
    base: BTreeMap<MinionId, Base>,
    /// Writes that the watch has not told yet.
    pending: BTreeMap<MinionId, Pending>,
    /// Writes whose end is not known: the watch may tell that they are in the bucket.
    uncertain: BTreeMap<MinionId, Vec<KeyRecord>>,
    /// Minions of these that are not written again yet.
    to_retry: BTreeSet<MinionId>,
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

    /// The data of the bucket were lost, and another one is filled from what its masters had: revisions begin anew, numbers go on.
    pub fn begin_anew(&mut self) {
        self.base.values_mut().for_each(|base| base.revision = 0);
        self.is_base_new = true;
    }

    /// The newest revision that this master has.
    pub fn newest(&self) -> u64 {
        let revisions = self.base.values().map(|base| base.revision);
        revisions.max().unwrap_or(0)
    }

    /// The base, to be stored, if it has changed since the last call.
    pub fn take_base(&mut self) -> Option<&BTreeMap<MinionId, Base>> {
        std::mem::take(&mut self.is_base_new).then_some(&self.base)
    }

    /// Whether everything in the bucket is known and nothing waits for an answer.
    pub fn is_settled(&self) -> bool {
        self.synced && self.pending.is_empty() && self.to_retry.is_empty()
    }

    /// How many minions have keys in the bucket.
    pub fn count(&self) -> usize {
        let all = self.bucket.values();
        all.filter(|known| !known.record.keys.is_empty()).count()
    }

    /// A number that is the same for those who know the same entries of the bucket.
    pub fn content(&self) -> u64 {
        let mut content = 0;
        for (id, known) in self.bucket.iter().filter(|(_, known)| known.revision > 0) {
            content ^= fnv(&[id.as_str().as_bytes(), &known.revision.to_be_bytes()].concat());
        }
        content
    }

    /// Whether the bucket has an accepted key of a minion.
    pub fn is_accepted(&self, id: &MinionId) -> bool {
        let known = self.bucket.get(id);
        known.is_some_and(|known| known.record.keys.contains_key(&KeyState::Accepted))
    }

    /// The files of a minion are now so.
    pub fn files_changed(&mut self, id: &MinionId, keys: Keys) -> Vec<Act> {
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
    ) -> Result<Vec<Act>, u64> {
        let known = self.bucket.get(id);
        if known.is_some_and(|known| revision <= known.revision) {
            return Ok(Vec::new());
        }
        let base = self.base.get(id);
        let highest = known.map_or(0, |known| known.record.number);
        let highest = highest.max(base.map_or(0, |base| base.record.number));
        // Revisions may be others: where a bucket was restored, they begin anew, while numbers go on.
        let is_base = base.is_some_and(|base| record == base.record)
            && known.is_none_or(|known| known.record.number <= record.number);
        if record.number <= highest && !is_base {
            return Err(highest);
        }
        let uncertain = self.uncertain.get(id).into_iter().flatten();
        let pending = self.pending.get(id);
        let is_ours = |ours: &KeyRecord| ours.has_same_change(&record);
        let is_written = pending.is_some_and(|pending| pending.is_acknowledged);
        if uncertain.chain(pending.map(|p| &p.record)).any(is_ours) {
            self.set_base(id, revision, &record);
        }
        if is_written {
            self.pending.remove(id);
        }
        self.bucket.insert(
            id.clone(),
            InBucket {
                revision,
                record,
                is_foreign: false,
            },
        );
        Ok(self.settle(id))
    }

    /// An entry of the bucket that no master has written now. It is replaced by what this master knows, if it knows anything.
    pub fn foreign(&mut self, id: &MinionId, revision: u64) -> Vec<Act> {
        let known = self.bucket.get(id);
        if known.is_some_and(|known| revision <= known.revision) {
            return Vec::new();
        }
        if let Some(pending) = self.pending.remove(id) {
            match pending.is_acknowledged {
                true => self.keep_uncertain(id, pending.record),
                false => drop(self.pending.insert(id.clone(), pending)),
            }
        }
        let known = self.bucket.entry(id.clone()).or_default();
        known.revision = revision;
        known.is_foreign = true;
        // Of a write whose end is not known the others may have heard before the stranger wrote.
        let ours = self.uncertain.get(id).and_then(|ours| ours.last());
        for record in [self.base.get(id).map(|base| &base.record), ours] {
            if let Some(record) = record.filter(|record| record.number > known.record.number) {
                known.record = record.clone();
            }
        }
        self.settle(id)
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
        let base = self.base.get(id).cloned().unwrap_or_default();
        let revision = self.bucket.get(id).map_or(0, |known| known.revision);
        if revision > 0 {
            return self.settle(id);
        }
        if base.record.number > 0 {
            // Someone has removed the entry, or all data were lost: it is written again, with the next number.
            let removed = InBucket {
                revision: 0,
                record: base.record,
                is_foreign: true,
            };
            self.bucket.insert(id.clone(), removed);
            return self.put(id);
        }
        let mut acts = Vec::new();
        if joins == Joins::New {
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
    pub fn put_ended(&mut self, id: &MinionId, how: Put) -> Vec<Act> {
        let Some(Pending {
            record, replaced, ..
        }) = self.pending.get(id).cloned()
        else {
            return Vec::new();
        };
        let is_newer =
            |sync: &KeySync, than| sync.bucket.get(id).is_some_and(|k| k.revision > than);
        if let Put::Done(_) = how
            && !is_newer(self, replaced)
        {
            if let Some(pending) = self.pending.get_mut(id) {
                pending.is_acknowledged = true;
            }
            return Vec::new();
        }
        self.pending.remove(id);
        match how {
            // The watch was faster.
            Put::Done(_) => self.settle(id),
            // Until the entry that was faster is here, nobody knows whether a master has written it; `retry` asks again.
            Put::Conflict if !is_newer(self, replaced) => {
                self.to_retry.insert(id.clone());
                Vec::new()
            }
            Put::Conflict => self.settle(id),
            // The watch tells what became of it, or has told; `retry` repeats it otherwise.
            Put::Unknown => {
                self.keep_uncertain(id, record);
                match is_newer(self, replaced) {
                    true => self.settle(id),
                    false => Vec::new(),
                }
            }
        }
    }

    fn keep_uncertain(&mut self, id: &MinionId, record: KeyRecord) {
        self.to_retry.insert(id.clone());
        if self
            .base
            .get(id)
            .is_some_and(|base| base.record.has_same_change(&record))
        {
            // It is there.
            return;
        }
        let ours = self.uncertain.entry(id.clone()).or_default();
        if !ours.contains(&record) {
            ours.push(record);
        }
    }

    /// Repeats writes whose end is not known.
    pub fn retry(&mut self) -> Vec<Act> {
        let mut late = Vec::new();
        self.pending.retain(|id, pending| {
            let is_late = pending.is_acknowledged
                && std::mem::replace(&mut pending.is_late, pending.is_acknowledged);
            if is_late {
                late.push((id.clone(), pending.record.clone()));
            }
            !is_late
        });
        for (id, record) in late {
            self.keep_uncertain(&id, record);
        }
        let ids = std::mem::take(&mut self.to_retry);
        ids.iter().flat_map(|id| self.settle(id)).collect()
    }

    /// The connection is lost: nothing is known about the bucket until [`KeySync::all_told`].
    pub fn down(&mut self) {
        self.synced = false;
        for (id, pending) in std::mem::take(&mut self.pending) {
            self.keep_uncertain(&id, pending.record);
        }
        self.bucket.clear();
    }

    fn set_files(&mut self, id: &MinionId, keys: Keys) {
        match keys.is_empty() {
            true => self.files.remove(id),
            false => self.files.insert(id.clone(), keys),
        };
    }

    /// Writes the files of a minion to the bucket if they differ.
    fn put(&mut self, id: &MinionId) -> Vec<Act> {
        if !self.synced || self.pending.contains_key(id) || self.agrees(id) {
            return Vec::new();
        }
        let known = self.bucket.get(id).cloned().unwrap_or_default();
        let keys = self.files.get(id).cloned().unwrap_or_default();
        let is_accepted = |keys: &Keys| keys.contains_key(&KeyState::Accepted);
        let is_taken = is_accepted(&known.record.keys) && !is_accepted(&keys);
        // Others may know one of these, whether or not it is still there.
        let uncertain = self.uncertain.get(id).into_iter().flatten();
        let latest = || uncertain.clone().chain([&known.record]);
        let number = latest().map(|record| record.number).max();
        let change = latest().map(|record| record.change).max().unwrap_or(0);
        let is_change = latest().any(|record| record.change == change && record.keys != keys);
        let record = KeyRecord {
            number: number.unwrap_or(0) + 1,
            change: change + u64::from(is_change),
            epoch: known.record.epoch + u64::from(is_taken),
            keys,
        };
        let pending = Pending {
            record: record.clone(),
            replaced: known.revision,
            is_acknowledged: false,
            is_late: false,
        };
        self.pending.insert(id.clone(), pending);
        vec![Act::Put {
            id: id.clone(),
            record,
            revision: known.revision,
        }]
    }

    /// If files and bucket differ: writes the one that has not changed.
    fn settle(&mut self, id: &MinionId) -> Vec<Act> {
        if !self.synced || self.pending.contains_key(id) || self.agrees(id) {
            return Vec::new();
        }
        let Some(known) = self.bucket.get(id) else {
            return self.put(id);
        };
        // Without a change of others, it is the files that were changed.
        let ours = self.uncertain.get(id).into_iter().flatten();
        let base = self.base.get(id).map(|base| &base.record);
        let is_seen = base.is_some_and(|base| known.record.change < base.change)
            || ours.chain(base).any(|r| r.has_same_change(&known.record));
        let is_nothing_known = known.is_foreign && known.record.number == 0;
        if is_seen || is_nothing_known {
            return self.put(id);
        }
        let keys = known.record.keys.clone();
        let mut acts = Vec::new();
        if self.files.get(id).is_none_or(|files| *files != keys) {
            self.set_files(id, keys.clone());
            let id = id.clone();
            acts.push(Act::Write { id, keys });
        }
        acts.extend(self.put(id));
        acts
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
        let is_new = |base: &Base| (base.revision, &base.record) != (known.revision, &known.record);
        if known.revision > 0 && self.base.get(id).is_none_or(is_new) {
            let (revision, record) = (known.revision, known.record.clone());
            self.set_base(id, revision, &record);
        }
        true
    }

    /// The files are this record, or come from it.
    fn set_base(&mut self, id: &MinionId, revision: u64, record: &KeyRecord) {
        if let Some(ours) = self.uncertain.get_mut(id) {
            // Another master may have written an older one again, against a stranger.
            ours.retain(|ours| ours.change > record.change);
        }
        let is_older = |known: &Base| match known.record == *record {
            true => revision == known.revision,
            false => (record.number, revision) <= (known.record.number, known.revision),
        };
        if self.base.get(id).is_some_and(is_older) {
            return;
        }
        let record = record.clone();
        self.base.insert(id.clone(), Base { revision, record });
        self.is_base_new = true;
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
