//! `batch_active.p`: the jids of batches that are not over, in the file that stock's `batch.list_active` reads.

use halite_sys::daemon::write_atomic;
use halite_sys::safe_open::read_regular;
use halite_wire::Value;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Most bytes that are read: 40 000 batches.
const LARGEST: u64 = 1 << 20;

/// The file. A client that begins a batch for the master adds it, too.
#[derive(Clone, Debug)]
pub struct BatchIndex(PathBuf);

impl BatchIndex {
    /// The file at `path`.
    pub fn new(path: PathBuf) -> BatchIndex {
        BatchIndex(path)
    }

    /// What the file holds; nothing if it cannot be read.
    pub fn read(&self) -> BTreeSet<Jid> {
        let text = read_regular(&self.0, LARGEST).ok();
        let list = text.and_then(|text| msgpack::decode(&text).ok());
        let list: Vec<String> = list.map(|list| list.str_list()).unwrap_or_default();
        list.iter().filter_map(|jid| jid.parse().ok()).collect()
    }

    /// Adds a batch. Errors are logged.
    pub fn add(&self, jid: &Jid) {
        self.change(|jids| jids.insert(jid.clone()));
    }

    /// Removes a batch. Errors are logged.
    pub fn remove(&self, jid: &Jid) {
        self.change(|jids| jids.remove(jid));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<Jid>) -> bool) {
        let mut jids = self.read();
        if !change(&mut jids) {
            return;
        }
        let list: Vec<Value> = jids.iter().map(|jid| jid.as_str().into()).collect();
        let bytes = msgpack::encode(&Value::Array(list), Profile::Local);
        if let Err(e) = write_atomic(&self.0, &bytes, 0o644) {
            log::error!(
                "{}: {e}; salt-run batch.list_active is wrong",
                self.0.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jids_are_kept_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("batch_active.p");
        let index = BatchIndex::new(path.clone());
        assert!(index.read().is_empty());
        let [a, b]: [Jid; 2] =
            ["20261121092637195592", "20261121092637195593"].map(|jid| jid.parse().unwrap());
        index.add(&b);
        index.add(&a);
        index.add(&a);
        assert!(
            BatchIndex::new(path.clone())
                .read()
                .into_iter()
                .eq([a.clone(), b.clone()])
        );
        index.remove(&a);
        assert!(index.read().into_iter().eq([b]));
        std::fs::write(path, "nonsense").unwrap();
        assert!(index.read().is_empty());
    }
}
