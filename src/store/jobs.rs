//! The job cache.
//!
//! [`JobStore`] is what the rest sees. The default engine, [`joblog::JobLog`], keeps one
//! append-only file per job in directories of ten minutes each: any number of worker
//! processes append with one write each, any number of processes read, an acknowledged
//! return is in the kernel's hands (a `kill -9` of every process loses nothing), reading a
//! job's thousand returns is one sequential read, and age is honoured by removing whole
//! directories. `docs/performance.md` has the measurement beside SQLite and redb.

mod compat;
mod follow;
pub mod joblog;

pub use compat::StockLayout;
pub use follow::News;

use crate::wire::ids::{Jid, MinionId};
use crate::wire::{Map, Value};
use std::io;

/// One return as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredReturn {
    /// Who returned.
    pub id: String,
    /// The return load: `return`, `retcode`, `success`, `out`, `fun`, ...
    pub load: Map,
}

/// A job with what has come back so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredJob {
    /// The clear publish load without its key; for jobs that a minion began, its return load.
    pub load: Map,
    /// Ids expected to answer.
    pub minions: Vec<String>,
    /// Listed ids without an accepted key.
    pub missing: Vec<String>,
    /// Returns in order of arrival, the first of each minion only.
    pub returns: Vec<StoredReturn>,
}

/// Where jobs and returns are kept.
pub trait JobStore: Send + Sync {
    /// Begins a job. A second call for the same jid adds the load and minions again (last wins).
    fn save_load(
        &self,
        jid: &Jid,
        load: &Map,
        minions: &[String],
        missing: &[String],
    ) -> io::Result<()>;

    /// Keeps one return; when this comes back the return outlives any process.
    fn save_return(&self, jid: &Jid, id: &MinionId, load: &Map) -> io::Result<()>;

    /// The whole job; `None` if unknown.
    fn get(&self, jid: &Jid) -> io::Result<Option<StoredJob>>;

    /// Jids with their loads, oldest first.
    fn list(&self) -> io::Result<Vec<(Jid, StoredJob)>>;

    /// Removes what is older than `keep` seconds at `now` (Unix seconds); returns the number of jobs removed.
    fn expire(&self, now: i64, keep: u64) -> io::Result<u64>;
}

/// The part of a return that stock Salt stores in `return.p`.
pub fn stored_part(load: &Map) -> Map {
    ["return", "retcode", "success"]
        .into_iter()
        .filter_map(|k| load.get(k).map(|v| (k, v.clone())))
        .collect()
}

/// A list of ids as a value.
pub(crate) fn id_list(ids: &[String]) -> Value {
    Value::Array(ids.iter().map(Value::from).collect())
}
