//! Opens files below a directory: regular files only, and never anything outside it.

use super::names;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstatat, mkdirat};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Which symbolic links are followed below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All of them, also those that lead out of the root: the operator created them
    /// (`fileserver_followsymlinks: true`, Salt's default).
    Follow,
    /// Those that end below the root.
    Within,
    /// None: for trees that minions write.
    Never,
}

/// A file, as a root and a path below it.
#[derive(Clone, Debug)]
pub struct ConfinedPath {
    /// The directory that must not be left.
    pub root: PathBuf,
    /// A path returned by [`names::inside`].
    pub rel: String,
    /// How links are treated.
    pub links: Links,
}

impl ConfinedPath {
    /// Root and path joined as text, for messages and replies only.
    pub fn display_path(&self) -> String {
        names::join(&self.root.to_string_lossy(), &self.rel)
    }

    /// The metadata of the file, if it is a regular file.
    pub fn stat(&self) -> Option<Metadata> {
        match self.links {
            Links::Follow => {
                let meta = std::fs::metadata(self.root.join(&self.rel)).ok()?;
                meta.is_file().then_some(meta)
            }
            Links::Within | Links::Never => self.walk().ok()?.metadata().ok(),
        }
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// `NotFound` if it is not a regular file, or is outside the root.
    pub fn open(&self) -> io::Result<File> {
        // Opening a device can have side effects.
        if self.links == Links::Follow && !std::fs::metadata(self.root.join(&self.rel))?.is_file() {
            return Err(missing());
        }
        self.open_seen().map(|(file, _)| file)
    }

    /// Like [`ConfinedPath::open`], for what [`ConfinedPath::stat`] has just found to be a regular file; also returns
    /// the metadata of the opened file.
    ///
    /// # Errors
    /// Those of [`ConfinedPath::open`].
    pub fn open_seen(&self) -> io::Result<(File, Metadata)> {
        if self.links != Links::Follow {
            let file = self.walk()?;
            let meta = file.metadata()?;
            return Ok((file, meta));
        }
        // Without O_NONBLOCK, a FIFO created there in between would block the worker.
        let file = File::options()
            .read(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
            .open(self.root.join(&self.rel))?;
        let meta = file.metadata()?;
        if meta.is_file() {
            Ok((file, meta))
        } else {
            Err(missing())
        }
    }

    /// Descends by directory handles, none of which is a link.
    fn walk(&self) -> io::Result<File> {
        let (root, rest) = match self.links {
            Links::Never => (self.root.clone(), PathBuf::from(&self.rel)),
            _ => {
                let root = std::fs::canonicalize(&self.root)?;
                let path = std::fs::canonicalize(self.root.join(&self.rel))?;
                let rest = path.strip_prefix(&root).map_err(|_| missing())?.to_owned();
                (root, rest)
            }
        };
        let (dir, name) = parent(&root, &rest, None)?;
        let stat = fstatat(&dir, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if stat.st_mode & nix::libc::S_IFMT != nix::libc::S_IFREG {
            return Err(missing());
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        regular(openat(&dir, name.as_str(), flags | OFlag::O_NOCTTY, Mode::empty())?.into())
    }
}

/// Opens a file below `root` for writing, and creates missing directories. No link is
/// followed and only a regular file is opened. New files have mode 0600, new directories 0700.
///
/// # Errors
/// Those of the file system.
pub fn create(root: &Path, rel: &str, truncate: bool) -> io::Result<File> {
    let (dir, name) = parent(root, Path::new(rel), Some(0o700))?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mode = Mode::from_bits_truncate(0o600);
    let file = regular(openat(&dir, name.as_str(), flags | OFlag::O_CLOEXEC, mode)?.into())?;
    if truncate {
        file.set_len(0)?;
    }
    Ok(file)
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

/// Opens the parent directory of a path below `root`; also returns the last name of the path. Only the root may be
/// a link. Missing directories are created if `make` is set, which is their mode.
///
/// # Errors
/// `NotFound` if the path leads out of the root or does not name a file; else those of the file system.
pub fn parent(root: &Path, rest: &Path, make: Option<u32>) -> io::Result<(OwnedFd, String)> {
    let mut dir = open_dir(root)?;
    let text = rest.to_str().ok_or_else(missing)?;
    let mut names: Vec<&str> = text.split('/').collect();
    let last = names.pop().unwrap_or_default();
    if [".", "..", ""].contains(&last) {
        return Err(missing());
    }
    for name in names {
        if ["", ".", ".."].contains(&name) {
            return Err(missing());
        }
        if let Some(mode) = make {
            match mkdirat(&dir, name, Mode::from_bits_truncate(mode)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        dir = openat(&dir, name, flags, Mode::empty())?;
    }
    Ok((dir, last.to_owned()))
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(missing())
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path();
        std::fs::create_dir_all(dir.join("root/sub")).unwrap();
        std::fs::write(dir.join("root/a"), "a").unwrap();
        std::fs::write(dir.join("root/sub/b"), "b").unwrap();
        std::fs::write(dir.join("secret"), "s").unwrap();
        symlink("../secret", dir.join("root/out")).unwrap();
        symlink(dir.join("secret"), dir.join("root/absolute")).unwrap();
        symlink("..", dir.join("root/up")).unwrap();
        symlink("sub/b", dir.join("root/in")).unwrap();
        symlink("loop", dir.join("root/loop")).unwrap();
        nix::unistd::mkfifo(&dir.join("root/fifo"), Mode::from_bits_truncate(0o600)).unwrap();
        top
    }

    fn readable(top: &tempfile::TempDir, rel: &str, links: Links) -> bool {
        let place = ConfinedPath {
            root: top.path().join("root"),
            rel: rel.into(),
            links,
        };
        let found = place.stat().is_some();
        assert_eq!(found, place.open().is_ok(), "{rel}");
        found
    }

    #[test]
    fn links_are_followed_only_as_configured() {
        let top = tree();
        for (rel, follow, within, never) in [
            ("a", true, true, true),
            ("sub/b", true, true, true),
            ("in", true, true, false),
            ("out", true, false, false),
            ("absolute", true, false, false),
            ("up/secret", true, false, false),
            ("up/root/a", true, true, false),
            ("loop", false, false, false),
            ("sub", false, false, false),
            ("a/b", false, false, false),
            ("none", false, false, false),
        ] {
            assert_eq!(readable(&top, rel, Links::Follow), follow, "{rel}");
            assert_eq!(readable(&top, rel, Links::Within), within, "{rel}");
            assert_eq!(readable(&top, rel, Links::Never), never, "{rel}");
        }
    }

    #[test]
    fn a_fifo_does_not_block() {
        let top = tree();
        for links in [Links::Follow, Links::Within, Links::Never] {
            assert!(!readable(&top, "fifo", links));
        }
    }

    #[test]
    fn new_files_stay_below_the_root() {
        let top = tree();
        let root = top.path().join("root");
        create(&root, "new/deep/file", true).unwrap();
        assert!(root.join("new/deep/file").is_file());
        for bad in [
            "out", "absolute", "up/x", "loop", "sub", "fifo", "..", "../x", "a/x", "", "x/../y",
        ] {
            assert!(create(&root, bad, true).is_err(), "{bad}");
        }
        assert_eq!(std::fs::read(top.path().join("secret")).unwrap(), b"s");
    }
}
