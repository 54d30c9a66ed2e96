//! Mines: one msgpack map per minion, function -> value, in the file that the stock tools of one Salt series read:
//! `minions/<id>/mine.p` (3006, 3007) or `mine/<id>.p` (3008).

use super::{Layout, found};
use crate::mine::{MAX_MINE, MineStore, check_count, merge, too_large};
use halite_sys::daemon::{make_dir, write_atomic};
use halite_sys::name_lock::NameLock;
use halite_sys::safe_open::read_regular;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The mines below one `cachedir`.
#[derive(Debug)]
pub struct LocalMines {
    cachedir: PathBuf,
    layout: Layout,
}

impl LocalMines {
    /// Mines below `cachedir`. Nothing is read or created yet.
    pub fn new(cachedir: impl Into<PathBuf>, layout: Layout) -> LocalMines {
        LocalMines {
            cachedir: cachedir.into(),
            layout,
        }
    }

    fn path(&self, id: &MinionId) -> PathBuf {
        match self.layout {
            Layout::Combined => self
                .cachedir
                .join("minions")
                .join(id.as_str())
                .join("mine.p"),
            Layout::Split => self.cachedir.join("mine").join(format!("{id}.p")),
        }
    }

    /// When the mine of a minion was last written, seconds and nanoseconds of Unix time; `None` if there is none.
    pub fn written(&self, id: &MinionId) -> Option<(i64, i64)> {
        let meta = std::fs::metadata(self.path(id)).ok()?;
        Some((meta.mtime(), meta.mtime_nsec()))
    }

    fn write(&self, id: &MinionId, all: &Map) -> io::Result<()> {
        let bytes = msgpack::encode_map(all, Profile::Local);
        if bytes.len() > MAX_MINE {
            return Err(too_large(&format!("be larger than {MAX_MINE} bytes")));
        }
        let path = self.path(id);
        if let Some(dir) = path.parent() {
            make_dir(dir, 0o755)?;
        }
        write_atomic(&path, &bytes, 0o600)
    }

    /// Locks one mine: several workers may change it. The lock file is outside the directories whose entries stock
    /// tools take for ids.
    fn lock(&self, id: &MinionId) -> io::Result<NameLock> {
        make_dir(&self.cachedir, 0o755)?;
        NameLock::take(&self.cachedir.join(".mine.lock"), id.as_str())
    }
}

impl MineStore for LocalMines {
    fn get(&self, id: &MinionId) -> io::Result<Option<Map>> {
        read(&self.path(id))
    }

    fn put(&self, id: &MinionId, data: Map, clear: bool) -> io::Result<()> {
        check_count(&data)?;
        let _lock = self.lock(id)?;
        let mut all = if clear {
            Map::new()
        } else {
            // A damaged file is replaced: the minion sends its values again.
            self.get(id).ok().flatten().unwrap_or_default()
        };
        merge(&mut all, data)?;
        self.write(id, &all)
    }

    fn delete(&self, id: &MinionId, fun: &str) -> io::Result<bool> {
        let _lock = self.lock(id)?;
        let Some(mut all) = self.get(id)? else {
            return Ok(false);
        };
        if all.remove(fun).is_some() {
            self.write(id, &all)?;
        }
        Ok(true)
    }

    fn flush(&self, id: &MinionId) -> io::Result<bool> {
        let _lock = self.lock(id)?;
        Ok(found(std::fs::remove_file(self.path(id)))?.is_some())
    }
}

fn read(path: &Path) -> io::Result<Option<Map>> {
    let Some(bytes) = found(read_regular(path, MAX_MINE as u64))? else {
        return Ok(None);
    };
    match msgpack::decode(&bytes) {
        Ok(Value::Map(map)) => Ok(Some(map)),
        _ => Err(io::Error::other(format!(
            "{}: not a msgpack map",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mine::MAX_VALUES;
    use halite_wire::map;

    fn id(text: &str) -> MinionId {
        text.parse().unwrap()
    }

    #[test]
    fn values_are_stored_and_removed() {
        for layout in [Layout::Combined, Layout::Split] {
            let dir = tempfile::tempdir().unwrap();
            let mine = LocalMines::new(dir.path(), layout);
            let m = id("m1");
            assert_eq!(mine.get(&m).unwrap(), None);
            assert!(!mine.delete(&m, "a").unwrap());
            assert!(!mine.flush(&m).unwrap());
            mine.put(&m, map! {"a" => 1, "b" => 2}, false).unwrap();
            mine.put(&m, map! {"b" => 3}, false).unwrap();
            assert_eq!(mine.get(&m).unwrap(), Some(map! {"a" => 1, "b" => 3}));
            assert!(mine.delete(&m, "a").unwrap() && mine.delete(&m, "none").unwrap());
            assert_eq!(mine.get(&m).unwrap(), Some(map! {"b" => 3}));
            mine.put(&m, map! {"c" => 4}, true).unwrap();
            assert_eq!(mine.get(&m).unwrap(), Some(map! {"c" => 4}));
            assert_eq!(mine.get(&id("m2")).unwrap(), None);
            assert!(mine.flush(&m).unwrap());
            assert_eq!(mine.get(&m).unwrap(), None);
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mine = LocalMines::new(dir.path(), Layout::Split);
        let m = id("m1");
        mine.put(&m, map! {"a" => "x".repeat(MAX_MINE / 2)}, false)
            .unwrap();
        let more = mine.put(&m, map! {"b" => "x".repeat(MAX_MINE / 2)}, false);
        assert_eq!(more.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(mine.get(&m).unwrap().unwrap().len(), 1, "kept as it was");
        let many: Map = (0..=MAX_VALUES).map(|n| (n.to_string(), 1)).collect();
        assert!(mine.put(&m, many, true).is_err());
    }

    #[test]
    fn values_beyond_the_limit_do_not_wait_for_a_lock_and_hold_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let mine = LocalMines::new(dir.path(), Layout::Split);
        let _busy = mine.lock(&id("m1")).unwrap();
        let many: Map = (0..=MAX_VALUES).map(|n| (n.to_string(), 1)).collect();
        let refused = mine.put(&id("m1"), many, false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        mine.put(&id("m2"), map! {"a" => 1}, false).unwrap();
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let mine = LocalMines::new(dir.path(), Layout::Split);
        std::fs::create_dir(dir.path().join("mine")).unwrap();
        std::fs::write(dir.path().join("secret"), b"\x81\xa1a\x01").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), dir.path().join("mine/m1.p"))
            .unwrap();
        assert!(mine.get(&id("m1")).is_err());
        std::fs::write(dir.path().join("mine/m2.p"), b"\xc1").unwrap();
        assert!(mine.get(&id("m2")).is_err());
        mine.put(&id("m2"), map! {"a" => 1}, false).unwrap();
        assert_eq!(mine.get(&id("m2")).unwrap(), Some(map! {"a" => 1}));
    }
}
