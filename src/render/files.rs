//! Source files: templates of an environment and the files of `pillar_roots`, cached until they change
//! (`salt/fileclient.py PillarClient`).
//!
//! File names come from templates, which the operator wrote; they are confined to their root all the same.
//! Symbolic links inside a root are followed, as in stock Salt.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// Largest source file, in bytes.
pub const MAX_SOURCE: u64 = 16 << 20;
/// Files in the cache; it is cleared when there are more.
const MAX_CACHED_FILES: usize = 20_000;
/// Deepest directory to descend into, in case links form a cycle.
const MAX_DEPTH: usize = 32;
/// Two changes within this time may leave the same time stamp.
const TIMESTAMP_RESOLUTION: Duration = Duration::from_millis(50);

/// A source file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path.
    pub path: PathBuf,
    /// Its name below the root, with slashes.
    pub name: String,
    /// Its text.
    pub text: Rc<str>,
}

/// The files of one environment, as templates find them.
pub trait FileTree {
    /// The file of that name; `None` if it is missing, unreadable, or outside of the environment.
    fn find(&self, name: &str) -> Option<SourceFile>;
}

/// The files below some directories. The first directory that has a name wins.
pub struct RootsTree {
    /// Cache.
    pub files: Rc<FileCache>,
    /// The directories.
    pub roots: Vec<String>,
}

impl FileTree for RootsTree {
    fn find(&self, name: &str) -> Option<SourceFile> {
        self.files.find(&self.roots, name)
    }
}

/// What identifies one version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileVersion {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    fn of(meta: &fs::Metadata) -> FileVersion {
        FileVersion {
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// Whether the time stamp is so recent that another change could leave it as it is.
fn is_recent(meta: &fs::Metadata) -> bool {
    let age = |at: SystemTime| SystemTime::now().duration_since(at).unwrap_or_default();
    meta.modified()
        .is_ok_and(|at| age(at) < TIMESTAMP_RESOLUTION)
}

struct CachedFile {
    stamp: FileVersion,
    text: Rc<str>,
}

#[derive(Clone)]
struct Listing {
    dirs: Rc<[(PathBuf, Option<FileVersion>)]>,
    states: Rc<BTreeSet<String>>,
}

/// A cache of files and directory listings.
#[derive(Default)]
pub struct FileCache {
    files: RefCell<HashMap<PathBuf, CachedFile>>,
    listings: RefCell<HashMap<Vec<String>, Listing>>,
}

impl FileCache {
    /// Finds `name` in the first of `roots` that has it. Names that would leave their root and unreadable
    /// files are not found.
    pub fn find(&self, roots: &[String], name: &str) -> Option<SourceFile> {
        let name = inside(name)?;
        roots
            .iter()
            .find_map(|root| self.read(Path::new(root), name))
    }

    fn read(&self, root: &Path, name: &str) -> Option<SourceFile> {
        let path = root.join(name);
        let meta = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let stamp = FileVersion::of(&meta);
        let found = |text| SourceFile {
            path: path.clone(),
            name: name.to_owned(),
            text,
        };
        if let Some(held) = self.files.borrow().get(&path)
            && held.stamp == stamp
        {
            return Some(found(held.text.clone()));
        }
        let text: Rc<str> = match read_text(&path) {
            Ok(text) => text.into(),
            Err(why) => {
                log::error!("{}: {why}", path.display());
                return None;
            }
        };
        if !is_recent(&meta) {
            let mut files = self.files.borrow_mut();
            if files.len() >= MAX_CACHED_FILES {
                files.clear();
            }
            files.insert(
                path.clone(),
                CachedFile {
                    stamp,
                    text: text.clone(),
                },
            );
        }
        Some(found(text))
    }

    /// The file of an SLS: `a.b` is `a/b.sls` or `a/b/init.sls` (`Client.get_state`). The flag is true for
    /// the latter.
    pub fn state(&self, roots: &[String], sls: &str) -> Option<(SourceFile, bool)> {
        let mut names = sls_files(sls).into_iter();
        names.find_map(|(name, init)| Some((self.find(roots, &name)?, init)))
    }

    /// Every SLS below `roots`, sorted (`Client.list_states`).
    pub fn states(&self, roots: &[String]) -> Rc<BTreeSet<String>> {
        if let Some(listing) = self.listings.borrow().get(roots)
            && listing
                .dirs
                .iter()
                .all(|(dir, seen)| version_of(dir) == *seen)
        {
            return listing.states.clone();
        }
        let mut walk = Walk::default();
        for root in roots {
            walk.dir(Path::new(root), "", 0);
        }
        let states = Rc::new(walk.states);
        if !walk.unsure {
            let listing = Listing {
                dirs: walk.dirs.into(),
                states: states.clone(),
            };
            self.listings.borrow_mut().insert(roots.to_vec(), listing);
        }
        states
    }
}

fn version_of(dir: &Path) -> Option<FileVersion> {
    fs::metadata(dir).ok().map(|meta| FileVersion::of(&meta))
}

#[derive(Default)]
struct Walk {
    dirs: Vec<(PathBuf, Option<FileVersion>)>,
    states: BTreeSet<String>,
    unsure: bool,
}

impl Walk {
    fn dir(&mut self, dir: &Path, prefix: &str, depth: usize) {
        let meta = fs::metadata(dir).ok();
        self.unsure |= meta.as_ref().is_some_and(is_recent);
        self.dirs
            .push((dir.to_owned(), meta.as_ref().map(FileVersion::of)));
        let Ok(entries) = fs::read_dir(dir) else {
            return;
        };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let kind = entry.file_type().ok();
            let is_dir = match kind {
                Some(kind) if kind.is_symlink() => entry.path().is_dir(),
                Some(kind) => kind.is_dir(),
                None => false,
            };
            if is_dir {
                if depth < MAX_DEPTH {
                    self.dir(&entry.path(), &format!("{prefix}{name}/"), depth + 1);
                }
                continue;
            }
            self.states.extend(sls_name(&format!("{prefix}{name}")));
        }
    }
}

/// The files an SLS may be in; the flag is true for `init.sls`.
pub fn sls_files(sls: &str) -> [(String, bool); 2] {
    let base = sls.replace('.', "/");
    [
        (format!("{base}.sls"), false),
        // `- .` in an include names its directory with a dot at the end.
        (format!("{}/init.sls", base.trim_end_matches('/')), true),
    ]
}

/// The SLS name of a file (`Client.list_states`).
pub fn sls_name(file: &str) -> Option<String> {
    let state = file.strip_suffix(".sls")?;
    let state = state.strip_suffix("/init").unwrap_or(state);
    Some(state.replace('/', "."))
}

/// A name that cannot leave its root. Leading slashes are dropped, as in `salt://` URLs.
pub fn inside(name: &str) -> Option<&str> {
    let name = name.trim_start_matches('/');
    let plain = !name.is_empty() && !name.contains('\0') && !name.split('/').any(|p| p == "..");
    plain.then_some(name)
}

fn read_text(path: &Path) -> Result<String, String> {
    text_of(fs::File::open(path).map_err(|e| e.to_string())?)
}

/// Reads a file as UTF-8.
///
/// # Errors
/// It cannot be read, is longer than [`MAX_SOURCE`], or is not UTF-8.
pub fn text_of(file: fs::File) -> Result<String, String> {
    let mut bytes = Vec::new();
    file.take(MAX_SOURCE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_SOURCE {
        return Err(format!(
            "it is longer than {MAX_SOURCE} bytes and is not read"
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    super::written_slots::note(&text);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_in_the_order_of_roots() {
        let dir = tempfile::tempdir().unwrap();
        let roots: Vec<String> = ["a", "b"]
            .map(|d| dir.path().join(d).to_string_lossy().into_owned())
            .to_vec();
        for (path, text) in [
            ("a/x/init.sls", "1"),
            ("b/x.sls", "2"),
            ("b/y/z.sls", "3"),
            ("out", ""),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let cache = FileCache::default();
        let (file, init) = cache.state(&roots, "x").unwrap();
        assert_eq!(
            (&*file.text, init, file.name.as_str()),
            ("2", false, "x.sls")
        );
        assert!(cache.find(&roots, "../out").is_none());
        assert!(cache.find(&roots, "y").is_none());
        let names: Vec<String> = cache.states(&roots).iter().cloned().collect();
        assert_eq!(names, ["x", "y.z"]);
        fs::write(dir.path().join("a/new.sls"), "").unwrap();
        assert!(cache.states(&roots).contains("new"));
        fs::write(dir.path().join("b/x.sls"), "22").unwrap();
        assert_eq!(&*cache.state(&roots, "x").unwrap().0.text, "22");
    }
}
