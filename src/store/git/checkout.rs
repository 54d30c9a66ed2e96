//! Commits of a repository as directories that never change: one gets its name when it is complete.

use super::bare::Bare;
use halite_crypto::HashType;
use halite_sys::daemon::make_dir;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Trees of one repository that are kept, and links to them.
const TREES: usize = 20;

/// A repository below a directory of its own: `mirror`, `trees` and `links`.
pub struct Checkout {
    dir: PathBuf,
    /// The mirror.
    pub bare: Bare,
}

impl Checkout {
    /// The place of a repository's mirror below `dir`.
    pub fn mirror(dir: &Path) -> PathBuf {
        dir.join("mirror")
    }

    /// Directories below `dir`, of the mirror in it.
    pub fn new(dir: PathBuf, bare: Bare) -> Checkout {
        Checkout { dir, bare }
    }

    /// The directory with the files of a commit.
    pub fn tree(&self, commit: &str, limit: Duration) -> io::Result<PathBuf> {
        let tree = self.dir.join("trees").join(commit);
        if !tree.is_dir() {
            make(&tree, |fresh| {
                let index = self.dir.join(format!("index.{}", std::process::id()));
                let done = self.bare.check_out(commit, fresh, &index, limit);
                // Whether it was made or not, it has served.
                let _ = std::fs::remove_file(&index);
                done
            })?;
        }
        Ok(tree)
    }

    /// A directory in which `target` appears under `mountpoint`, a path without `..`.
    pub fn mounted(&self, target: &Path, mountpoint: &str) -> io::Result<PathBuf> {
        let words = format!("{mountpoint}\n{}", target.display());
        let name = HashType::Sha256.hex(words.as_bytes());
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

/// Makes a directory that has its name only once `fill` is done.
fn make(dir: &Path, fill: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let parent = dir.parent().unwrap_or(dir);
    make_dir(parent, 0o700)?;
    tidy(parent);
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let fresh = parent.join(format!(".{name}.{}", std::process::id()));
    make_dir(&fresh, 0o700)?;
    let placed = fill(&fresh).and_then(|()| std::fs::rename(&fresh, dir));
    if placed.is_err() {
        // What is left of it is of no use.
        let _ = std::fs::remove_dir_all(&fresh);
    }
    // Another worker may have been faster.
    if dir.is_dir() { Ok(()) } else { placed }
}

/// Removes the oldest directories when there are many.
fn tidy(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    let mut dirs: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .collect();
    dirs.sort();
    let many = dirs.len().saturating_sub(TREES);
    for (_, dir) in dirs.into_iter().take(many) {
        let _ = std::fs::remove_dir_all(dir);
    }
}
