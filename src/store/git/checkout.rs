//! Commits of a repository as directories that never change. A directory is renamed into place when it is complete.

use super::bare::BareMirror;
use halite_crypto::HashType;
use halite_sys::daemon::make_dir;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Most trees, and most link directories, of one repository.
const MAX_TREES: usize = 20;

/// A repository in its own directory, with `mirror`, `trees` and `links`.
pub struct Checkout {
    dir: PathBuf,
    /// The mirror.
    pub bare: BareMirror,
}

impl Checkout {
    /// The path of the mirror below `dir`.
    pub fn mirror(dir: &Path) -> PathBuf {
        dir.join("mirror")
    }

    /// Checkouts below `dir` from its mirror.
    pub fn new(dir: PathBuf, bare: BareMirror) -> Checkout {
        Checkout { dir, bare }
    }

    /// The directory with the files of a commit.
    pub fn tree(&self, commit: &str, limit: Duration) -> io::Result<PathBuf> {
        let tree = self.dir.join("trees").join(commit);
        if !tree.is_dir() {
            make(&tree, |fresh| {
                let index = self.dir.join(format!("index.{}", std::process::id()));
                let done = self.bare.check_out(commit, fresh, &index, limit);
                // It is no longer needed, and may not exist.
                let _ = std::fs::remove_file(&index);
                done
            })?;
        }
        Ok(tree)
    }

    /// A directory in which `target` is linked at `mountpoint`, a path without `..`.
    pub fn mounted(&self, target: &Path, mountpoint: &str) -> io::Result<PathBuf> {
        let text = format!("{mountpoint}\n{}", target.display());
        let name = HashType::Sha256.hex(text.as_bytes());
        let dir = self.dir.join("links").join(name);
        if !dir.is_dir() {
            make(&dir, |fresh| {
                let link = fresh.join(mountpoint);
                make_dir(link.parent().unwrap_or(fresh), 0o700)?;
                std::os::unix::fs::symlink(target, link)
            })?;
        }
        Ok(dir)
    }
}

/// Creates a directory, which gets its name only after `fill` succeeds.
fn make(dir: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let parent = dir.parent().unwrap_or(dir);
    make_dir(parent, 0o700)?;
    prune(parent);
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let fresh = parent.join(format!(".{name}.{}", std::process::id()));
    make_dir(&fresh, 0o700)?;
    let placed = fill(&fresh).and_then(|()| std::fs::rename(&fresh, dir));
    if placed.is_err() {
        // An incomplete directory is useless.
        let _ = std::fs::remove_dir_all(&fresh);
    }
    // Another worker may have created it meanwhile.
    if dir.is_dir() { Ok(()) } else { placed }
}

/// Removes the oldest directories if there are more than [`MAX_TREES`].
fn prune(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    let mut dirs: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .collect();
    dirs.sort();
    let many = dirs.len().saturating_sub(MAX_TREES);
    for (_, dir) in dirs.into_iter().take(many) {
        let _ = std::fs::remove_dir_all(dir);
    }
}
