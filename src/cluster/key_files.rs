//! The key files of this master: what changes there, and changes made for the cluster.

use crate::record::Keys;
use halite_store::keys::{IdList, KeyState, KeyStore, Version};
use halite_wire::ids::MinionId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often all files are looked at, not only which there are.
const EVERY: Duration = Duration::from_secs(5);

/// Notices changes.
pub struct KeyFiles {
    store: Arc<dyn KeyStore>,
    lists: Vec<IdList>,
    versions: BTreeMap<(KeyState, MinionId), Version>,
    looked: Option<Instant>,
    /// Minions whose files were written here: what becomes of these must be seen even if it is undone at once.
    written: BTreeSet<MinionId>,
}

impl KeyFiles {
    /// Of a store; at first all keys count as new.
    pub fn new(store: Arc<dyn KeyStore>) -> KeyFiles {
        KeyFiles {
            store,
            lists: vec![IdList::default(); KeyState::ALL.len()],
            versions: BTreeMap::new(),
            looked: None,
            written: BTreeSet::new(),
        }
    }

    /// The keys of minions that were added to a state or removed from one since the last call. Cheap if there are none.
    ///
    /// # Errors
    /// The keys cannot be read.
    pub fn changes(&mut self) -> io::Result<Vec<(MinionId, Keys)>> {
        let mut ids = std::mem::take(&mut self.written);
        for (known, state) in self.lists.iter_mut().zip(KeyState::ALL) {
            let list = self.store.list(state)?;
            if Arc::ptr_eq(&list, known) {
                continue;
            }
            let [before, now] = [&*known, &list].map(|list| list.iter().collect::<BTreeSet<_>>());
            ids.extend(before.symmetric_difference(&now).map(|id| (*id).clone()));
            *known = list;
        }
        if self.looked.is_none_or(|at| at.elapsed() >= EVERY) {
            self.looked = Some(Instant::now());
            ids.extend(self.replaced());
        }
        ids.into_iter()
            .map(|id| {
                // Whoever moves a key from one state to another holds the lock meanwhile.
                let _lock = self.store.lock(&id)?;
                let keys = read(&*self.store, &id)?;
                Ok((id, keys))
            })
            .collect()
    }

    /// Minions one of whose keys was replaced by another one.
    fn replaced(&mut self) -> Vec<MinionId> {
        let mut versions = BTreeMap::new();
        for (list, state) in self.lists.iter().zip(KeyState::ALL) {
            for id in list.iter() {
                if let Some(version) = self.store.version(state, id) {
                    versions.insert((state, id.clone()), version);
                }
            }
        }
        let before = std::mem::replace(&mut self.versions, versions);
        let differs = |(key, version): &(&(KeyState, MinionId), &Version)| {
            before.get(key).is_some_and(|known| known != *version)
        };
        let replaced = self.versions.iter().filter(differs);
        replaced.map(|((_, id), _)| id.clone()).collect()
    }

    /// Makes the keys of a minion so. Returns the state that is in force before and after, if these differ.
    ///
    /// # Errors
    /// The keys cannot be read or written.
    pub fn write(
        &mut self,
        id: &MinionId,
        keys: &Keys,
    ) -> io::Result<Option<(Option<KeyState>, Option<KeyState>)>> {
        self.written.insert(id.clone());
        let _lock = self.store.lock(id)?;
        let stored = read(&*self.store, id)?;
        // Nobody may see a moment without a key in between.
        for (state, text) in keys {
            if stored.get(state) != Some(text) {
                self.store.put_text(*state, id, text)?;
            }
        }
        for state in stored.keys().filter(|state| !keys.contains_key(state)) {
            self.store.delete(*state, id)?;
        }
        let (before, after) = (in_force(&stored), in_force(keys));
        Ok((before != after).then_some((before, after)))
    }
}

fn read(store: &dyn KeyStore, id: &MinionId) -> io::Result<Keys> {
    let mut keys = Keys::new();
    for state in KeyState::ALL {
        if let Some(text) = store.text(state, id)? {
            keys.insert(state, text);
        }
    }
    Ok(keys)
}

/// The state in force, as [`KeyStore::state`] tells it.
fn in_force(keys: &Keys) -> Option<KeyState> {
    [KeyState::Rejected, KeyState::Pending, KeyState::Accepted]
        .into_iter()
        .find(|state| keys.contains_key(state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_store::local::LocalKeys;

    #[test]
    fn changes_are_noticed_and_made() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn KeyStore> = Arc::new(LocalKeys::new(dir.path()));
        store.prepare().unwrap();
        let id: MinionId = "m1".parse().unwrap();
        store.put_text(KeyState::Pending, &id, "a\n").unwrap();
        let mut files = KeyFiles::new(store.clone());
        let pending: Keys = [(KeyState::Pending, "a\n".to_owned())].into();
        assert_eq!(files.changes().unwrap(), [(id.clone(), pending.clone())]);
        assert!(files.changes().unwrap().is_empty());
        // Accepted by another master.
        let accepted: Keys = [(KeyState::Accepted, "a\n".to_owned())].into();
        let changed = files.write(&id, &accepted).unwrap();
        assert_eq!(
            changed,
            Some((Some(KeyState::Pending), Some(KeyState::Accepted)))
        );
        assert_eq!(files.write(&id, &accepted).unwrap(), None);
        assert_eq!(files.changes().unwrap(), [(id.clone(), accepted.clone())]);
        // Deleted here before anybody has looked.
        let other: MinionId = "m2".parse().unwrap();
        files.write(&other, &accepted).unwrap();
        store.delete(KeyState::Accepted, &other).unwrap();
        assert_eq!(files.changes().unwrap(), [(other, Keys::new())]);
        let changed = files.write(&id, &Keys::new()).unwrap();
        assert_eq!(changed, Some((Some(KeyState::Accepted), None)));
        assert_eq!(files.changes().unwrap(), [(id.clone(), Keys::new())]);
        assert_eq!(store.state(&id).unwrap(), None);
    }
}
