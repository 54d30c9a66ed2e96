//! Grains and pillar of minions, in the layout that the stock tools of one Salt series read from disk
//! (reference `salt-local.md` 5.2).

mod index;
mod watch;

use super::{found, read_map, version};
use crate::keys::{IdList, Version};
use crate::minions::{DataPart, DataVersion, MinionCache, MinionData, check_size};
use halite_sys::daemon::{make_dir, write_atomic};
use halite_target::{DataQuery, QueryResults};
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Minions whose data are kept in memory; when there are more, the table is emptied. Targets are
/// evaluated with the index, which takes much less memory per minion.
const MAX_IN_MEMORY: usize = 1000;

/// On-disk layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 3006 and 3007: `minions/<id>/data.p` holds both maps.
    Combined,
    /// 3008: `grains/<id>.p` and `pillar/<id>.p`.
    Split,
}

/// The data cache below one `cachedir`.
#[derive(Debug)]
pub struct LocalMinions {
    cachedir: PathBuf,
    layout: Layout,
    memory: Mutex<HashMap<MinionId, (DataVersion, Arc<MinionData>)>>,
    index: index::Index,
}

impl LocalMinions {
    /// A cache below `cachedir`. Nothing is read or created yet.
    pub fn new(cachedir: impl Into<PathBuf>, layout: Layout) -> LocalMinions {
        LocalMinions {
            cachedir: cachedir.into(),
            layout,
            memory: Mutex::default(),
            index: index::Index::default(),
        }
    }

    /// The directories that hold the files of all minions; `None` if each minion has its own directory.
    fn banks(&self) -> Option<Vec<PathBuf>> {
        match self.layout {
            Layout::Combined => None,
            Layout::Split => Some(["grains", "pillar"].map(|b| self.cachedir.join(b)).to_vec()),
        }
    }

    fn paths(&self, id: &MinionId) -> [PathBuf; 2] {
        match self.layout {
            Layout::Combined => {
                let path = self
                    .cachedir
                    .join("minions")
                    .join(id.as_str())
                    .join("data.p");
                [path.clone(), path]
            }
            Layout::Split => {
                ["grains", "pillar"].map(|bank| self.cachedir.join(bank).join(format!("{id}.p")))
            }
        }
    }

    fn read(&self, paths: &[PathBuf; 2]) -> Option<MinionData> {
        let first = read_map(&paths[0])?;
        Some(match self.layout {
            Layout::Combined => MinionData {
                grains: part(&first, "grains"),
                pillar: part(&first, "pillar"),
            },
            Layout::Split => MinionData {
                grains: Arc::new(first),
                pillar: Arc::new(read_map(&paths[1]).unwrap_or_default()),
            },
        })
    }

    /// Minions with cached data in either layout.
    fn all_ids(&self) -> io::Result<BTreeSet<MinionId>> {
        let mut out = BTreeSet::new();
        let dirs = names(&self.cachedir.join("minions"))?;
        out.extend(dirs.iter().filter_map(|n| n.parse().ok()));
        for bank in ["grains", "pillar"] {
            let files = names(&self.cachedir.join(bank))?;
            let stems = files.iter().filter_map(|n| n.strip_suffix(".p"));
            out.extend(stems.filter_map(|stem| stem.parse().ok()));
        }
        // Pillars of environments: `pillar/<id>:<pillarenv>.p`.
        out.retain(|id: &MinionId| !id.as_str().contains(':'));
        Ok(out)
    }
}

impl MinionCache for LocalMinions {
    fn store(&self, id: &MinionId, grains: &Map, pillar: &Map) -> io::Result<()> {
        let [first, second] = self.paths(id);
        let grains = msgpack::encode_map(grains, Profile::Local);
        check_size(&grains)?;
        let pillar = msgpack::encode_map(pillar, Profile::Local);
        match self.layout {
            Layout::Combined => {
                let mut both = Vec::with_capacity(grains.len() + pillar.len() + 24);
                msgpack::put_map_header(&mut both, 2);
                msgpack::put_str(&mut both, b"grains", Profile::Local);
                both.extend_from_slice(&grains);
                msgpack::put_str(&mut both, b"pillar", Profile::Local);
                both.extend_from_slice(&pillar);
                write_if_changed(&first, &both)
            }
            Layout::Split => {
                write_if_changed(&first, &grains)?;
                write_if_changed(&second, &pillar)
            }
        }
    }

    fn get(&self, id: &MinionId) -> Option<Arc<MinionData>> {
        let paths = self.paths(id);
        let version = data_version(&paths)?;
        let mut memory = match self.memory.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some((seen, data)) = memory.get(id)
            && *seen == version
        {
            return Some(data.clone());
        }
        let data = Arc::new(self.read(&paths)?);
        if memory.len() >= MAX_IN_MEMORY {
            memory.clear();
        }
        memory.insert(id.clone(), (version, data.clone()));
        Some(data)
    }

    fn peek(&self, id: &MinionId) -> Option<MinionData> {
        self.read(&self.paths(id))
    }

    fn version(&self, id: &MinionId) -> Option<DataVersion> {
        data_version(&self.paths(id))
    }

    fn ids(&self) -> io::Result<Vec<MinionId>> {
        let (bank, suffix) = match self.layout {
            Layout::Combined => ("minions", ""),
            Layout::Split => ("grains", ".p"),
        };
        let names = names(&self.cachedir.join(bank))?;
        let stems = names.iter().filter_map(|name| name.strip_suffix(suffix));
        let mut ids: Vec<MinionId> = stems.filter_map(|stem| stem.parse().ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn query<'a>(
        &'a self,
        ids: &IdList,
        query: DataQuery<'a>,
    ) -> Option<Box<dyn QueryResults + 'a>> {
        Some(Box::new(self.index.query(self, ids, query)))
    }

    fn poll_changes(&self) {
        self.index.poll_changes();
    }

    fn retain(&self, keep: &dyn Fn(&MinionId) -> bool) -> io::Result<()> {
        let report = |what: &str, result: io::Result<()>| {
            if let Err(e) = result {
                log::warn!("the cache of {what} could not be removed: {e}");
            }
        };
        for id in self.all_ids()?.iter().filter(|id| !keep(id)) {
            report(id.as_str(), self.remove(id));
        }
        let pillars = self.cachedir.join("pillar");
        for name in names(&pillars)? {
            let stem = name
                .strip_suffix(".p")
                .and_then(|stem| stem.split_once(':'));
            if stem.is_some_and(|(id, _)| id.parse().is_ok_and(|id| !keep(&id))) {
                report(&name, std::fs::remove_file(pillars.join(&name)));
            }
        }
        Ok(())
    }

    fn clear(&self, id: &MinionId, part: DataPart) -> io::Result<()> {
        let [grains, pillar] = self.paths(id);
        let (path, name) = match part {
            DataPart::Grains => (grains, "grains"),
            DataPart::Pillar => (pillar, "pillar"),
        };
        if self.layout == Layout::Combined {
            let Some(bytes) = found(std::fs::read(&path))? else {
                return Ok(());
            };
            let mut both = msgpack::decode(&bytes)
                .ok()
                .and_then(Value::into_map)
                .ok_or_else(|| io::Error::other(format!("{}: damaged", path.display())))?;
            both.remove(name);
            if !both.is_empty() {
                return write_atomic(&path, &msgpack::encode_map(&both, Profile::Local), 0o600);
            }
        }
        found(std::fs::remove_file(path)).map(drop)
    }

    fn remove(&self, id: &MinionId) -> io::Result<()> {
        if let Ok(mut memory) = self.memory.lock() {
            memory.remove(id);
        }
        let banks =
            ["grains", "pillar", "mine"].map(|b| self.cachedir.join(b).join(format!("{id}.p")));
        for file in banks {
            found(std::fs::remove_file(file))?;
        }
        let dir = self.cachedir.join("minions").join(id.as_str());
        found(std::fs::remove_dir_all(dir)).map(drop)
    }
}

fn part(both: &Map, key: &str) -> Arc<Map> {
    Arc::new(
        both.get(key)
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default(),
    )
}

/// Writes a file unless it already has this content: most minions send the same grains as the last time, and reading
/// costs a tenth of writing.
fn write_if_changed(path: &Path, content: &[u8]) -> io::Result<()> {
    let same = |meta: std::fs::Metadata| {
        meta.len() == content.len() as u64 && std::fs::read(path).is_ok_and(|old| old == content)
    };
    if std::fs::metadata(path).is_ok_and(same) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        make_dir(dir, 0o755)?;
    }
    write_atomic(path, content, 0o600)
}

fn data_version(paths: &[PathBuf; 2]) -> Option<DataVersion> {
    Some([stamp(&paths[0])?, stamp(&paths[1]).unwrap_or_default()])
}

fn stamp(path: &Path) -> Option<Version> {
    Some(version(&std::fs::metadata(path).ok()?))
}

/// Names in a directory, in no particular order; empty if it does not exist.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = found(std::fs::read_dir(dir))? else {
        return Ok(Vec::new());
    };
    entries
        .filter_map(|entry| entry.map(|e| e.file_name().into_string().ok()).transpose())
        .collect()
}

#[cfg(test)]
mod tests;
