//! Lists of files per environment, and their cache in the format that stock's tools read and clear
//! (`salt/fileserver/__init__.py check_file_list_cache`).

use super::names::safe_leaf;
use halite_sys::daemon::write_atomic;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use nix::fcntl::{Flock, FlockArg};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Environments whose lists a worker keeps in memory.
const MAX_IN_MEMORY: usize = 16;

/// The files of one environment of a backend; all paths are relative to its root.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lists {
    /// Everything that is not a directory, sorted.
    pub files: Vec<String>,
    /// Directories, sorted.
    pub dirs: Vec<String>,
    /// Empty directories, sorted.
    pub empty_dirs: Vec<String>,
    /// Symbolic links and their targets.
    pub links: BTreeMap<String, String>,
}

/// Which of the lists is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileListKind {
    /// `_file_list`.
    Files,
    /// `_dir_list`.
    Dirs,
    /// `_file_list_emptydirs`.
    EmptyDirs,
}

impl Lists {
    /// One of the lists.
    pub fn get(&self, kind: FileListKind) -> &[String] {
        match kind {
            FileListKind::Files => &self.files,
            FileListKind::Dirs => &self.dirs,
            FileListKind::EmptyDirs => &self.empty_dirs,
        }
    }

    fn to_value(&self) -> Map {
        let links: Map = self
            .links
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        halite_wire::map! {
            "files" => self.files.clone(), "dirs" => self.dirs.clone(),
            "empty_dirs" => self.empty_dirs.clone(), "links" => links,
        }
    }

    fn from_value(value: &Value) -> Option<Lists> {
        let map = value.as_map()?;
        let list = |k| map.get(k).map(Value::str_list);
        let links = map.get("links")?.as_map()?.iter();
        let links = links.filter_map(|(k, v)| Some((k.as_str()?.into(), v.as_str()?.into())));
        Some(Lists {
            files: list("files")?,
            dirs: list("dirs")?,
            empty_dirs: list("empty_dirs")?,
            links: links.collect(),
        })
    }
}

/// A cache of lists, shared by all workers through `cachedir/file_lists/<backend>/<env>.p`.
pub struct ListCache {
    dir: PathBuf,
    max_age: Duration,
    memory: HashMap<String, (Stamp, Arc<Lists>)>,
}

type Stamp = (u64, i64, i64);

impl ListCache {
    /// The cache of one backend; lists are valid for `max_age` (`fileserver_list_cache_time`).
    pub fn new(cachedir: &Path, backend: &str, max_age: Duration) -> ListCache {
        ListCache {
            dir: cachedir.join("file_lists").join(backend),
            max_age,
            memory: HashMap::new(),
        }
    }

    /// The lists of an environment, from the cache or made by `make`. One worker makes them while
    /// the others wait.
    pub fn get(&mut self, env: &str, make: impl FnOnce() -> Lists) -> Arc<Lists> {
        let name = safe_leaf(env);
        if self.max_age.is_zero() || name.len() > 200 {
            return Arc::new(make());
        }
        let path = self.dir.join(format!("{name}.p"));
        if let Some(lists) = self.fresh(env, &path) {
            return lists;
        }
        let lock = self.lock(&name);
        if lock.is_some()
            && let Some(lists) = self.fresh(env, &path)
        {
            return lists;
        }
        let lists = Arc::new(make());
        let payload = msgpack::encode_map(&lists.to_value(), Profile::Local);
        match write_atomic(&path, &payload, 0o600) {
            Ok(()) => self.remember(env, &path, &lists),
            Err(e) => log::warn!("{}: {e}; the file list is not cached", path.display()),
        }
        lists
    }

    fn fresh(&mut self, env: &str, path: &Path) -> Option<Arc<Lists>> {
        let meta = std::fs::metadata(path).ok()?;
        // A timestamp in the future does not count.
        if meta.modified().ok()?.elapsed().ok()? >= self.max_age {
            return None;
        }
        let stamp = (meta.ino(), meta.mtime(), meta.mtime_nsec());
        if let Some((known, lists)) = self.memory.get(env)
            && *known == stamp
        {
            return Some(lists.clone());
        }
        let value = msgpack::decode(&std::fs::read(path).ok()?).ok()?;
        let lists = Arc::new(Lists::from_value(&value)?);
        self.remember(env, path, &lists);
        Some(lists)
    }

    fn remember(&mut self, env: &str, path: &Path, lists: &Arc<Lists>) {
        let Ok(meta) = std::fs::metadata(path) else {
            return;
        };
        if self.memory.len() >= MAX_IN_MEMORY {
            self.memory.clear();
        }
        let stamp = (meta.ino(), meta.mtime(), meta.mtime_nsec());
        self.memory.insert(env.to_owned(), (stamp, lists.clone()));
    }

    fn lock(&self, name: &str) -> Option<Flock<File>> {
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir);
        let path = self.dir.join(format!(".{name}.lock"));
        let opened = made.and_then(|()| {
            File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
        });
        Flock::lock(opened.ok()?, FlockArg::LockExclusive).ok()
    }
}

/// Removes cached lists; returns the removed environments per backend
/// (`salt/fileserver/__init__.py Fileserver.clear_file_list_cache`).
///
/// # Errors
/// The directory exists but cannot be read.
pub fn clear(
    cachedir: &Path,
    backends: &[String],
    envs: Option<&[String]>,
) -> std::io::Result<BTreeMap<String, Vec<String>>> {
    let mut cleared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let top = cachedir.join("file_lists");
    for back in backends {
        let entries = match std::fs::read_dir(top.join(back)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(env) = name.strip_suffix(".p") else {
                continue;
            };
            if envs.is_some_and(|envs| !envs.iter().any(|e| e == env)) {
                continue;
            }
            if std::fs::remove_file(entry.path()).is_ok() {
                cleared
                    .entry(back.clone())
                    .or_default()
                    .push(env.to_owned());
            }
        }
    }
    for envs in cleared.values_mut() {
        envs.sort_unstable();
    }
    Ok(cleared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(file: &str) -> Lists {
        Lists {
            files: vec![file.into()],
            links: [("l".to_owned(), "t".to_owned())].into(),
            ..Lists::default()
        }
    }

    #[test]
    fn lists_are_shared_until_they_expire() {
        let dir = tempfile::tempdir().unwrap();
        let new = |seconds| ListCache::new(dir.path(), "roots", Duration::from_secs(seconds));
        let mut one = new(1000);
        assert_eq!(*one.get("a/b", || lists("1")), lists("1"));
        assert_eq!(*one.get("a/b", || lists("2")), lists("1"));
        assert_eq!(*new(1000).get("a/b", || lists("3")), lists("1"));
        assert_eq!(*new(0).get("a/b", || lists("4")), lists("4"));
        let path = dir.path().join("file_lists/roots/a%2Fb.p");
        let file = File::options().write(true).open(&path).unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(2000);
        file.set_modified(old).unwrap();
        assert_eq!(*one.get("a/b", || lists("5")), lists("5"));
        let cleared = clear(dir.path(), &["roots".into(), "gitfs".into()], None).unwrap();
        assert_eq!(cleared["roots"], ["a%2Fb"]);
        assert_eq!(*one.get("a/b", || lists("6")), lists("6"));
    }

    #[test]
    fn a_damaged_cache_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let mut cache = ListCache::new(dir.path(), "roots", Duration::from_secs(1000));
        for bad in [&b""[..], b"\xc1", b"\x80", b"\x81\xa5files\x01"] {
            std::fs::create_dir_all(dir.path().join("file_lists/roots")).unwrap();
            std::fs::write(dir.path().join("file_lists/roots/base.p"), bad).unwrap();
            assert_eq!(*cache.get("base", || lists("x")), lists("x"));
        }
    }
}
