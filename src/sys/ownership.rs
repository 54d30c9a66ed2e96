//! Changing the owner of files, as root, in directories that the new owner may rearrange meanwhile.
//!
//! No name is looked up twice: a file is opened beneath the handle of its directory, then examined and changed
//! through its own handle. On the way to the top of a tree, only root's links are followed; below it, none. Only
//! directories and regular files with one link change their owner: a second link may be to a file outside.

use crate::held_path::{HANDLE, handle_by_links_of_root, kind};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Gid, Uid, User, fchownat};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// Deepest level of directories that is visited.
const DEEPEST: usize = 32;

/// Gives the directory or regular file at `path` to the account `name`, unless it has it already. Does nothing
/// if there is no such account, or for another kind of file.
///
/// # Errors
/// The path leads through a link that root does not own, or any I/O error.
pub fn chown(path: &Path, name: &str) -> io::Result<()> {
    if let Some(account) = User::from_name(name)? {
        give(&handle_by_links_of_root(path)?, path, &account)?;
    }
    Ok(())
}

/// Gives `path` and everything below it to the account `name`, except what is called as in `spared`.
///
/// # Errors
/// Those of [`chown`].
pub fn chown_tree(path: &Path, name: &str, spared: &[&str]) -> io::Result<()> {
    let Some(account) = User::from_name(name)? else {
        return Ok(());
    };
    let top = handle_by_links_of_root(path)?;
    if give(&top, path, &account)? {
        below(&top, path, &account, spared, 0)?;
    }
    Ok(())
}

/// Gives what is at `path`, be it a link itself, to a user and a group; whether that changed something. Nothing happens
/// if there is nothing.
///
/// # Errors
/// The path leads through a link that root does not own, or any I/O error.
pub fn give_to(path: &Path, user: Option<u32>, group: Option<u32>) -> io::Result<bool> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let absent = |e: &io::Error| {
        matches!(
            e.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
    };
    let dir = match handle_by_links_of_root(parent) {
        Err(e) if absent(&e) => return Ok(false),
        dir => dir?,
    };
    let file = match openat(&dir, name, HANDLE, Mode::empty()) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(false),
        file => file?,
    };
    let stat = fstat(&file)?;
    if user.is_none_or(|u| u == stat.st_uid) && group.is_none_or(|g| g == stat.st_gid) {
        return Ok(false);
    }
    let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
    fchownat(&file, "", user, group, AtFlags::AT_EMPTY_PATH)?;
    Ok(true)
}

/// Gives an open file to the account; returns whether it is a directory.
fn give(file: &impl AsFd, path: &Path, account: &User) -> io::Result<bool> {
    let stat = fstat(file)?;
    match kind(&stat) {
        SFlag::S_IFDIR => {}
        SFlag::S_IFREG if stat.st_nlink == 1 => {}
        SFlag::S_IFREG => {
            if stat.st_uid != account.uid.as_raw() {
                log::warn!(
                    "{} keeps its owner, because it has another link; remove one of them",
                    path.display()
                );
            }
            return Ok(false);
        }
        _ => return Ok(false),
    }
    if stat.st_uid != account.uid.as_raw() {
        let (uid, gid) = (Some(account.uid), Some(account.gid));
        fchownat(file, "", uid, gid, AtFlags::AT_EMPTY_PATH)?;
    }
    Ok(kind(&stat) == SFlag::S_IFDIR)
}

fn below(
    dir: &OwnedFd,
    path: &Path,
    account: &User,
    spared: &[&str],
    depth: usize,
) -> io::Result<()> {
    if depth == DEEPEST {
        log::warn!("{}: what is below keeps its owner", path.display());
        return Ok(());
    }
    for name in names(dir)? {
        if spared.iter().any(|s| name == *s) {
            continue;
        }
        let file = match openat(dir, name.as_os_str(), HANDLE, Mode::empty()) {
            // It is gone since.
            Err(Errno::ENOENT) => continue,
            file => file?,
        };
        let path = path.join(&name);
        if give(&file, &path, account)? {
            below(&file, &path, account, spared, depth + 1)?;
        }
    }
    Ok(())
}

/// Names in a directory, through its handle.
fn names(dir: &OwnedFd) -> io::Result<Vec<OsString>> {
    let listing = std::fs::read_dir(format!("/proc/self/fd/{}", dir.as_raw_fd()))?;
    listing.map(|entry| Ok(entry?.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// An account that every system has and that owns nothing.
    const NAME: &str = "nobody";

    /// A directory of the account and one of root with a file; `None` without root's rights.
    fn places() -> Option<(tempfile::TempDir, u32)> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root changes owners");
            return None;
        }
        let user = User::from_name(NAME).unwrap()?;
        let dir = tempfile::tempdir().unwrap();
        for name in ["tree", "tree/a", "secret"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["tree/a/b", "secret/b"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        Some((dir, user.uid.as_raw()))
    }

    fn owner(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().uid()
    }

    #[test]
    fn what_is_below_changes_its_owner_and_what_is_linked_does_not() {
        let Some((dir, uid)) = places() else { return };
        let (tree, secret) = (dir.path().join("tree"), dir.path().join("secret"));
        symlink(&secret, tree.join("link")).unwrap();
        fs::hard_link(secret.join("b"), tree.join("second name")).unwrap();
        fs::create_dir(tree.join("jobs")).unwrap();
        chown_tree(&tree, NAME, &["jobs"]).unwrap();
        for (name, is) in [
            ("", uid),
            ("a", uid),
            ("a/b", uid),
            ("jobs", 0),
            ("link", 0),
        ] {
            assert_eq!(owner(&tree.join(name)), is, "{name}");
        }
        assert_eq!(owner(&secret), 0);
        assert_eq!(owner(&secret.join("b")), 0);
    }

    #[test]
    fn the_way_leads_through_links_of_root_only() {
        let Some((dir, uid)) = places() else { return };
        let (tree, secret) = (dir.path().join("tree"), dir.path().join("secret"));
        symlink(&secret, tree.join("link")).unwrap();
        symlink("../tree/./a", dir.path().join("secret/way")).unwrap();
        lchown(tree.join("link"), Some(uid), None).unwrap();
        assert!(chown_tree(&tree.join("link"), NAME, &[]).is_err());
        assert!(chown(&tree.join("link/b"), NAME).is_err());
        assert_eq!((owner(&secret), owner(&secret.join("b"))), (0, 0));
        chown_tree(&secret.join("way"), NAME, &[]).unwrap();
        assert_eq!((owner(&tree), owner(&tree.join("a/b"))), (0, uid));
    }

    #[test]
    fn directories_that_become_links_meanwhile_lead_nowhere() {
        let Some((dir, _)) = places() else { return };
        let (tree, secret) = (dir.path().join("tree"), dir.path().join("secret"));
        symlink(&secret, tree.join("link")).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (a, link) = (tree.join("a"), tree.join("link"));
                while !done.load(Ordering::Relaxed) {
                    renameat2(AT_FDCWD, &a, AT_FDCWD, &link, RenameFlags::RENAME_EXCHANGE).unwrap();
                }
            });
            for _ in 0..2000 {
                chown_tree(&tree, NAME, &[]).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!((owner(&secret), owner(&secret.join("b"))), (0, 0));
    }

    #[test]
    fn depth_is_limited() {
        let Some((dir, uid)) = places() else { return };
        let mut path = dir.path().join("tree");
        for _ in 0..DEEPEST + 2 {
            path.push("d");
            fs::create_dir(&path).unwrap();
        }
        chown_tree(&dir.path().join("tree"), NAME, &[]).unwrap();
        assert_eq!(owner(&path), 0);
        assert_eq!(owner(&dir.path().join("tree/d/d")), uid);
    }
}
