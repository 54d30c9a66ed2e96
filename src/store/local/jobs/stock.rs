//! The files of stock Salt's `local_cache` that its own tools read from disk: the `salt`
//! CLI stops waiting when it does not find `.load.p` (reference `salt-local.md` 3.3, 5.1). The job log writes this file
//! before a job is published; returns are copied from the log.

use super::super::{read_map, read_value};
use crate::jobs::{JobUpdate, StoredJob, StoredReturn, id_list, stored_part, unite};
use halite_crypto::HashType;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::safe_open::read_regular;
use halite_wire::ids::{Jid, MinionId};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the record of a batch in the directory of its job.
const BATCH: &str = ".batch.p";

/// Writer of the stock layout below `cachedir/jobs`.
#[derive(Clone, Debug)]
pub struct StockLayout {
    dir: PathBuf,
    hash: HashType,
}

impl StockLayout {
    /// Files below `cachedir`.
    pub fn new(cachedir: &Path, hash: HashType) -> StockLayout {
        StockLayout {
            dir: cachedir.join("jobs"),
            hash,
        }
    }

    fn path(&self, jid: &Jid) -> PathBuf {
        let hex = self.hash.hex(jid.as_str().as_bytes());
        self.dir.join(&hex[..2]).join(&hex[2..])
    }

    /// Writes the load of a job and who it was sent to, beside those that are there.
    pub(super) fn save_load(&self, jid: &Jid, load: &Map, minions: &[String]) -> io::Result<()> {
        let dir = self.path(jid);
        make_dir(&dir, 0o755)?;
        let list = dir.join(".minions.p");
        let mut all = read_value(&list).unwrap_or_default().str_list();
        all.extend_from_slice(minions);
        unite(&mut all);
        std::fs::write(dir.join("jid"), jid.as_str())?;
        put(&dir.join(".load.p"), &Value::Map(load.clone()))?;
        put(&list, &id_list(&all))
    }

    /// Copies what was added to a job: returns, and the load of a job that a minion started. Files that are there
    /// stay.
    ///
    /// # Errors
    /// Those of the file system, and `InvalidData` for an id that cannot be a directory.
    pub fn add(&self, news: &JobUpdate) -> io::Result<()> {
        if let Some(load) = &news.load
            && !self.path(&news.jid).join("jid").exists()
        {
            let minions: Vec<String> = news.returns.iter().map(|r| r.id.clone()).collect();
            self.save_load(&news.jid, load, &minions)?;
        }
        for one in &news.returns {
            let id = one.id.parse();
            let id = id.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("{e}")))?;
            self.save_return(&news.jid, &id, &one.load)?;
        }
        Ok(())
    }

    pub(super) fn save_return(&self, jid: &Jid, id: &MinionId, load: &Map) -> io::Result<()> {
        let job = self.path(jid);
        let dir = job.join(id.as_str());
        if dir.exists() {
            return Ok(());
        }
        make_dir(&dir, 0o755)?;
        if !job.join("jid").exists() {
            // A job that the minion started: its return serves as the load.
            std::fs::write(job.join("jid"), jid.as_str())?;
            put(&job.join(".load.p"), &Value::Map(load.clone()))?;
        }
        put(&dir.join("return.p"), &Value::Map(stored_part(load)))?;
        match load.get("out") {
            Some(out) if !out.is_nil() => put(&dir.join("out.p"), out),
            _ => Ok(()),
        }
    }

    /// The record of a batch (`salt/utils/batch_state.py`); `None` if there is none, or it cannot be read.
    pub fn batch(&self, jid: &Jid) -> Option<Map> {
        read_map(&self.path(jid).join(BATCH))
    }

    /// Whether there is a record of a batch.
    pub fn has_batch(&self, jid: &Jid) -> bool {
        self.path(jid).join(BATCH).exists()
    }

    /// Writes the record of a batch.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save_batch(&self, jid: &Jid, record: &Map) -> io::Result<()> {
        let dir = self.path(jid);
        if !dir.join("jid").exists() {
            // The first part is not published yet. Without this file, it would never expire.
            make_dir(&dir, 0o755)?;
            std::fs::write(dir.join("jid"), jid.as_str())?;
        }
        put(&dir.join(BATCH), &Value::Map(record.clone()))
    }

    /// A job that stock Salt stored (`local_cache get_load`, `get_jid`); `None` if it stored none.
    pub(super) fn get(&self, jid: &Jid) -> io::Result<Option<StoredJob>> {
        read_job(&self.path(jid))
    }

    /// Jobs that stock Salt stored, loads only, except those for which `known` is true. Damaged
    /// directories are skipped.
    pub(super) fn list(&self, known: &dyn Fn(&Jid) -> bool) -> io::Result<Vec<(Jid, StoredJob)>> {
        let mut out = Vec::new();
        for (jid, dir) in self.jobs()? {
            if known(&jid) {
                continue;
            }
            if let Some(load) = read_map(&dir.join(".load.p")) {
                let load = without_key(load);
                out.push((
                    jid,
                    StoredJob {
                        load,
                        ..StoredJob::default()
                    },
                ));
            }
        }
        Ok(out)
    }

    /// All jobs, in no particular order. Damaged directories are skipped.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn jids(&self) -> io::Result<Vec<Jid>> {
        Ok(self.jobs()?.into_iter().map(|(jid, _)| jid).collect())
    }

    /// Every directory with a `jid` file.
    fn jobs(&self) -> io::Result<Vec<(Jid, PathBuf)>> {
        let mut out = Vec::new();
        for top in entries(&self.dir)? {
            for dir in entries(&top)? {
                let jid = read_regular(&dir.join("jid"), 256).unwrap_or_default();
                if let Ok(jid) = String::from_utf8_lossy(&jid).trim_end().parse() {
                    out.push((jid, dir));
                }
            }
        }
        Ok(out)
    }

    /// Removes jobs older than `oldest`, except those for which `known` is true.
    pub(super) fn expire(&self, oldest: &Jid, known: &dyn Fn(&Jid) -> bool) -> io::Result<u64> {
        let mut removed = 0;
        for (jid, dir) in self.jobs()? {
            if jid.as_str() < oldest.as_str() && !known(&jid) {
                std::fs::remove_dir_all(&dir)?;
                removed += 1;
                if let Some(top) = dir.parent() {
                    // Fails most of the time, since it is not empty.
                    let _ = std::fs::remove_dir(top);
                }
            }
        }
        Ok(removed)
    }

    pub(super) fn remove(&self, jid: &Jid) -> io::Result<()> {
        match std::fs::remove_dir_all(self.path(jid)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

fn put(path: &Path, value: &Value) -> io::Result<()> {
    write_atomic(path, &msgpack::encode(value, Profile::Local), 0o644)
}

/// Directories in a directory; empty if it does not exist.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            out.push(entry.path());
        }
    }
    Ok(out)
}

fn without_key(mut load: Map) -> Map {
    load.remove("key");
    load
}

fn read_job(dir: &Path) -> io::Result<Option<StoredJob>> {
    let load = read_map(&dir.join(".load.p"));
    if load.is_none() && !dir.is_dir() {
        return Ok(None);
    }
    let mut job = StoredJob {
        load: without_key(load.unwrap_or_default()),
        ..StoredJob::default()
    };
    let mut names: Vec<_> = std::fs::read_dir(dir)?.flatten().collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    for entry in names {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // `.minions.p`, and `.minions.<syndic>.p` of lower masters.
        if name.starts_with(".minions.") && name.ends_with(".p") {
            job.minions
                .extend(read_value(&entry.path()).unwrap_or_default().str_list());
        }
        if let Some(load) = name
            .parse::<MinionId>()
            .ok()
            .and_then(|id| read_return(dir, &id))
        {
            job.returns.push(StoredReturn { id: name, load });
        }
    }
    job.minions.sort_unstable();
    job.minions.dedup();
    let empty = job.load.is_empty() && job.returns.is_empty();
    Ok((!empty).then_some(job))
}

/// The return from `return.p`, which in its older format is the bare return, and `out.p`.
fn read_return(job: &Path, id: &MinionId) -> Option<Map> {
    let dir = job.join(id.as_str());
    let mut load = match read_value(&dir.join("return.p"))? {
        Value::Map(map) if map.contains("return") => map,
        bare => halite_wire::map! {"return" => bare},
    };
    load.set("id", id.as_str());
    if let Some(out) = read_value(&dir.join("out.p")) {
        load.set("out", out);
    }
    Some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_stock_master_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let layout = StockLayout::new(dir.path(), HashType::Sha256);
        let jid: Jid = "20261121092637195592".parse().unwrap();
        assert!(layout.get(&jid).unwrap().is_none());
        assert!(layout.list(&|_| false).unwrap().is_empty());
        let load = halite_wire::map! {"fun" => "test.ping", "tgt" => "*", "key" => "secret"};
        layout
            .save_load(&jid, &load, &["b".into(), "a".into()])
            .unwrap();
        let ret = halite_wire::map! {"return" => true, "retcode" => 0, "success" => true, "out" => "nested", "cmd" => "_return"};
        layout
            .save_return(&jid, &"a".parse().unwrap(), &ret)
            .unwrap();
        let old = layout.path(&jid).join("b");
        make_dir(&old, 0o755).unwrap();
        put(&old.join("return.p"), &Value::Int(5)).unwrap();
        let job = layout.get(&jid).unwrap().unwrap();
        assert_eq!(job.minions, ["a", "b"]);
        assert_eq!(job.load.str("fun"), Some("test.ping"));
        assert!(!job.load.contains("key"));
        assert_eq!(job.returns[0].load.str("out"), Some("nested"));
        assert_eq!(job.returns[1].load.int("return"), Some(5));
        assert_eq!(layout.list(&|_| false).unwrap().len(), 1);
        assert!(layout.list(&|j| *j == jid).unwrap().is_empty());
        let later: Jid = "20261122000000000000".parse().unwrap();
        assert_eq!(layout.expire(&later, &|_| true).unwrap(), 0);
        assert_eq!(layout.expire(&jid, &|_| false).unwrap(), 0);
        assert_eq!(layout.expire(&later, &|_| false).unwrap(), 1);
        assert!(layout.get(&jid).unwrap().is_none());
    }

    #[test]
    fn what_was_added_to_jobs_is_copied_once() {
        let dir = tempfile::tempdir().unwrap();
        let layout = StockLayout::new(dir.path(), HashType::Sha256);
        let published: Jid = "20261121092637195592".parse().unwrap();
        let own: Jid = "20261121092637195593".parse().unwrap();
        let returned = |id: &str| StoredReturn {
            id: id.into(),
            load: halite_wire::map! {"id" => id, "fun" => "test.ping", "return" => id},
        };
        let news = |jid: &Jid, load: Map, ids: &[&str]| JobUpdate {
            is_started_by_minion: false,
            jid: jid.clone(),
            load: Some(load),
            returns: ids.iter().map(|id| returned(id)).collect(),
            end: 0,
        };
        let load = halite_wire::map! {"fun" => "test.ping", "tgt" => "*"};
        let ids = ["a".to_owned(), "b".to_owned()];
        layout.save_load(&published, &load, &ids).unwrap();
        layout.add(&news(&published, load.clone(), &["a"])).unwrap();
        layout.add(&news(&published, load, &["a", "b"])).unwrap();
        let job = layout.get(&published).unwrap().unwrap();
        assert_eq!(job.minions, ids);
        let returns: Vec<_> = job.returns.iter().map(|r| r.load.str("return")).collect();
        assert_eq!(returns, [Some("a"), Some("b")]);

        // A job that a minion started.
        layout.add(&news(&own, returned("m").load, &["m"])).unwrap();
        let job = layout.get(&own).unwrap().unwrap();
        assert_eq!(
            (job.load.str("fun"), job.returns.len()),
            (Some("test.ping"), 1)
        );
        assert_eq!(job.minions, ["m"]);
        let why = layout.add(&news(&own, Map::new(), &["../m"])).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::InvalidData);
    }
}
