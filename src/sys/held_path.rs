//! Paths that nobody can bend while they are used, for changes that root makes in directories of other accounts.
//!
//! The directory of a file is held open, and the path to use leads through its handle: whoever exchanges a directory above
//! for a link gains nothing. On the way to it, a link is followed if root or this process's account owns it, or if it leads
//! to something of its own owner (as `CHASE_SAFE` of systemd does).

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::{Gid, Uid, fchownat};
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// Links that are followed on the way to a path, as the kernel does.
const MOST_LINKS: usize = 40;
pub(crate) const HANDLE: OFlag = OFlag::O_PATH
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// What becomes of a link in the last place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastLink {
    /// It is followed like those on the way.
    Follow,
    /// It is the file meant.
    Keep,
}

/// A name in a directory that is held open.
#[derive(Debug)]
pub struct HeldPath {
    dir: OwnedFd,
    /// Nothing: the directory itself.
    name: Option<OsString>,
    path: PathBuf,
}

impl HeldPath {
    /// Looks up a path. Its last part need not exist.
    ///
    /// # Errors
    /// The path leads through a link of another account to something that is not of that account, or any I/O error.
    pub fn of(path: &Path, last: LastLink) -> io::Result<HeldPath> {
        // `link/` is what the link leads to.
        let last = match path.as_os_str().as_encoded_bytes() {
            [.., b'/'] | [.., b'/', b'.'] => LastLink::Follow,
            _ => last,
        };
        let (dir, name) = match without_links(path, last) {
            Some((dir, name)) => (dir, Some(name)),
            None => Walk::new(path, LinkRule::OfAnyToItsOwn)?.run(last)?,
        };
        let path = match (&name, by_handle(&dir)) {
            (_, None) => path.to_owned(),
            (Some(name), Some(handle)) => handle.join(name),
            (None, Some(handle)) => handle,
        };
        Ok(HeldPath { dir, name, path })
    }

    /// The path to use, as long as this is held.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of the path to use.
    pub fn dir(&self) -> &Path {
        match self.path.parent() {
            Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
            Some(dir) => dir,
            None => &self.path,
        }
    }

    /// A handle of the file itself, or of a link in its place.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn handle(&self) -> io::Result<FileHandle> {
        let fd = match &self.name {
            Some(name) => openat(&self.dir, name.as_os_str(), HANDLE, Mode::empty())?,
            None => self.dir.try_clone()?,
        };
        Ok(FileHandle {
            file: File::from(fd),
            path: self.path.clone(),
        })
    }

    /// Opens the file; fails with `ELOOP` if it has become a link meanwhile.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        if self.name.is_some() {
            options.custom_flags(nix::libc::O_NOFOLLOW);
        }
        options.open(&self.path)
    }
}

impl AsRef<Path> for HeldPath {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

/// A file that can be examined and changed, whatever becomes of its name (`O_PATH`).
#[derive(Debug)]
pub struct FileHandle {
    file: File,
    path: PathBuf,
}

impl FileHandle {
    /// Its metadata.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Changes its owner and group; nothing leaves one as it is.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn chown(&self, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        Ok(fchownat(
            &self.file,
            "",
            user,
            group,
            AtFlags::AT_EMPTY_PATH,
        )?)
    }

    /// Sets its permissions, twelve bits.
    ///
    /// # Errors
    /// Any I/O error; `EOPNOTSUPP` for a link.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let path = by_handle(&self.file);
        let path = path.as_deref().unwrap_or(&self.path);
        std::fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
    }
}

/// The path that leads through an open handle; nothing without /proc, as in some chroots: then names have to do.
fn by_handle(handle: &impl AsRawFd) -> Option<PathBuf> {
    static HAS_PROC: OnceLock<bool> = OnceLock::new();
    let has_proc = *HAS_PROC.get_or_init(|| Path::new("/proc/self/fd").is_dir());
    has_proc.then(|| PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd())))
}

/// The directory of a path, by one call of the kernel; nothing if a link is in the way, the path has no last name, or the
/// kernel is too old.
fn without_links(path: &Path, last: LastLink) -> Option<(OwnedFd, OsString)> {
    let name = path.file_name()?;
    let dir = match path.parent()? {
        dir if dir.as_os_str().is_empty() => Path::new("."),
        dir => dir,
    };
    let how = OpenHow::new()
        .flags(HANDLE | OFlag::O_DIRECTORY)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    let dir = openat2(AT_FDCWD, dir, how).ok()?;
    let is_link = || {
        let stat = fstatat(&dir, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| kind(&stat) == SFlag::S_IFLNK)
    };
    (last == LastLink::Keep || !is_link()).then(|| (dir, name.to_owned()))
}

/// Handle of the file at `path`, on the way to which only links of root are followed, the last one as well.
///
/// # Errors
/// The path leads through a link that root does not own, or any I/O error.
pub(crate) fn handle_by_links_of_root(path: &Path) -> io::Result<OwnedFd> {
    let (dir, name) = Walk::new(path, LinkRule::OfRoot)?.run(LastLink::Follow)?;
    Ok(match name {
        Some(name) => openat(&dir, name.as_os_str(), HANDLE, Mode::empty())?,
        None => dir,
    })
}

/// A directory that is held open, for root to work in although it belongs to another account.
#[derive(Debug)]
pub struct HeldDir {
    _dir: OwnedFd,
    path: PathBuf,
}

impl HeldDir {
    /// Looks up a directory; on the way to it only links of root are followed.
    ///
    /// # Errors
    /// The path leads through another link, to no directory, or any I/O error; or there is no `/proc`.
    pub fn by_links_of_root(path: &Path) -> io::Result<HeldDir> {
        let dir = handle_by_links_of_root(path)?;
        if kind(&fstat(&dir)?) != SFlag::S_IFDIR {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let held = by_handle(&dir).ok_or(io::ErrorKind::Unsupported)?;
        Ok(HeldDir {
            _dir: dir,
            path: held,
        })
    }

    /// A path to use, as long as this is held: whatever becomes of the directory's name, it leads there.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Which links are followed.
#[derive(Clone, Copy)]
enum LinkRule {
    /// Those of root that have no second name.
    OfRoot,
    /// Those of root and of this process's account, and others to what their owner owns.
    OfAnyToItsOwn,
}

/// A link that was followed and has to lead to something of its owner.
struct Followed {
    owner: u32,
    /// How many names were left to look up when it was met: when no more are left again, its end is reached.
    left: usize,
    name: OsString,
}

/// A lookup, one name at a time.
struct Walk<'a> {
    path: &'a Path,
    rule: LinkRule,
    at: OwnedFd,
    /// Names that are left, the next one last.
    left: Vec<OsString>,
    links: usize,
    followed: Vec<Followed>,
}

impl<'a> Walk<'a> {
    fn new(path: &'a Path, rule: LinkRule) -> io::Result<Walk<'a>> {
        Ok(Walk {
            path,
            rule,
            at: openat(AT_FDCWD, ".", HANDLE | OFlag::O_DIRECTORY, Mode::empty())?,
            left: names(path),
            links: 0,
            followed: Vec::new(),
        })
    }

    fn run(mut self, last: LastLink) -> io::Result<(OwnedFd, Option<OsString>)> {
        while let Some(name) = self.left.pop() {
            if name == "/" {
                self.at = openat(AT_FDCWD, "/", HANDLE | OFlag::O_DIRECTORY, Mode::empty())?;
                continue;
            }
            let is_last = self.left.is_empty() && name != "..";
            let next = match openat(&self.at, name.as_os_str(), HANDLE, Mode::empty()) {
                Err(Errno::ENOENT) if is_last => {
                    self.check(&fstat(&self.at)?)?;
                    return Ok((self.at, Some(name)));
                }
                next => next?,
            };
            let stat = fstat(&next)?;
            let is_link = kind(&stat) == SFlag::S_IFLNK;
            if is_last && !(is_link && last == LastLink::Follow) {
                self.check(&stat)?;
                return Ok((self.at, Some(name)));
            }
            if is_link {
                self.follow(&next, &stat, name)?;
            } else {
                self.at = next;
                self.check(&stat)?;
            }
        }
        Ok((self.at, None))
    }

    fn follow(&mut self, link: &OwnedFd, stat: &FileStat, name: OsString) -> io::Result<()> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::ELOOP.into());
        }
        match self.rule {
            LinkRule::OfRoot => {
                if stat.st_uid != 0 || stat.st_nlink != 1 {
                    return Err(io::Error::other(format!(
                        "{} leads through the link {}, which root does not own and does not follow",
                        self.path.display(),
                        name.display()
                    )));
                }
            }
            LinkRule::OfAnyToItsOwn => {
                if stat.st_uid != 0 && stat.st_uid != nix::unistd::geteuid().as_raw() {
                    self.followed.push(Followed {
                        owner: stat.st_uid,
                        left: self.left.len(),
                        name: name.clone(),
                    });
                }
                // Links such as /proc/1/root lead elsewhere than their text says.
                if fstatfs(link)?.filesystem_type() == PROC_SUPER_MAGIC && name != "self" {
                    let through = OFlag::O_PATH | OFlag::O_CLOEXEC;
                    self.at = openat(&self.at, name.as_os_str(), through, Mode::empty())?;
                    return self.check(&fstat(&self.at)?);
                }
            }
        }
        self.left.extend(names(Path::new(&readlinkat(link, "")?)));
        Ok(())
    }

    /// Checks the links whose end has been reached.
    fn check(&mut self, end: &FileStat) -> io::Result<()> {
        let left = self.left.len();
        while let Some(link) = self.followed.pop_if(|link| link.left >= left) {
            if link.owner != end.st_uid {
                return Err(io::Error::other(format!(
                    "{} leads through the link {:?} of the account {}, which may not lead to what that account does not own",
                    self.path.display(),
                    link.name,
                    link.owner
                )));
            }
        }
        Ok(())
    }
}

/// The type of a file.
pub(crate) fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter(|c| *c != Component::CurDir);
    parts.map(|c| c.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{RenameFlags, renameat2};
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// An id that owns nothing.
    const STRANGER: u32 = 65_530;

    fn read(path: &Path) -> io::Result<String> {
        let held = HeldPath::of(path, LastLink::Follow)?;
        io::read_to_string(held.open(OpenOptions::new().read(true))?)
    }

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "text").unwrap();
        for (name, to) in [
            ("l", "a/b"),
            ("m", "l/../b/."),
            ("a/up", "../m/file"),
            ("loop", "loop"),
        ] {
            symlink(to, at(name)).unwrap();
        }
        symlink(at("m"), at("far")).unwrap();
        symlink("missing", at("dangling")).unwrap();
        for name in [
            "a/b/file",
            "l/file",
            "m/file",
            "a/up",
            "far/file",
            "far/../up",
        ] {
            assert_eq!(read(&at(name)).unwrap(), "text", "{name}");
        }
        assert_eq!(
            read(&at("loop")).unwrap_err().raw_os_error(),
            Some(Errno::ELOOP as i32)
        );
        assert_eq!(
            read(&at("none/file")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        let new = HeldPath::of(&at("dangling"), LastLink::Follow).unwrap();
        new.open(OpenOptions::new().write(true).create(true))
            .unwrap();
        assert!(at("missing").exists());
        let link = HeldPath::of(&at("far"), LastLink::Keep).unwrap();
        assert!(link.handle().unwrap().metadata().unwrap().is_symlink());
        let here = HeldPath::of(Path::new("."), LastLink::Keep).unwrap();
        assert!(here.handle().unwrap().metadata().unwrap().is_dir());
        assert!(
            HeldPath::of(Path::new("/proc/self/cwd/Cargo.toml"), LastLink::Follow)
                .unwrap()
                .path()
                .exists()
        );
    }

    #[test]
    fn links_of_others_lead_only_to_what_is_theirs() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root changes owners");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["home", "home/own", "secret"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("home/own/f"), "own").unwrap();
        fs::write(at("secret/f"), "secret").unwrap();
        for (name, to) in [
            ("to own", "own"),
            ("to secret", "../secret"),
            ("file", "../secret/f"),
            ("new", "../secret/new"),
        ] {
            symlink(to, at("home").join(name)).unwrap();
            lchown(at("home").join(name), Some(STRANGER), None).unwrap();
        }
        for name in ["home", "home/own", "home/own/f"] {
            lchown(at(name), Some(STRANGER), None).unwrap();
        }
        assert_eq!(read(&at("home/to own/f")).unwrap(), "own");
        for name in [
            "home/to secret/f",
            "home/file",
            "home/new",
            "home/to secret/../secret/f",
        ] {
            let why = read(&at(name)).unwrap_err().to_string();
            assert!(why.contains("of the account 65530"), "{name}: {why}");
        }
        // The link itself may be removed or replaced.
        assert!(HeldPath::of(&at("home/file"), LastLink::Keep).is_ok());
    }

    #[test]
    fn a_directory_that_becomes_a_link_leads_nowhere() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root changes owners");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("d"), dir.path().join("l"));
        fs::create_dir(&real).unwrap();
        fs::create_dir(dir.path().join("secret")).unwrap();
        fs::write(real.join("f"), "own").unwrap();
        fs::write(dir.path().join("secret/f"), "secret").unwrap();
        symlink("secret", &link).unwrap();
        lchown(&link, Some(STRANGER), None).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat2(
                        AT_FDCWD,
                        &real,
                        AT_FDCWD,
                        &link,
                        RenameFlags::RENAME_EXCHANGE,
                    )
                    .unwrap();
                }
            });
            let all = (0..3000).filter_map(|_| read(&real.join("f")).ok());
            let all: std::collections::BTreeSet<String> = all.collect();
            done.store(true, Ordering::Relaxed);
            assert!(all.iter().all(|text| text == "own"), "{all:?}");
        });
    }
}
