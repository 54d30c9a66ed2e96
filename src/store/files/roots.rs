//! The backend `roots`: directories of the master's host (`salt/fileserver/roots.py`).

use super::confined::{ConfinedPath, Links};
use super::ignore::Ignore;
use super::lists::{ListCache, Lists};
use super::names;
use super::{Found, stat_list};
use halite_config::{FileServerOptions, Roots};
use std::collections::BTreeSet;
use std::fs::{FileType, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The entry for all environments without an entry of their own.
const ANY_ENV: &str = "__env__";

/// `roots` with its options.
pub struct RootsBackend {
    roots: Roots,
    follow: bool,
    ignore_links: bool,
    cache: ListCache,
}

impl RootsBackend {
    /// The backend of a configuration.
    pub fn new(options: &FileServerOptions) -> RootsBackend {
        let max_age = Duration::from_secs(options.fileserver_list_cache_time);
        RootsBackend {
            roots: options.file_roots.clone(),
            follow: options.fileserver_followsymlinks,
            ignore_links: options.fileserver_ignoresymlinks,
            cache: ListCache::new(&options.cachedir, "roots", max_age),
        }
    }

    /// Names of the environments.
    pub fn envs(&self) -> Vec<String> {
        self.roots.0.iter().map(|(env, _)| env.clone()).collect()
    }

    /// The directories of an environment. `None` if it has no entry, or if its name in place of
    /// `__env__` would lead elsewhere (stock substitutes any text).
    fn dirs(&self, env: &str) -> Option<Vec<String>> {
        if let Some(dirs) = self.roots.get(env).filter(|_| env != ANY_ENV) {
            return Some(dirs.to_vec());
        }
        let dirs = self.roots.get(ANY_ENV)?;
        if names::inside(env).as_deref() != Some(env) {
            return None;
        }
        Some(dirs.iter().map(|dir| dir.replace(ANY_ENV, env)).collect())
    }

    fn links(&self) -> Links {
        if self.follow {
            Links::Follow
        } else {
            Links::Within
        }
    }

    /// The first file at that path (`roots.find_file`); `index` selects one of the directories.
    pub fn find(
        &self,
        path: &str,
        env: &str,
        index: Option<&str>,
        ignore: &Ignore,
    ) -> Option<Found> {
        let rel = names::inside(path)?;
        let dirs = self.dirs(env)?;
        let dirs = match index {
            Some(index) => vec![pick(&dirs, index)?],
            None => dirs,
        };
        dirs.into_iter().find_map(|root| {
            let place = ConfinedPath {
                root: PathBuf::from(root),
                rel: rel.clone(),
                links: self.links(),
            };
            let stat = place.stat()?;
            let path = place.display_path();
            (!ignore.ignores(&path)).then(|| Found {
                path,
                rel: rel.clone(),
                stat: stat_list(&stat),
                back: "roots",
                place,
            })
        })
    }

    /// Whether a file that was found may be served for the environment of the load, which can
    /// differ from the one in which it was found; `None` if there is no such environment.
    pub fn holds(&self, env: &str, found: &Found) -> Option<bool> {
        let path = PathBuf::from(names::normpath(&found.path));
        let holds = |root: String| {
            if self.follow {
                names::is_below(Path::new(&names::normpath(&root)), &path)
            } else {
                names::is_below(&names::realpath(Path::new(&root)), &names::realpath(&path))
            }
        };
        Some(self.dirs(env)?.into_iter().any(holds))
    }

    /// The lists of an environment (`roots._file_lists`); empty if it does not exist.
    pub fn lists(&mut self, env: &str, ignore: &Ignore) -> Arc<Lists> {
        let Some(dirs) = self.dirs(env) else {
            return Arc::default();
        };
        let (follow, ignore_links) = (self.follow, self.ignore_links);
        if !dirs.iter().any(|dir| Path::new(dir).is_dir()) {
            // No cache file for environments that do not exist: minions can send any name.
            return Arc::default();
        }
        self.cache.get(env, || {
            let mut walk = Walk::new(follow, ignore_links, ignore);
            for dir in &dirs {
                walk.root(dir);
            }
            walk.finish()
        })
    }
}

/// Python's `list[int(index)]`, counted from the end if negative.
fn pick(dirs: &[String], index: &str) -> Option<String> {
    let index: i64 = index.trim().parse().ok()?;
    let at = if index < 0 {
        i64::try_from(dirs.len()).ok()?.checked_add(index)?
    } else {
        index
    };
    dirs.get(usize::try_from(at).ok()?).cloned()
}

/// A walk through the directories of an environment.
struct Walk<'a> {
    follow: bool,
    ignore_links: bool,
    ignore: &'a Ignore,
    files: BTreeSet<String>,
    dirs: BTreeSet<String>,
    empty: BTreeSet<String>,
    lists: Lists,
}

impl<'a> Walk<'a> {
    fn new(follow: bool, ignore_links: bool, ignore: &'a Ignore) -> Walk<'a> {
        Walk {
            follow,
            ignore_links,
            ignore,
            files: BTreeSet::new(),
            dirs: BTreeSet::new(),
            empty: BTreeSet::new(),
            lists: Lists::default(),
        }
    }

    fn root(&mut self, root: &str) {
        let root = Path::new(root);
        let Ok(meta) = std::fs::metadata(root) else {
            return;
        };
        let real = names::realpath(root);
        self.dir(root, &real, "", &mut vec![id(&meta)]);
    }

    /// `above` holds the directories from the root to this one. A link back to one of them is
    /// listed but not entered; stock follows it until the kernel refuses.
    fn dir(&mut self, dir: &Path, real_root: &Path, rel: &str, above: &mut Vec<(u64, u64)>) {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return;
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let Ok(name) = entry.file_name().into_string() else {
                log::debug!(
                    "{}: skipped, since the name is not UTF-8",
                    entry.path().display()
                );
                continue;
            };
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let rel = match rel {
                "" => name,
                rel => format!("{rel}/{name}"),
            };
            self.entry(&entry.path(), kind, real_root, rel, above);
        }
    }

    fn entry(
        &mut self,
        path: &Path,
        kind: FileType,
        real_root: &Path,
        rel: String,
        above: &mut Vec<(u64, u64)>,
    ) {
        let meta = std::fs::metadata(path).ok();
        let meta = meta.filter(|m| m.is_dir());
        let skipped = kind.is_symlink() && self.ignore_links;
        let listed = !skipped && !self.ignore.ignores(&rel);
        if listed {
            if meta.is_some() && std::fs::read_dir(path).is_ok_and(|mut d| d.next().is_none()) {
                self.empty.insert(rel.clone());
            }
            if kind.is_symlink() {
                self.link(path, real_root, &rel);
            }
            let set = if meta.is_some() {
                &mut self.dirs
            } else {
                &mut self.files
            };
            set.insert(rel.clone());
        }
        let Some(meta) = meta.filter(|_| self.follow || !kind.is_symlink()) else {
            return;
        };
        let id = id(&meta);
        if above.contains(&id) {
            return;
        }
        above.push(id);
        self.dir(path, real_root, &rel, above);
        above.pop();
    }

    /// Lists a link, unless links are followed and it leads out of the root.
    fn link(&mut self, path: &Path, real_root: &Path, rel: &str) {
        let Ok(target) = std::fs::read_link(path) else {
            return;
        };
        let target = target.to_string_lossy().into_owned();
        // A target that starts with `..` is resolved from the link itself, as in stock.
        let base = if target.starts_with("..") {
            Some(path)
        } else {
            path.parent()
        };
        let base = base.unwrap_or(Path::new("/")).to_string_lossy();
        let joined = names::normpath(&names::join(&base, &target));
        let real = names::realpath(Path::new(&joined));
        if !self.follow || !leads_out(&real, real_root) {
            self.lists.links.insert(rel.to_owned(), target);
        }
    }

    fn finish(self) -> Lists {
        Lists {
            files: self.files.into_iter().collect(),
            dirs: self.dirs.into_iter().collect(),
            empty_dirs: self.empty.into_iter().collect(),
            links: self.lists.links,
        }
    }
}

/// Whether the relative path from `root` to `path` starts with `..`. As in stock, a file name that
/// starts with `..` counts too.
fn leads_out(path: &Path, root: &Path) -> bool {
    match path.strip_prefix(root) {
        Ok(rest) => rest.to_string_lossy().starts_with(".."),
        Err(_) => true,
    }
}

fn id(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}
