//! A gitfs remote: the trees of its commits and the content of their files.

use super::remote::Remote;
use crate::files::confined::{ConfinedPath, Links};
use crate::files::lists::Lists;
use crate::files::names;
use crate::git::{BareMirror, Git, REMOTE, Refs, redact_url};
use halite_sys::signals::StopFlag;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Trees that a worker keeps in memory per remote.
const MAX_TREES: usize = 32;
/// Most links that are followed in a row (`SYMLINK_RECURSE_DEPTH`).
const MAX_LINKS: usize = 100;
/// Mode of a symbolic link in a tree.
const LINK: u32 = 0o120_000;

/// A file of a tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blob {
    pub mode: u32,
    pub oid: String,
}

/// All files of one commit.
#[derive(Debug, Default)]
pub(super) struct Tree {
    blobs: BTreeMap<String, Blob>,
    dirs: Vec<String>,
    links: HashMap<String, String>,
}

/// A mirror, with what this process caches of it.
pub(super) struct Mirror {
    pub remote: Remote,
    bare: BareMirror,
    blobs: PathBuf,
    trees: HashMap<String, Arc<Tree>>,
}

impl Mirror {
    /// The mirror of a remote below `cachedir/gitfs`. Nothing is created yet.
    pub fn new(remote: Remote, top: &Path) -> Mirror {
        Mirror {
            bare: BareMirror::new(
                top.join("mirrors").join(&remote.name),
                &remote.url,
                remote.access.clone(),
                remote.refspecs.clone(),
            ),
            blobs: top.join("blobs"),
            remote,
            trees: HashMap::new(),
        }
    }

    /// The refs as of the last fetch.
    pub fn refs(&mut self) -> Arc<Refs> {
        self.bare.refs()
    }

    /// Fetches; returns whether any ref changed.
    pub fn fetch(&mut self, stop: Option<&StopFlag>) -> io::Result<bool> {
        self.bare.fetch(REMOTE, stop)
    }

    /// While this file exists, the mirror is not fetched (`fileserver.lock`).
    pub fn lock_file(&self) -> PathBuf {
        self.bare.lock_file()
    }

    /// The commit that an environment is served from (`GitProvider.get_tree`).
    fn commit(&mut self, env: &str) -> Option<String> {
        if !self.remote.exposes(env) {
            return None;
        }
        let refs = self.refs();
        let wanted = self.remote.reference(env);
        let fallback = Some(self.remote.fallback.clone()).filter(|f| !f.is_empty());
        [wanted, fallback].into_iter().flatten().find_map(|name| {
            let kinds = &self.remote.ref_types;
            kinds.iter().find_map(|kind| match kind.as_str() {
                "branch" => refs.get(&format!("refs/remotes/origin/{name}")).cloned(),
                "tag" => refs.get(&format!("refs/tags/{name}")).cloned(),
                _ => self.bare.commit_of_hash(&name),
            })
        })
    }

    /// All files of an environment.
    fn tree(&mut self, env: &str) -> Option<Arc<Tree>> {
        let commit = self.commit(env)?;
        if let Some(tree) = self.trees.get(&commit) {
            return Some(tree.clone());
        }
        let tree = read_tree(self.bare.dir(), &commit)
            .inspect_err(|e| log::error!("gitfs: {}: {e}", redact_url(&self.remote.url)))
            .ok()?;
        let tree = Arc::new(tree);
        if self.trees.len() >= MAX_TREES {
            self.trees.clear();
        }
        self.trees.insert(commit, tree.clone());
        Some(tree)
    }

    /// The file at a path as minions name it.
    pub fn find(&mut self, path: &str, env: &str) -> Option<Blob> {
        let path = names::inside(path)?;
        let path = match self.remote.mountpoint(env).as_str() {
            "" => path.as_str(),
            mountpoint => path.strip_prefix(mountpoint)?.strip_prefix('/')?,
        };
        let path = names::join(&self.remote.root(env), path);
        let tree = self.tree(env)?;
        tree.file(names::inside(&path)?)
    }

    /// Adds the files of an environment to `lists`.
    pub fn add_to(&mut self, lists: &mut Lists, env: &str) {
        let Some(tree) = self.tree(env) else {
            return;
        };
        let (root, mountpoint) = (self.remote.root(env), self.remote.mountpoint(env));
        let shown = |path: &str| {
            let rel = match root.as_str() {
                "" => path,
                root => path.strip_prefix(root)?.strip_prefix('/')?,
            };
            Some(match mountpoint.as_str() {
                "" => rel.to_owned(),
                mountpoint => names::join(mountpoint, rel),
            })
        };
        lists
            .files
            .extend(tree.blobs.keys().filter_map(|path| shown(path)));
        lists
            .dirs
            .extend(tree.dirs.iter().filter_map(|path| shown(path)));
        if !mountpoint.is_empty() {
            lists.dirs.push(mountpoint.clone());
        }
        for (path, target) in &tree.links {
            if let Some(path) = shown(path) {
                lists.links.entry(path).or_insert_with(|| target.clone());
            }
        }
    }

    /// The path of a file with the content of `blob`, which is extracted from the repository when first needed.
    pub fn extract(&self, blob: &Blob) -> io::Result<ConfinedPath> {
        let rel = format!("{:.2}/{}", blob.oid, blob.oid);
        let place = ConfinedPath {
            root: self.blobs.clone(),
            rel,
            links: Links::Never,
        };
        if place.stat().is_some() {
            return Ok(place);
        }
        let path = self.blobs.join(&place.rel);
        let dir = path.parent().unwrap_or(&self.blobs);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)?;
        let temp = dir.join(format!(".{}.{}", blob.oid, std::process::id()));
        let mut options = File::options();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temp)?;
        let done = Git::local(self.bare.dir())
            .run_into(&["cat-file", "blob", &blob.oid], file)
            .and_then(|()| std::fs::rename(&temp, &path));
        if done.is_err() {
            // An incomplete file is useless.
            let _ = std::fs::remove_file(&temp);
        }
        done.map(|()| place)
    }
}

impl Tree {
    fn file(&self, mut path: String) -> Option<Blob> {
        for _ in 0..MAX_LINKS {
            let blob = self.blobs.get(&path)?;
            if blob.mode != LINK {
                return Some(blob.clone());
            }
            let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
            let target = self.links.get(&path)?;
            path = names::inside(&names::join(dir, target))?;
        }
        None
    }
}

fn read_tree(dir: &Path, commit: &str) -> io::Result<Tree> {
    let git = Git::local(dir);
    let output = git.run(&["ls-tree", "-r", "-t", "-z", "--full-tree", commit], b"")?;
    let mut tree = Tree::default();
    for entry in output.split(|b| *b == 0) {
        let Some((mode, kind, oid, path)) = parse_entry(entry) else {
            continue;
        };
        match kind {
            "tree" => tree.dirs.push(path),
            "blob" => {
                tree.blobs.insert(path, Blob { mode, oid });
            }
            // Submodules are not served.
            _ => {}
        }
    }
    let links: Vec<(String, String)> = tree
        .blobs
        .iter()
        .filter(|(_, blob)| blob.mode == LINK)
        .map(|(path, blob)| (path.clone(), blob.oid.clone()))
        .collect();
    if !links.is_empty() {
        let input: String = links.iter().map(|(_, oid)| format!("{oid}\n")).collect();
        let output = git.run(&["cat-file", "--batch"], input.as_bytes())?;
        let mut rest = output.as_slice();
        for (path, _) in links {
            let Some((target, after)) = next_object(rest) else {
                break;
            };
            rest = after;
            tree.links
                .insert(path, String::from_utf8_lossy(target).into_owned());
        }
    }
    Ok(tree)
}

/// `<mode> <kind> <object>\t<path>`; `None` for paths that are not UTF-8.
fn parse_entry(entry: &[u8]) -> Option<(u32, &str, String, String)> {
    let (head, path) = std::str::from_utf8(entry).ok()?.split_once('\t')?;
    let mut fields = head.split(' ');
    let (mode, kind, oid) = (fields.next()?, fields.next()?, fields.next()?);
    Some((
        u32::from_str_radix(mode, 8).ok()?,
        kind,
        oid.to_owned(),
        path.to_owned(),
    ))
}

/// `<object> <kind> <size>\n<content>\n`
fn next_object(output: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = output.iter().position(|b| *b == b'\n')?;
    let head = std::str::from_utf8(&output[..end]).ok()?;
    let size: usize = head.rsplit(' ').next()?.parse().ok()?;
    let content = output.get(end + 1..end + 1 + size)?;
    Some((content, output.get(end + 2 + size..)?))
}
