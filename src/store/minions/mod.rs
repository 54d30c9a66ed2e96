//! Grains and pillar of the minions, in the layout that the stock tools of one Salt
//! series read from disk (reference `salt-local.md` 5.2).

mod index;
mod watch;

use super::keys::IdList;
use halite_sys::daemon::{make_dir, write_atomic};
use halite_target::{DataQuery, Inventory, QueryResults};
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Minions whose data are held in full; beyond this the table is emptied and fills again. Targets are
/// evaluated by the index, which holds much less of all.
const HELD: usize = 1000;

/// On-disk layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 3006 and 3007: `minions/<id>/data.p` holds both maps.
    Combined,
    /// 3008: `grains/<id>.p` and `pillar/<id>.p`.
    Split,
}

/// What is known of one minion.
#[derive(Debug, Default)]
pub struct MinionData {
    /// Its grains at the last refresh.
    pub grains: Arc<Map>,
    /// Its pillar at the last refresh.
    pub pillar: Arc<Map>,
}

/// Tells whether the files of a minion have changed: times and inodes.
pub type Stamp = [(i64, i64, u64); 2];

/// The data cache below one `cachedir`.
#[derive(Debug)]
pub struct MinionCache {
    cachedir: PathBuf,
    layout: Layout,
    memory: Mutex<HashMap<MinionId, (Stamp, Arc<MinionData>)>>,
    index: index::Index,
}

impl MinionCache {
    /// A cache below `cachedir`; nothing is touched yet.
    pub fn new(cachedir: impl Into<PathBuf>, layout: Layout) -> MinionCache {
        MinionCache {
            cachedir: cachedir.into(),
            layout,
            memory: Mutex::default(),
            index: index::Index::default(),
        }
    }

    /// The directories that hold the files of all minions; `None` where each minion has its own.
    fn banks(&self) -> Option<Vec<PathBuf>> {
        match self.layout {
            Layout::Combined => None,
            Layout::Split => Some(["grains", "pillar"].map(|b| self.cachedir.join(b)).to_vec()),
        }
    }

    /// What the minions of a list, the accepted ones, say to a question of a target.
    pub fn ask<'a>(&'a self, ids: &IdList, question: DataQuery<'a>) -> Box<dyn QueryResults + 'a> {
        Box::new(self.index.ask(self, ids, question))
    }

    /// Takes note of changes. To be called now and then by whoever asks: the kernel remembers some
    /// thousands, and after more of them each file has to be looked at.
    pub fn poll_changes(&self) {
        self.index.poll_changes();
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

    /// Stores what a pillar request told and answered. What is there already is left as it is.
    pub fn store(&self, id: &MinionId, grains: &Map, pillar: &Map) -> io::Result<()> {
        let [first, second] = self.paths(id);
        let grains = msgpack::encode_map(grains, Profile::Local);
        let pillar = msgpack::encode_map(pillar, Profile::Local);
        match self.layout {
            Layout::Combined => {
                let mut both = Vec::with_capacity(grains.len() + pillar.len() + 24);
                msgpack::put_map_header(&mut both, 2);
                msgpack::put_str(&mut both, b"grains", Profile::Local);
                both.extend_from_slice(&grains);
                msgpack::put_str(&mut both, b"pillar", Profile::Local);
                both.extend_from_slice(&pillar);
                keep(&first, &both)
            }
            Layout::Split => {
                keep(&first, &grains)?;
                keep(&second, &pillar)
            }
        }
    }

    /// Changes whenever something is stored of `id`; `None` if nothing is.
    pub fn stamp(&self, id: &MinionId) -> Option<Stamp> {
        let paths = self.paths(id);
        Some([stamp(&paths[0])?, stamp(&paths[1]).unwrap_or_default()])
    }

    /// What is stored of `id`, read anew and not remembered.
    pub fn peek(&self, id: &MinionId) -> Option<MinionData> {
        self.read(&self.paths(id))
    }

    /// What is stored of `id`, or `None`. Files are decoded again only when they change.
    pub fn get(&self, id: &MinionId) -> Option<Arc<MinionData>> {
        let paths = self.paths(id);
        let stamp = [stamp(&paths[0])?, stamp(&paths[1]).unwrap_or_default()];
        let mut memory = match self.memory.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        if let Some((seen, data)) = memory.get(id)
            && *seen == stamp
        {
            return Some(data.clone());
        }
        let data = Arc::new(self.read(&paths)?);
        if memory.len() >= HELD {
            memory.clear();
        }
        memory.insert(id.clone(), (stamp, data.clone()));
        Some(data)
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

    /// Minions of which something is cached, sorted.
    ///
    /// # Errors
    /// The directory cannot be read; a missing one is empty.
    pub fn ids(&self) -> io::Result<Vec<MinionId>> {
        let bank = match self.layout {
            Layout::Combined => "minions",
            Layout::Split => "grains",
        };
        let entries = match std::fs::read_dir(self.cachedir.join(bank)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let Ok(name) = entry?.file_name().into_string() else {
                continue;
            };
            let name = match self.layout {
                Layout::Combined => Some(name.as_str()),
                Layout::Split => name.strip_suffix(".p"),
            };
            ids.extend(name.and_then(|n| n.parse().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Forgets everything about `id`, the stock tools' banks included.
    pub fn remove(&self, id: &MinionId) -> io::Result<()> {
        if let Ok(mut memory) = self.memory.lock() {
            memory.remove(id);
        }
        let banks =
            ["grains", "pillar", "mine"].map(|b| self.cachedir.join(b).join(format!("{id}.p")));
        for file in banks {
            ignore_missing(std::fs::remove_file(file))?;
        }
        ignore_missing(std::fs::remove_dir_all(
            self.cachedir.join("minions").join(id.as_str()),
        ))
    }
}

/// Accepted minions with what is known of them.
pub struct MinionInventory<'a> {
    /// Accepted ids.
    pub ids: IdList,
    /// Grains and pillar.
    pub cache: &'a MinionCache,
    /// Option `minion_data_cache`.
    pub caches_data: bool,
}

impl Inventory for MinionInventory<'_> {
    fn ids(&self) -> &[MinionId] {
        &self.ids
    }

    fn contains(&self, id: &str) -> bool {
        self.ids
            .binary_search_by(|known| known.as_str().cmp(id))
            .is_ok()
    }

    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cache.get(id).map(|data| data.grains.clone())
    }

    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>> {
        self.cache.get(id).map(|data| data.pillar.clone())
    }

    fn caches_data(&self) -> bool {
        self.caches_data
    }

    fn query<'b>(&'b self, question: DataQuery<'b>) -> Option<Box<dyn QueryResults + 'b>> {
        Some(self.cache.ask(&self.ids, question))
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

/// Writes a file that is to have this content, unless it has it: most minions tell what they told the last
/// time, and reading costs a tenth of writing.
fn keep(path: &Path, content: &[u8]) -> io::Result<()> {
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

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn stamp(path: &Path) -> Option<(i64, i64, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.mtime(), meta.mtime_nsec(), meta.ino()))
}

fn read_map(path: &Path) -> Option<Map> {
    msgpack::decode(&std::fs::read(path).ok()?).ok()?.into_map()
}

#[cfg(test)]
mod tests;
