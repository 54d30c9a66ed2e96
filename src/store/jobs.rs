//! The job cache: jobs, and what minions returned for them.

use halite_wire::ids::{Jid, MinionId};
use halite_wire::{Map, Value};
use std::collections::HashSet;
use std::io;
use std::time::SystemTime;

/// A stored return.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredReturn {
    /// The minion that returned.
    pub id: String,
    /// The return load: `return`, `retcode`, `success`, `out`, `fun`, ...
    pub load: Map,
}

/// A job with its returns so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredJob {
    /// The clear publish load without its key; for jobs that a minion started by itself, its return load.
    pub load: Map,
    /// Ids expected to return.
    pub minions: Vec<String>,
    /// Listed ids without an accepted key.
    pub missing: Vec<String>,
    /// Returns in order of arrival, the first of each minion only.
    pub returns: Vec<StoredReturn>,
}

/// Keeps the first of each id: a job may have been started in parts.
pub(crate) fn unite(ids: &mut Vec<String>) {
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
}

/// A return to store.
#[derive(Clone, Copy, Debug)]
pub struct Returned<'a> {
    /// The job.
    pub jid: &'a Jid,
    /// The minion that returned.
    pub id: &'a MinionId,
    /// The return load.
    pub load: &'a Map,
    /// Whether the minion started the job by itself: its return is also the job's load.
    pub starts_job: bool,
}

/// What was added to one job.
#[derive(Clone, Debug)]
pub struct JobUpdate {
    /// The job.
    pub jid: Jid,
    /// Its load, if that was added; for a job that a minion started by itself, its first return.
    pub load: Option<Map>,
    /// New returns, at most one per minion.
    pub returns: Vec<StoredReturn>,
    /// Whether a minion started the job by itself and `load` says so; without that, `load` may be a return because no load is known.
    pub is_started_by_minion: bool,
    /// The cursor for the next call of [`JobStore::updates`].
    pub end: u64,
}

/// Where jobs are read by those who wait for them.
pub trait JobReader: Send + Sync {
    /// The whole job; `None` if unknown.
    fn get(&self, jid: &Jid) -> io::Result<Option<StoredJob>>;

    /// The load of a job alone, without reading its returns where that can be avoided; `None` if the job is unknown. Of a
    /// job that was sent in parts, any of its loads.
    fn load(&self, jid: &Jid) -> io::Result<Option<Map>> {
        Ok(self.get(jid)?.map(|job| job.load))
    }
}

/// Where jobs and returns are stored.
pub trait JobStore: JobReader {
    /// Starts a job. A later call for the same jid replaces the load, and adds minions: of the next part of a batch, or of
    /// those below a syndic.
    fn save_load(
        &self,
        jid: &Jid,
        load: &Map,
        minions: &[String],
        missing: &[String],
    ) -> io::Result<()>;

    /// Stores one return. Once stored, it survives a crash of any process.
    ///
    /// # Errors
    /// `InvalidInput`: the return itself is not acceptable. Others: it cannot be written.
    fn save_return(&self, jid: &Jid, id: &MinionId, load: &Map) -> io::Result<()> {
        let starts_job = false;
        let stored = self
            .save_returns(&[Returned {
                jid,
                id,
                load,
                starts_job,
            }])
            .pop();
        stored.unwrap_or(Ok(()))
    }

    /// Stores several returns, with one write per job; one result for each, as for [`JobStore::save_return`].
    fn save_returns(&self, returns: &[Returned<'_>]) -> Vec<io::Result<()>>;

    /// Jids with their loads, oldest first.
    fn list(&self) -> io::Result<Vec<(Jid, StoredJob)>>;

    /// Removes jobs older than `keep` seconds at `now` (Unix seconds); returns how many.
    fn expire(&self, now: i64, keep: u64) -> io::Result<u64>;

    /// Jobs to which something was added at `since` or later, oldest first.
    fn changed_since(&self, since: SystemTime) -> io::Result<Vec<Jid>>;

    /// Jobs that started at `since` (Unix seconds) or later, oldest first.
    fn started_since(&self, since: i64) -> io::Result<Vec<Jid>>;

    /// What was added to a job after `cursor`, which is 0 or the `end` of an earlier update; `None` if the job does not
    /// exist (any more). A record that is still being written is left for the next call.
    fn updates(&self, jid: &Jid, cursor: u64) -> io::Result<Option<JobUpdate>>;
}

/// The part of a return that stock Salt stores in `return.p`.
pub fn stored_part(load: &Map) -> Map {
    ["return", "retcode", "success"]
        .into_iter()
        .filter_map(|k| load.get(k).map(|v| (k, v.clone())))
        .collect()
}

/// The fields by which Salt describes a job (`salt/utils/jid.py format_job_instance`).
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

/// Metadata of a job: in the load itself, in its `kwargs`, or among the function's keyword arguments.
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
