//! Records which returns an upper master has acknowledged, so that no restart, of the syndic or of a master,
//! loses or repeats a return.
//!
//! One small file per job and upper master, `cachedir/syndic/<master>/<jid>`: a line with the minion id for
//! each return that the upper master has. An empty file is a job of which nothing was forwarded yet.

use halite_sys::daemon::make_dir;
use halite_wire::ids::Jid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The records for one upper master.
#[derive(Debug)]
pub struct Forwarded {
    dir: PathBuf,
    jobs: BTreeMap<Jid, BTreeSet<String>>,
}

impl Forwarded {
    /// Reads the records of an earlier process.
    ///
    /// # Errors
    /// The directory is not usable.
    pub fn open(dir: &Path) -> io::Result<Forwarded> {
        make_dir(dir, 0o700)?;
        let mut jobs = BTreeMap::new();
        for entry in std::fs::read_dir(dir)?.flatten() {
            let name = entry.file_name();
            let Some(Ok(jid)) = name.to_str().map(str::parse::<Jid>) else {
                continue;
            };
            if !entry.file_type().is_ok_and(|t| t.is_file()) {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            // A truncated line is not an id; its return is forwarded again.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            let ids = whole.lines().map(str::to_owned).collect();
            jobs.insert(jid, ids);
        }
        Ok(Forwarded {
            dir: dir.to_owned(),
            jobs,
        })
    }

    /// Known jobs, oldest first.
    pub fn jobs(&self) -> Vec<Jid> {
        self.jobs.keys().cloned().collect()
    }

    /// Whether the job is known.
    pub fn knows(&self, jid: &Jid) -> bool {
        self.jobs.contains_key(jid)
    }

    /// Whether the upper master has this return.
    pub fn has(&self, jid: &Jid, id: &str) -> bool {
        self.jobs.get(jid).is_some_and(|ids| ids.contains(id))
    }

    /// Records a job, before any of its returns can arrive.
    ///
    /// # Errors
    /// The file is not writable.
    pub fn begin(&mut self, jid: &Jid) -> io::Result<()> {
        if self.jobs.contains_key(jid) {
            return Ok(());
        }
        // This process knows the job even if it cannot be recorded.
        self.jobs.insert(jid.clone(), BTreeSet::new());
        self.append(jid, "")
    }

    /// Records returns that the upper master has.
    ///
    /// # Errors
    /// The file is not writable; the returns would be forwarded again after a restart.
    pub fn record(&mut self, jid: &Jid, ids: &[String]) -> io::Result<()> {
        let known = self.jobs.entry(jid.clone()).or_default();
        let mut lines = String::new();
        for id in ids {
            if known.insert(id.clone()) {
                lines.push_str(id);
                lines.push('\n');
            }
        }
        self.append(jid, &lines)
    }

    /// Forgets a job; returns the ids whose returns the upper master has.
    pub fn take(&mut self, jid: &Jid) -> Vec<String> {
        let _ = std::fs::remove_file(self.dir.join(jid.as_str()));
        self.jobs
            .remove(jid)
            .unwrap_or_default()
            .into_iter()
            .collect()
    }

    fn append(&self, jid: &Jid, lines: &str) -> io::Result<()> {
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.dir.join(jid.as_str()))?
            .write_all(lines.as_bytes())
    }

    /// Forgets jobs without activity for `keep`.
    pub fn expire(&mut self, keep: Duration) {
        let dir = &self.dir;
        self.jobs.retain(|jid, _| {
            let path = dir.join(jid.as_str());
            let modified = std::fs::metadata(&path).and_then(|m| m.modified());
            let old = match modified {
                Ok(at) => at.elapsed().is_ok_and(|age| age > keep),
                Err(e) => e.kind() == io::ErrorKind::NotFound,
            };
            if old {
                let _ = std::fs::remove_file(&path);
            }
            !old
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_survives() {
        let dir = tempfile::tempdir().unwrap();
        let jid: Jid = "20261121120000000001".parse().unwrap();
        let mut forwarded = Forwarded::open(dir.path()).unwrap();
        forwarded.begin(&jid).unwrap();
        assert!(!forwarded.has(&jid, "a"));
        forwarded.record(&jid, &["a".into(), "b".into()]).unwrap();
        forwarded.record(&jid, &["b".into()]).unwrap();
        std::fs::write(dir.path().join("other"), "x").unwrap();
        let path = dir.path().join(jid.as_str());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\n");
        std::fs::write(&path, "a\nb\nc").unwrap();
        let mut again = Forwarded::open(dir.path()).unwrap();
        assert_eq!(again.jobs(), std::slice::from_ref(&jid));
        assert!(again.has(&jid, "a") && again.has(&jid, "b") && !again.has(&jid, "c"));
        again.expire(Duration::from_secs(60));
        assert_eq!(again.jobs().len(), 1);
        again.expire(Duration::ZERO);
        assert!(again.jobs().is_empty() && !path.exists());
    }
}
