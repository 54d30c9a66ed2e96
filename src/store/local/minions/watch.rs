//! Which files of some directories have changed, told by the kernel.

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::statfs::statfs;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File systems of this host, by their magic numbers (`statfs(2)`): ext, XFS, Btrfs, tmpfs, overlay, ZFS,
/// F2FS, bcachefs.
const LOCAL: [u32; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x794c_7630,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
];

/// A look at directories whose files come and go by renaming, or are written where they stand.
#[derive(Debug)]
pub(super) struct Watch {
    kernel: Inotify,
    /// Device and inode of each directory.
    dirs: Vec<(u64, u64)>,
}

/// What has happened since it was last asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// Files of these names have changed; a name may stand there twice.
    Of(Vec<OsString>),
    /// More than the kernel remembers: each file may have changed.
    Many,
    /// A directory is no longer the one that was watched: nothing will be told any more.
    Gone,
}

impl Watch {
    /// Watches directories that exist on file systems that only this host writes to; `None` where that
    /// cannot be, or where there are none.
    pub(super) fn new(dirs: &[PathBuf]) -> Option<Watch> {
        if dirs.is_empty() || !dirs.iter().all(|dir| local(dir)) {
            return None;
        }
        let kernel = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .inspect_err(|e| log::debug!("grains are looked at one by one: inotify: {e}"))
            .ok()?;
        let what = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        // Their places first: a directory put there in between is then another than the one noted.
        let places = dirs.iter().map(|dir| place(dir)).collect::<Option<_>>()?;
        for dir in dirs {
            kernel.add_watch(dir, what).ok()?;
        }
        let watch = Watch {
            kernel,
            dirs: places,
        };
        watch.is_of(dirs).then_some(watch)
    }

    /// Whether the watched directories are those at these paths: one above them may have been renamed,
    /// or a file system mounted over them.
    pub(super) fn is_of(&self, dirs: &[PathBuf]) -> bool {
        let now = dirs.iter().map(|dir| place(dir));
        now.eq(self.dirs.iter().map(|dir| Some(*dir)))
    }

    /// Takes what has happened since it was last asked.
    pub(super) fn changes(&self) -> Changes {
        let gone = AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_UNMOUNT
            | AddWatchFlags::IN_IGNORED;
        let mut names = Vec::new();
        let mut many = false;
        loop {
            let events = match self.kernel.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) if many => return Changes::Many,
                Err(Errno::EAGAIN) => return Changes::Of(names),
                Err(Errno::EINTR) => continue,
                Err(e) => {
                    log::warn!("changes of grains are not told any more: inotify: {e}");
                    return Changes::Gone;
                }
            };
            for event in events {
                if event.mask.intersects(gone) {
                    return Changes::Gone;
                }
                many |= event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
                names.extend(event.name);
            }
        }
    }
}

fn place(dir: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(dir).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Whether the kernel sees every change of a directory. It tells nothing of what another host writes.
fn local(dir: &Path) -> bool {
    LOCAL.contains(&statfs(dir).map_or(0, |fs| fs.filesystem_type().0 as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_sys::daemon::write_atomic;

    fn names(changes: Changes) -> Vec<String> {
        let Changes::Of(names) = changes else {
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
    fn every_way_of_changing_a_file_is_told() {
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
        assert_eq!(watch.changes(), Changes::Gone);
        assert!(!watch.is_of(&[dir.path().to_owned()]));
    }
}
