//! The default engine: an append-only file per job.
//!
//! `cachedir/joblog/<first 11 digits of the jid>/<jid>`; a file is a sequence of records
//! `length u32 LE | kind u8 | crc32 u32 LE | msgpack`. The length counts the msgpack alone,
//! the sum covers kind and msgpack. A torn record at the end (disk full, power cut) is
//! skipped by readers; `O_APPEND` keeps writers of several processes apart.

use super::{JobStore, StockLayout, StoredJob, StoredReturn, id_list};
use crate::sys::daemon::make_dir;
use crate::wire::ids::{Jid, MinionId};
use crate::wire::msgpack::{self, Profile};
use crate::wire::{Map, Value};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Digits of a jid that name its directory: `YYYYMMDDhhm`, that is ten minutes.
const SLICE_DIGITS: usize = 11;
/// A return for a job nobody published here is kept only if its jid is not this far ahead of now.
const FUTURE_LIMIT: i64 = 86_400;
const HEADER: usize = 9;
const LOAD: u8 = b'L';
const RETURN: u8 = b'R';

/// Append-only job files below one `cachedir`.
#[derive(Debug)]
pub struct JobLog {
    pub(super) dir: PathBuf,
    keep: u64,
    stock: Option<StockLayout>,
    /// Jobs that a stock master kept before.
    before: Option<StockLayout>,
    swept: std::sync::atomic::AtomicI64,
}

/// Seconds between looks for old jobs of a stock master: each reads its whole tree.
const SWEEP: i64 = 3600;

impl JobLog {
    /// Jobs below `cachedir`, kept for `keep` seconds. With `stock`, what stock tools read
    /// from disk is written as well.
    pub fn new(cachedir: &Path, keep: u64, stock: Option<StockLayout>) -> JobLog {
        JobLog {
            dir: cachedir.join("joblog"),
            keep,
            stock,
            before: None,
            swept: std::sync::atomic::AtomicI64::new(0),
        }
    }

    /// Reads jobs of a stock master as well, and removes them when they are old.
    #[must_use]
    pub fn with_jobs_before(mut self, layout: StockLayout) -> JobLog {
        self.before = Some(layout);
        self
    }

    pub(super) fn slice_name<'a>(&self, jid: &'a Jid) -> &'a str {
        &jid.as_str()[..SLICE_DIGITS]
    }

    fn slice(&self, jid: &Jid) -> PathBuf {
        self.dir.join(self.slice_name(jid))
    }

    pub(super) fn path(&self, jid: &Jid) -> PathBuf {
        self.slice(jid).join(jid.as_str())
    }

    fn append(&self, jid: &Jid, create: bool, kind: u8, payload: &[u8]) -> io::Result<()> {
        let record = record(kind, payload)?;
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
        // One write call, so that O_APPEND keeps records of concurrent writers whole.
        let written = file.write(&record)?;
        if written == record.len() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "only {written} of {} bytes of a job record could be written to {}; is the disk full?",
            record.len(),
            path.display()
        )))
    }
}

fn record(kind: u8, payload: &[u8]) -> io::Result<Vec<u8>> {
    let len = u32::try_from(payload.len())
        .map_err(|_| io::Error::other("a job record is limited to 4 GiB"))?;
    let mut out = Vec::with_capacity(HEADER + payload.len());
    out.extend_from_slice(&len.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&checksum(kind, payload).to_le_bytes());
    out.extend_from_slice(payload);
    Ok(out)
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(payload);
    sum.finalize()
}

/// Splits a file into its intact records, each with the octet behind it. After a torn record
/// the search goes on byte by byte, so that whole records behind it are not lost.
fn records(all: &[u8]) -> Vec<(u8, &[u8], usize)> {
    let mut out = Vec::new();
    let mut at = 0;
    while all.len() - at >= HEADER {
        match intact(&all[at..]) {
            Some((kind, payload, used)) => {
                at += used;
                out.push((kind, payload, at));
            }
            None => at += 1,
        }
    }
    out
}

/// The octet behind the last intact record.
pub(super) fn intact_end(bytes: &[u8]) -> usize {
    records(bytes).last().map_or(0, |(_, _, end)| *end)
}

fn intact(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let len = u32::from_le_bytes(bytes[..4].try_into().ok()?) as usize;
    let kind = bytes[4];
    let sum = u32::from_le_bytes(bytes[5..HEADER].try_into().ok()?);
    let payload = bytes.get(HEADER..HEADER.checked_add(len)?)?;
    (matches!(kind, LOAD | RETURN) && checksum(kind, payload) == sum).then_some((
        kind,
        payload,
        HEADER + len,
    ))
}

pub(super) fn assemble(bytes: &[u8]) -> StoredJob {
    let mut job = StoredJob::default();
    let mut seen = HashSet::new();
    for (kind, payload, _) in records(bytes) {
        let Ok(Value::Map(mut map)) = msgpack::decode(payload) else {
            continue;
        };
        if kind == LOAD {
            let list = |m: &Map, k: &str| m.get(k).map(Value::str_list).unwrap_or_default();
            job.minions = list(&map, "minions");
            job.missing = list(&map, "missing");
            job.load = map
                .remove("load")
                .and_then(Value::into_map)
                .unwrap_or_default();
            continue;
        }
        let Some(id) = map.str("id").map(str::to_owned) else {
            continue;
        };
        if seen.insert(id.clone()) {
            job.returns.push(StoredReturn { id, load: map });
        }
    }
    job
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
        let map = crate::map! {
            "load" => load, "minions" => id_list(minions), "missing" => id_list(missing),
        };
        self.append(jid, true, LOAD, &msgpack::encode_map(&map, Profile::Local))
    }

    fn save_return(&self, jid: &Jid, id: &MinionId, load: &Map) -> io::Result<()> {
        let payload = msgpack::encode_map(load, Profile::Local);
        match self.append(jid, false, RETURN, &payload) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.check_unknown(jid)?;
                self.append(jid, true, RETURN, &payload)?;
            }
            other => other?,
        }
        if let Some(stock) = &self.stock {
            stock.save_return(jid, id, load)?;
        }
        Ok(())
    }

    fn get(&self, jid: &Jid) -> io::Result<Option<StoredJob>> {
        match std::fs::read(self.path(jid)) {
            Ok(bytes) => Ok(Some(assemble(&bytes))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => match &self.before {
                Some(before) => before.get(jid),
                None => Ok(None),
            },
            Err(e) => Err(e),
        }
    }

    fn list(&self) -> io::Result<Vec<(Jid, StoredJob)>> {
        let mut out = Vec::new();
        for slice in names(&self.dir)? {
            for name in names(&self.dir.join(slice))? {
                let Ok(jid) = name.parse::<Jid>() else {
                    continue;
                };
                if let Some(head) = read_head(&self.path(&jid))? {
                    out.push((jid, head));
                }
            }
        }
        let Some(before) = &self.before else {
            return Ok(out);
        };
        let own: HashSet<Jid> = out.iter().map(|(jid, _)| jid.clone()).collect();
        let more = before.list(&|jid| own.contains(jid))?;
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
        // The newest jid of a slice is a whole slice older than the slice of the limit.
        let oldest = Jid::from_time(now.saturating_sub(keep).max(0), 0);
        let limit = &oldest.as_str()[..SLICE_DIGITS];
        let mut removed = 0;
        for slice in names(&self.dir)? {
            if slice.as_str() >= limit {
                break;
            }
            let dir = self.dir.join(&slice);
            for name in names(&dir)? {
                if let (Some(stock), Ok(jid)) = (&self.stock, name.parse()) {
                    stock.remove(&jid)?;
                }
                removed += 1;
            }
            std::fs::remove_dir_all(dir)?;
        }
        Ok(removed + self.sweep(now, &oldest)?)
    }
}

impl JobLog {
    /// Removes old jobs of a stock master, once in a while.
    fn sweep(&self, now: i64, oldest: &Jid) -> io::Result<u64> {
        use std::sync::atomic::Ordering::Relaxed;
        let Some(before) = &self.before else {
            return Ok(0);
        };
        if now - self.swept.load(Relaxed) < SWEEP {
            return Ok(0);
        }
        self.swept.store(now, Relaxed);
        before.expire(oldest, &|jid| self.path(jid).exists())
    }

    /// Whether a return for a job that was not published here may begin a file: its jid
    /// must lie in the time that is kept, or it would be there for ever.
    fn check_unknown(&self, jid: &Jid) -> io::Result<()> {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_secs() as i64);
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

/// Names in a directory, sorted; none if it does not exist.
pub(super) fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut out = Vec::new();
    for entry in entries {
        if let Ok(name) = entry?.file_name().into_string() {
            out.push(name);
        }
    }
    out.sort_unstable();
    Ok(out)
}

/// The first record of a job, which is its load (or, for a job that a minion began, a return).
fn read_head(path: &Path) -> io::Result<Option<StoredJob>> {
    use std::io::Read;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut header = [0u8; HEADER];
    if file.read_exact(&mut header).is_err() {
        return Ok(None);
    }
    let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let mut bytes = header.to_vec();
    Read::take(&mut file, len.into()).read_to_end(&mut bytes)?;
    Ok(Some(assemble(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(dir: &Path) -> JobLog {
        JobLog::new(dir, 3600, None)
    }

    fn now() -> i64 {
        jiff::Timestamp::now().as_second()
    }

    fn ret(id: &str, n: i64) -> Map {
        crate::map! {"id" => id, "return" => n, "retcode" => 0, "success" => true}
    }

    #[test]
    fn jobs_come_back_whole() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let jid = Jid::from_time(now(), 5);
        let load = crate::map! {"fun" => "test.ping", "tgt" => "*", "key" => "secret"};
        store
            .save_load(&jid, &load, &["a".into(), "b".into()], &["x".into()])
            .unwrap();
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        store.save_return(&jid, &a, &ret("a", 1)).unwrap();
        store.save_return(&jid, &b, &ret("b", 2)).unwrap();
        store.save_return(&jid, &a, &ret("a", 3)).unwrap();
        let job = store.get(&jid).unwrap().unwrap();
        assert_eq!(job.load.str("fun"), Some("test.ping"));
        assert!(!job.load.contains("key"), "the user's key is never stored");
        assert_eq!((job.minions.len(), job.missing.len()), (2, 1));
        let got: Vec<_> = job
            .returns
            .iter()
            .map(|r| (r.id.as_str(), r.load.int("return")))
            .collect();
        assert_eq!(
            got,
            [("a", Some(1)), ("b", Some(2))],
            "the first return of a minion counts"
        );
        assert_eq!(store.list().unwrap().len(), 1);
    }

    #[test]
    fn a_torn_record_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let jid = Jid::from_time(now(), 5);
        store.save_load(&jid, &Map::new(), &[], &[]).unwrap();
        let torn = &record(RETURN, &[7; 40]).unwrap()[..20];
        OpenOptions::new()
            .append(true)
            .open(store.path(&jid))
            .unwrap()
            .write_all(torn)
            .unwrap();
        store
            .save_return(&jid, &"a".parse().unwrap(), &ret("a", 1))
            .unwrap();
        assert_eq!(store.get(&jid).unwrap().unwrap().returns.len(), 1);
    }

    #[test]
    fn age_removes_whole_slices() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let now = now();
        for age in [0, 1200, 7200] {
            store
                .save_load(&Jid::from_time(now - age, 0), &Map::new(), &[], &[])
                .unwrap();
        }
        assert_eq!(store.expire(now, 3600).unwrap(), 1);
        assert_eq!(store.list().unwrap().len(), 2);
    }

    #[test]
    fn a_strange_jid_leaves_no_trace() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let far: Jid = "29991231235959000000".parse().unwrap();
        let error = store
            .save_return(&far, &"a".parse().unwrap(), &ret("a", 1))
            .unwrap_err();
        assert!(error.to_string().contains("outside the time"), "{error}");
        assert!(store.list().unwrap().is_empty());
        let recent = Jid::from_time(now(), 1);
        store
            .save_return(&recent, &"a".parse().unwrap(), &ret("a", 1))
            .unwrap();
        assert_eq!(store.get(&recent).unwrap().unwrap().returns.len(), 1);
    }

    #[test]
    fn many_writers_do_not_tear() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        let jid = Jid::from_time(now(), 9);
        store.save_load(&jid, &Map::new(), &[], &[]).unwrap();
        std::thread::scope(|s| {
            for t in 0..4 {
                let (store, jid) = (&store, &jid);
                s.spawn(move || {
                    for i in 0..250 {
                        let id = format!("m{t}-{i}");
                        store
                            .save_return(jid, &id.parse().unwrap(), &ret(&id, i))
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(store.get(&jid).unwrap().unwrap().returns.len(), 1000);
    }
}
