//! The files of stock Salt's `local_cache` that its own tools read from disk: the `salt`
//! CLI stops waiting when it does not find `.load.p` (reference `salt-local.md` 3.3, 5.1).

use super::{id_list, stored_part};
use crate::crypto::HashType;
use crate::sys::daemon::{make_dir, write_atomic};
use crate::wire::ids::{Jid, MinionId};
use crate::wire::msgpack::{self, Profile};
use crate::wire::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};

/// Writer of the stock layout below `cachedir/jobs`.
#[derive(Clone, Debug)]
pub struct StockLayout {
    dir: PathBuf,
    hash: HashType,
    returns: bool,
}

impl StockLayout {
    /// A writer; with `returns`, every return is written as well, which `salt-run jobs.*`
    /// of stock Salt needs and which costs two files a return.
    pub fn new(cachedir: &Path, hash: HashType, returns: bool) -> StockLayout {
        StockLayout {
            dir: cachedir.join("jobs"),
            hash,
            returns,
        }
    }

    fn path(&self, jid: &Jid) -> PathBuf {
        let hex = self.hash.hex(jid.as_str().as_bytes());
        self.dir.join(&hex[..2]).join(&hex[2..])
    }

    pub(super) fn save_load(&self, jid: &Jid, load: &Map, minions: &[String]) -> io::Result<()> {
        let dir = self.path(jid);
        make_dir(&dir, 0o755)?;
        std::fs::write(dir.join("jid"), jid.as_str())?;
        put(&dir.join(".load.p"), &Value::Map(load.clone()))?;
        put(&dir.join(".minions.p"), &id_list(minions))
    }

    pub(super) fn save_return(&self, jid: &Jid, id: &MinionId, load: &Map) -> io::Result<()> {
        if !self.returns {
            return Ok(());
        }
        let job = self.path(jid);
        let dir = job.join(id.as_str());
        if dir.exists() {
            return Ok(());
        }
        make_dir(&dir, 0o755)?;
        if !job.join("jid").exists() {
            // A job that the minion began: its return stands for the load.
            std::fs::write(job.join("jid"), jid.as_str())?;
            put(&job.join(".load.p"), &Value::Map(load.clone()))?;
        }
        put(&dir.join("return.p"), &Value::Map(stored_part(load)))?;
        match load.get("out") {
            Some(out) if !out.is_nil() => put(&dir.join("out.p"), out),
            _ => Ok(()),
        }
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
