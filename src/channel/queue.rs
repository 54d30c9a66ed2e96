//! Jobs that wait for others to finish; they survive a restart of the minion:
//! `<cachedir>/queues/<master>/job_queue/queued_<microseconds>_<jid>.p`, msgpack of the publish load
//! (`salt/minion.py _queue_job`, `salt/utils/state.py job_queue_dir`).
//!
//! The file is removed before its job starts: a crash may lose a job, but never runs it twice.

use super::publication::Job;
use halite_config::paths::minion::cache;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::time::since_epoch;
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Largest job file, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// The queued jobs of one master.
#[derive(Clone, Debug)]
pub struct Queue {
    dir: PathBuf,
}

fn base(cachedir: &Path) -> PathBuf {
    cache::queues(cachedir)
}

/// Time and jid from a file name.
fn parse(name: &str) -> Option<(u128, Jid)> {
    let rest = name.strip_prefix("queued_")?.strip_suffix(".p")?;
    let (time, jid) = rest.split_once('_')?;
    Some((time.parse().ok()?, jid.parse().ok()?))
}

fn read(path: &Path) -> Option<Map> {
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_file() || meta.len() > MAX_FILE {
        return None;
    }
    msgpack::decode(&fs::read(path).ok()?).ok()?.into_map()
}

/// Files of a directory with their times and jids, oldest first.
fn files(dir: &Path) -> Vec<(u128, Jid, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<(u128, Jid, PathBuf)> = entries
        .filter_map(|entry| {
            let (time, jid) = parse(entry.file_name().to_str()?)?;
            Some((time, jid, entry.path()))
        })
        .collect();
    found.sort();
    found
}

impl Queue {
    /// The queue of a master, given its name in the option `master`.
    pub fn of(cachedir: &Path, master: &str) -> Queue {
        let safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = master
            .chars()
            .map(|c| if safe(c) { c } else { '_' })
            .collect();
        let name = match name.as_str() {
            "" | "." | ".." => "_default",
            name => name,
        };
        Queue {
            dir: base(cachedir).join(name).join("job_queue"),
        }
    }

    /// Stores a job; returns its file.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn store(&self, job: &Job) -> io::Result<PathBuf> {
        make_dir(&self.dir, 0o700)?;
        let micros = since_epoch().as_micros();
        let path = self.dir.join(format!("queued_{micros}_{}.p", job.jid));
        let packed = msgpack::encode_map(&job.load, Profile::Wire);
        write_atomic(&path, &packed, 0o600)?;
        Ok(path)
    }

    /// Jobs left by an earlier process, oldest first. Invalid files are removed.
    pub fn load(&self) -> Vec<(Job, PathBuf)> {
        let jobs = files(&self.dir).into_iter().filter_map(|(_, jid, path)| {
            let load = read(&path).filter(|load| load.contains("fun"));
            let Some(mut load) = load else {
                log::error!("{}: this is not a job; removing it", path.display());
                let _ = fs::remove_file(&path);
                return None;
            };
            load.set("jid", jid.as_str());
            Some((Job { jid, load }, path))
        });
        jobs.collect()
    }
}

/// The load of a queued job, with the fields that `saltutil.find_job` adds for such jobs.
pub fn find(cachedir: &Path, jid: &str) -> Option<Map> {
    let wanted: Jid = jid.parse().ok()?;
    let masters = fs::read_dir(base(cachedir)).ok()?.flatten();
    let mut all = masters.flat_map(|master| files(&master.path().join("job_queue")));
    let (_, _, path) = all.find(|(_, jid, _)| *jid == wanted)?;
    let mut load = read(&path)?;
    for (key, value) in [
        ("pid", Value::from(0)),
        ("queued", true.into()),
        ("queue_type", "job_queue".into()),
    ] {
        load.set(key, value);
    }
    Some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(jid: &str) -> Job {
        Job {
            jid: jid.parse().unwrap(),
            load: halite_wire::map! {"fun" => "test.ping", "jid" => jid, "arg" => Vec::<Value>::new()},
        }
    }

    #[test]
    fn jobs_are_kept_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let queue = Queue::of(dir.path(), "salt/../:4506");
        let jids = ["20261121120000000002", "20261121120000000001"];
        for jid in jids {
            let path = queue.store(&job(jid)).unwrap();
            let below = path.strip_prefix(dir.path()).unwrap().to_str().unwrap();
            assert!(below.starts_with("queues/salt_.._"), "{below}");
        }
        let bad = queue.dir.join("queued_5_20261121120000000003.p");
        fs::write(&bad, b"x").unwrap();
        fs::write(queue.dir.join("other"), b"x").unwrap();
        let kept = queue.load();
        assert_eq!(
            kept.iter().map(|(j, _)| j.jid.as_str()).collect::<Vec<_>>(),
            jids
        );
        assert!(!bad.exists());
        let found = find(dir.path(), jids[0]).unwrap();
        assert_eq!(
            (found.int("pid"), found.str("fun")),
            (Some(0), Some("test.ping"))
        );
        assert_eq!(found.get("queued"), Some(&true.into()));
        assert_eq!(find(dir.path(), "20261121120000000009"), None);
        assert_eq!(find(dir.path(), "../x"), None);
    }
}
