//! The default engine: an append-only file per job. Jobs started by minions share files (`shared_segment.rs`).
//!
//! `cachedir/joblog/<first 11 digits of the jid>/<jid>`; a file is a sequence of records (`format.rs`). `O_APPEND`
//! keeps records of several processes apart.

mod format;

use super::disk::{names, write_whole};
use super::{StockLayout, shared_segment};
use crate::jobs::{
    JobReader, JobStore, JobUpdate, Returned, StoredJob, StoredReturn, id_list, unite,
};
use format::{HEADER, LOAD, Marker, RETURN, STARTING_RETURN, records};
use halite_sys::daemon::{make_dir, write_new};
use halite_sys::safe_open::open_no_follow;
use halite_sys::time::unix_now_i64;
use halite_wire::ids::Jid;
use halite_wire::msgpack;
use halite_wire::{Map, Value};
use rand::RngCore;
use rand::rngs::OsRng;
use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Digits of a jid that name its directory: `YYYYMMDDhhm`, that is, ten minutes.
const SLICE_DIGITS: usize = 11;
/// Seconds. A return for a job not published here is refused if its jid is further in the future than this.
const FUTURE_LIMIT: i64 = 86_400;

/// Append-only job files below one `cachedir`.
#[derive(Debug)]
pub struct JobLog {
    pub(super) dir: PathBuf,
    marker_file: PathBuf,
    marker: OnceLock<Marker>,
    keep: u64,
    stock: Option<StockLayout>,
    /// Jobs that a stock master stored before.
    legacy: Option<StockLayout>,
    swept: std::sync::atomic::AtomicI64,
    segments: shared_segment::Writer,
}

/// Seconds between searches for old jobs of a stock master, each of which reads its whole tree.
const SWEEP_INTERVAL: i64 = 3600;

impl JobLog {
    /// Jobs below `cachedir`, kept for `keep` seconds. With `stock`, the load of each job is also written where the stock
    /// CLI waits for it.
    pub fn new(cachedir: &Path, keep: u64, stock: Option<StockLayout>) -> JobLog {
        JobLog {
            dir: cachedir.join("joblog"),
            marker_file: cachedir.join(".joblog-marker"),
            marker: OnceLock::new(),
            keep,
            stock,
            legacy: None,
            swept: std::sync::atomic::AtomicI64::new(0),
            segments: shared_segment::Writer::default(),
        }
    }

    /// Also reads jobs of a stock master, and removes them when they are old.
    #[must_use]
    pub fn with_legacy(mut self, layout: StockLayout) -> JobLog {
        self.legacy = Some(layout);
        self
    }

    /// A job from the job log, ignoring jobs of a stock master; `None` if it is not there.
    pub(super) fn get_logged(&self, jid: &Jid) -> io::Result<Option<StoredJob>> {
        let bytes = self.read(jid, 0)?;
        Ok(bytes.map(|bytes| assemble(&bytes, self.marker())))
    }

    pub(super) fn slice_name(jid: &Jid) -> &str {
        &jid.as_str()[..SLICE_DIGITS]
    }

    fn slice(&self, jid: &Jid) -> PathBuf {
        self.dir.join(Self::slice_name(jid))
    }

    pub(super) fn path(&self, jid: &Jid) -> PathBuf {
        self.slice(jid).join(jid.as_str())
    }

    /// Records of a job from byte `from` on: those in a shared file, then those in its own. `None` if it has neither.
    pub(super) fn read(&self, jid: &Jid, from: u64) -> io::Result<Option<Vec<u8>>> {
        let shared = shared_segment::find(&self.slice(jid), jid)?;
        let behind = from.saturating_sub(shared.as_ref().map_or(0, |s| s.len() as u64));
        let own = match File::open(self.path(jid)) {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.seek(SeekFrom::Start(behind))?;
                file.read_to_end(&mut bytes)?;
                Some(bytes)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let Some(mut bytes) = shared else {
            return Ok(own);
        };
        bytes.drain(..bytes.len().min(usize::try_from(from).unwrap_or(usize::MAX)));
        bytes.extend(own.unwrap_or_default());
        Ok(Some(bytes))
    }

    /// Jobs of a slice, sorted.
    pub(super) fn jids(&self, slice: &str) -> io::Result<Vec<Jid>> {
        let dir = self.dir.join(slice);
        let mut out = shared_segment::jids(&dir)?;
        out.extend(
            names(&dir)?
                .iter()
                .filter_map(|name| name.parse::<Jid>().ok()),
        );
        out.sort_unstable();
        out.dedup();
        Ok(out)
    }

    fn record(&self, out: &mut Vec<u8>, kind: u8, load: &Map) -> io::Result<()> {
        format::write(out, self.own_marker()?, kind, load)
    }

    /// The marker of this master's records; `None` if it has none yet.
    pub(super) fn marker(&self) -> Option<Marker> {
        if let Some(known) = self.marker.get() {
            return Some(*known);
        }
        let mut marker = Marker::default();
        let mut file = open_no_follow(&self.marker_file).ok()?;
        file.read_exact(&mut marker).ok()?;
        Some(*self.marker.get_or_init(|| marker))
    }

    /// The marker, which is created if it is missing.
    fn own_marker(&self) -> io::Result<Marker> {
        if let Some(marker) = self.marker() {
            return Ok(marker);
        }
        let mut marker = Marker::default();
        OsRng
            .try_fill_bytes(&mut marker)
            .map_err(io::Error::other)?;
        if let Some(dir) = self.marker_file.parent() {
            make_dir(dir, 0o755)?;
        }
        match write_new(&self.marker_file, &marker, 0o600) {
            // Another process was faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        self.marker().ok_or_else(|| {
            let name = self.marker_file.display();
            io::Error::other(format!("{name} cannot be read; it has 8 bytes"))
        })
    }

    /// Appends whole records.
    fn append(&self, jid: &Jid, create: bool, records: &[u8]) -> io::Result<()> {
        let path = self.path(jid);
        let open = |create: bool| {
            OpenOptions::new()
                .append(true)
                .create(create)
                .mode(0o600)
                .open(&path)
        };
        let mut file = match open(create) {
            Err(e) if create && e.kind() == io::ErrorKind::NotFound => {
                make_dir(&self.slice(jid), 0o700)?;
                open(true)?
            }
            other => other?,
        };
        write_whole(&mut file, records, &path)
    }

    /// Stores returns of jobs that minions started: one write for each run of ascending jids within a slice.
    fn save_starting_returns(&self, returns: &[Returned<'_>], outcomes: &mut [io::Result<()>]) {
        let begun: Vec<usize> = (0..returns.len())
            .filter(|n| returns[*n].starts_job)
            .collect();
        let together = |a: &usize, b: &usize| {
            let (a, b) = (returns[*a].jid, returns[*b].jid);
            a < b && Self::slice_name(a) == Self::slice_name(b)
        };
        let mut records = Vec::new();
        for run in begun.chunk_by(together) {
            records.clear();
            let mut jobs = Vec::with_capacity(run.len());
            for n in run {
                let one = &returns[*n];
                let from = records.len();
                outcomes[*n] = self.record(&mut records, STARTING_RETURN, one.load);
                if outcomes[*n].is_err() {
                    continue;
                }
                if shared_segment::fits(one.jid) {
                    jobs.push((one.jid, records.len()));
                    continue;
                }
                outcomes[*n] = self.append(one.jid, true, &records[from..]);
                records.truncate(from);
            }
            let Some((jid, _)) = jobs.first() else {
                continue;
            };
            if let Err(e) = self.segments.append(&self.slice(jid), &jobs, &records) {
                for n in run
                    .iter()
                    .filter(|n| shared_segment::fits(returns[**n].jid))
                {
                    outcomes[*n] = Err(clone_error(&e));
                }
            }
        }
    }

    /// Appends records of returns. If the job was not published here, its file is created.
    fn append_returns(&self, jid: &Jid, records: &[u8]) -> io::Result<()> {
        match self.append(jid, false, records) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.check_unknown(jid)?;
                self.append(jid, true, records)
            }
            other => other,
        }
    }
}

/// A copy of an error, for another return.
fn clone_error(e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), e.to_string())
}

/// The offset of the end of the last intact record.
pub(super) fn intact_end(bytes: &[u8], marker: Option<Marker>) -> usize {
    records(bytes, marker).last().map_or(0, |record| record.end)
}

pub(super) fn assemble(bytes: &[u8], marker: Option<Marker>) -> StoredJob {
    let mut job = StoredJob::default();
    let mut seen = HashSet::new();
    let mut heads = 0;
    for record in records(bytes, marker) {
        let kind = record.kind;
        let Ok(Value::Map(mut map)) = msgpack::decode(record.payload) else {
            continue;
        };
        if kind == LOAD {
            let list = |m: &Map, k: &str| m.get(k).map(Value::str_list).unwrap_or_default();
            heads += 1;
            job.minions.extend(list(&map, "minions"));
            job.missing.extend(list(&map, "missing"));
            job.load = map
                .remove("load")
                .and_then(Value::into_map)
                .unwrap_or_default();
            continue;
        }
        let Some(id) = map.str("id").map(str::to_owned) else {
            continue;
        };
        if kind == STARTING_RETURN {
            job.minions = vec![id.clone()];
            job.load = map.clone();
        }
        if seen.insert(id.clone()) {
            job.returns.push(StoredReturn { id, load: map });
        }
    }
    if heads > 1 {
        unite(&mut job.minions);
        unite(&mut job.missing);
    }
    job
}

impl JobReader for JobLog {
    fn get(&self, jid: &Jid) -> io::Result<Option<StoredJob>> {
        match (self.read(jid, 0)?, &self.legacy) {
            (Some(bytes), _) => Ok(Some(assemble(&bytes, self.marker()))),
            (None, Some(legacy)) => legacy.get(jid),
            (None, None) => Ok(None),
        }
    }

    fn load(&self, jid: &Jid) -> io::Result<Option<Map>> {
        match read_head(&self.path(jid))? {
            Some(head) if !head.load.0.is_empty() => Ok(Some(head.load)),
            _ => Ok(self.get(jid)?.map(|job| job.load)),
        }
    }
}

impl JobStore for JobLog {
    fn save_load(
        &self,
        jid: &Jid,
        load: &Map,
        minions: &[String],
        missing: &[String],
    ) -> io::Result<()> {
        let mut load = load.clone();
        load.remove("key");
        if let Some(stock) = &self.stock {
            stock.save_load(jid, &load, minions)?;
        }
        let mut records = Vec::new();
        let head = halite_wire::map! {
            "load" => load, "minions" => id_list(minions), "missing" => id_list(missing),
        };
        format::write(&mut records, self.own_marker()?, LOAD, &head)?;
        self.append(jid, true, &records)
    }

    fn save_returns(&self, returns: &[Returned<'_>]) -> Vec<io::Result<()>> {
        let mut outcomes: Vec<io::Result<()>> = Vec::with_capacity(returns.len());
        outcomes.resize_with(returns.len(), || Ok(()));
        self.save_starting_returns(returns, &mut outcomes);
        let mut done: Vec<&Jid> = Vec::new();
        let mut records = Vec::new();
        for (
            first,
            Returned {
                jid, starts_job, ..
            },
        ) in returns.iter().enumerate()
        {
            if *starts_job || done.contains(jid) {
                continue;
            }
            done.push(jid);
            records.clear();
            let of_job = || {
                let same = |n: &usize| returns[*n].jid == *jid && !returns[*n].starts_job;
                (first..returns.len()).filter(same)
            };
            for n in of_job() {
                outcomes[n] = self.record(&mut records, RETURN, returns[n].load);
            }
            if !records.is_empty()
                && let Err(e) = self.append_returns(jid, &records)
            {
                of_job().for_each(|n| outcomes[n] = Err(clone_error(&e)));
            }
        }
        outcomes
    }

    fn list(&self) -> io::Result<Vec<(Jid, StoredJob)>> {
        let mut out = Vec::new();
        for slice in names(&self.dir)? {
            let dir = self.dir.join(&slice);
            let mut heads = BTreeMap::new();
            for name in names(&dir)? {
                let Ok(jid) = name.parse::<Jid>() else {
                    continue;
                };
                if let Some(head) = read_head(&self.path(&jid))? {
                    heads.insert(jid, head);
                }
            }
            // The records in a job's own file come after these.
            shared_segment::each(&dir, &mut |jid, bytes| {
                let head = records(bytes, None).first().map_or(0, |r| r.end);
                heads.insert(jid, assemble(&bytes[..head], None));
            })?;
            out.extend(heads);
        }
        let Some(legacy) = &self.legacy else {
            return Ok(out);
        };
        let own: HashSet<Jid> = out.iter().map(|(jid, _)| jid.clone()).collect();
        let more = legacy.list(&|jid| own.contains(jid))?;
        if !more.is_empty() {
            out.extend(more);
            out.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Ok(out)
    }

    fn expire(&self, now: i64, keep: u64) -> io::Result<u64> {
        let Ok(keep) = i64::try_from(keep) else {
            return Ok(0);
        };
        // Only whole slices are removed, so a job may live up to ten minutes longer.
        let oldest = Jid::from_time(now.saturating_sub(keep).max(0), 0);
        let limit = &oldest.as_str()[..SLICE_DIGITS];
        let mut removed = 0;
        for slice in names(&self.dir)? {
            if slice.as_str() >= limit {
                break;
            }
            let jids = self.jids(&slice)?;
            if let Some(stock) = &self.stock {
                jids.iter().try_for_each(|jid| stock.remove(jid))?;
            }
            removed += jids.len() as u64;
            std::fs::remove_dir_all(self.dir.join(&slice))?;
        }
        Ok(removed + self.sweep(now, &oldest)?)
    }

    fn changed_since(&self, since: SystemTime) -> io::Result<Vec<Jid>> {
        self.changed(since)
    }

    fn started_since(&self, since: i64) -> io::Result<Vec<Jid>> {
        self.started(since)
    }

    fn updates(&self, jid: &Jid, cursor: u64) -> io::Result<Option<JobUpdate>> {
        self.read_from(jid, cursor)
    }
}

impl JobLog {
    /// Removes old jobs of a stock master, at most once per [`SWEEP_INTERVAL`].
    fn sweep(&self, now: i64, oldest: &Jid) -> io::Result<u64> {
        use std::sync::atomic::Ordering::Relaxed;
        let Some(legacy) = &self.legacy else {
            return Ok(0);
        };
        if now - self.swept.load(Relaxed) < SWEEP_INTERVAL {
            return Ok(0);
        }
        self.swept.store(now, Relaxed);
        legacy.expire(oldest, &|jid| {
            self.path(jid).exists()
                || shared_segment::find(&self.slice(jid), jid).is_ok_and(|s| s.is_some())
        })
    }

    /// Checks that a return for a job that was not published here may create a file: its jid
    /// must be within the time that jobs are kept, or the file would never be removed.
    fn check_unknown(&self, jid: &Jid) -> io::Result<()> {
        let now = unix_now_i64();
        let keep = i64::try_from(self.keep).unwrap_or(i64::MAX);
        let oldest = Jid::from_time(now.saturating_sub(keep).max(0), 0);
        let newest = Jid::from_time(now + FUTURE_LIMIT, 0);
        if jid.as_str() < oldest.as_str() || jid.as_str() > newest.as_str() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("jid {jid} is unknown and outside the time for which jobs are kept"),
            ));
        }
        Ok(())
    }
}

/// The first record of a job: its load, or a return if a minion started the job.
fn read_head(path: &Path) -> io::Result<Option<StoredJob>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut header = [0u8; HEADER];
    if file.read_exact(&mut header).is_err() {
        return Ok(None);
    }
    let mut bytes = header.to_vec();
    let rest = format::payload_length(&header);
    Read::take(&mut file, rest.into()).read_to_end(&mut bytes)?;
    Ok(Some(assemble(&bytes, None)))
}

#[cfg(test)]
mod tests;
