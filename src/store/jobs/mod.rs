//! The job cache.
//!
//! [`JobStore`] is what the rest sees. The default engine, [`joblog::JobLog`], keeps one
//! append-only file per job (those that minions begin by themselves share files) in directories of ten minutes each: any number of worker
//! processes append with one write each, any number of processes read, an acknowledged
//! return is in the kernel's hands (a `kill -9` of every process loses nothing), reading a
//! job's thousand returns is one sequential read, and age is honoured by removing whole
//! directories. `docs/performance.md` has the measurement beside SQLite and redb.

mod compat;
mod disk;
mod follow;
pub mod joblog;
mod shared_segment;
pub mod transfer;

pub use compat::StockLayout;
pub use follow::JobUpdate;

use halite_wire::ids::{Jid, MinionId};
use halite_wire::{Map, Value};
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

/// A return to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Returned<'a> {
    /// Of which job.
    pub jid: &'a Jid,
    /// Who returned.
    pub id: &'a MinionId,
    /// The return load.
    pub load: &'a Map,
    /// Whether the job begins with it: the minion did something unasked, and its return is the job's load as well.
    pub begins: bool,
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
    ///
    /// # Errors
    /// `InvalidInput`: it cannot be kept because of what is in it. Others: the disk.
    fn save_return(&self, jid: &Jid, id: &MinionId, load: &Map) -> io::Result<()> {
        let begins = false;
        let kept = self
            .save_returns(&[Returned {
                jid,
                id,
                load,
                begins,
            }])
            .pop();
        kept.unwrap_or(Ok(()))
    }

    /// Keeps several, with one write for each job; an outcome for each, as of [`JobStore::save_return`].
    fn save_returns(&self, returns: &[Returned<'_>]) -> Vec<io::Result<()>>;

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

/// The fields by which Salt describes a job (`salt/utils/jid.py
/// format_job_instance`).
pub fn description(load: &Map) -> Map {
    let pick = |key: &str, other: &str| load.get(key).cloned().unwrap_or_else(|| other.into());
    let mut out = halite_wire::map! {
        "Function" => pick("fun", "unknown-function"),
        "Arguments" => load.get("arg").cloned().unwrap_or(Value::Array(Vec::new())),
        "Target" => pick("tgt", "unknown-target"),
        "Target-type" => pick("tgt_type", "list"),
        "User" => pick("user", "root"),
    };
    if let Some(metadata) = metadata(load) {
        out.set("Metadata", metadata.clone());
    }
    out
}

/// Metadata of a job: beside the load, in its `kwargs`, or among the function's keywords.
pub fn metadata(load: &Map) -> Option<&Value> {
    let inner = |key: &str| load.get(key).and_then(Value::as_map);
    let keywords = || {
        let args = load.get("arg").and_then(Value::as_array)?;
        args.iter()
            .filter_map(Value::as_map)
            .filter(|m| m.get("__kwarg__").and_then(Value::as_bool) == Some(true))
            .find_map(|m| m.get("metadata"))
    };
    load.get("metadata")
        .or_else(|| inner("kwargs").and_then(|k| k.get("metadata")))
        .or_else(keywords)
}

/// A list of ids as a value.
pub(crate) fn id_list(ids: &[String]) -> Value {
    Value::Array(ids.iter().map(Value::from).collect())
}
