//! Watches directories for changed files, with inotify.

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::statfs::statfs;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Magic numbers (`statfs(2)`) of file systems that only this host writes to: ext, XFS, Btrfs, tmpfs, overlay, ZFS,
/// F2FS, bcachefs.
const LOCAL_FILE_SYSTEMS: [u32; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x794c_7630,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
];

/// A watch on directories whose files are created, renamed, removed or written in place.
#[derive(Debug)]
pub(super) struct Watch {
    kernel: Inotify,
    /// Device and inode of each directory.
    dirs: Vec<(u64, u64)>,
}

/// Changes since the last call of [`Watch::changes`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// Files with these names have changed; a name may occur twice.
    Files(Vec<OsString>),
    /// The kernel's queue has overflowed: any file may have changed.
    Overflow,
    /// A directory is no longer the one that was watched: there will be no more notifications.
    Lost,
}

impl Watch {
    /// Watches directories on file systems that only this host writes to. `None` if `dirs` is empty, or one
    /// of them does not exist, is on another file system or cannot be watched.
    pub(super) fn new(dirs: &[PathBuf]) -> Option<Watch> {
        if dirs.is_empty() || !dirs.iter().all(|dir| is_local(dir)) {
            return None;
        }
        let kernel = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .inspect_err(|e| {
                log::debug!("inotify is not available, so grains are checked file by file: {e}")
            })
            .ok()?;
        let what = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        // Inodes first: a directory that is replaced in between is then detected below.
        let inodes = dirs.iter().map(|dir| inode(dir)).collect::<Option<_>>()?;
        for dir in dirs {
            kernel.add_watch(dir, what).ok()?;
        }
        let watch = Watch {
            kernel,
            dirs: inodes,
        };
        watch.is_of(dirs).then_some(watch)
    }

    /// Whether the watched directories are still those at these paths: a parent may have been renamed,
    /// or a file system mounted over them.
    pub(super) fn is_of(&self, dirs: &[PathBuf]) -> bool {
        let now = dirs.iter().map(|dir| inode(dir));
        now.eq(self.dirs.iter().map(|dir| Some(*dir)))
    }

    /// Reads the changes since the last call.
    pub(super) fn changes(&self) -> Changes {
        let lost = AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_UNMOUNT
            | AddWatchFlags::IN_IGNORED;
        let mut names = Vec::new();
        let mut overflow = false;
        loop {
            let events = match self.kernel.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) if overflow => return Changes::Overflow,
                Err(Errno::EAGAIN) => return Changes::Files(names),
                Err(Errno::EINTR) => continue,
                Err(e) => {
                    log::warn!("inotify failed, so grains are checked file by file: {e}");
                    return Changes::Lost;
                }
            };
            for event in events {
                if event.mask.intersects(lost) {
                    return Changes::Lost;
                }
                overflow |= event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
                names.extend(event.name);
            }
        }
    }
}

/// Device and inode of a directory.
fn inode(dir: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(dir).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Whether inotify reports every change of a directory. It does not report what another host writes.
fn is_local(dir: &Path) -> bool {
    LOCAL_FILE_SYSTEMS.contains(&statfs(dir).map_or(0, |fs| fs.filesystem_type().0 as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_sys::daemon::write_atomic;

    fn names(changes: Changes) -> Vec<String> {
        let Changes::Files(names) = changes else {
            panic!("{changes:?}");
        };
        let mut names: Vec<String> = names
            .into_iter()
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    #[test]
    fn every_kind_of_change_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        assert!(Watch::new(&[path("missing")]).is_none());
        std::fs::write(path("old"), "x").unwrap();
        std::fs::write(path("moved"), "x").unwrap();
        let watch = Watch::new(&[dir.path().to_owned()]).unwrap();
        assert!(names(watch.changes()).is_empty());
        write_atomic(&path("new"), b"x", 0o600).unwrap();
        assert_eq!(names(watch.changes()), ["new"]);
        std::fs::write(path("new"), "y").unwrap();
        std::fs::remove_file(path("old")).unwrap();
        std::fs::rename(path("moved"), path("here")).unwrap();
        assert_eq!(names(watch.changes()), ["here", "moved", "new", "old"]);
        assert!(names(watch.changes()).is_empty());
        let (bank, aside) = (path("above/bank"), path("aside"));
        std::fs::create_dir_all(&bank).unwrap();
        let banks = [bank];
        let other = Watch::new(&banks).unwrap();
        std::fs::rename(path("above"), &aside).unwrap();
        assert!(!other.is_of(&banks));
        std::fs::create_dir_all(&banks[0]).unwrap();
        assert!(!other.is_of(&banks));
        std::fs::remove_dir_all(dir.path()).unwrap();
        assert_eq!(watch.changes(), Changes::Lost);
        assert!(!watch.is_of(&[dir.path().to_owned()]));
    }
}
