//! Pid files, single-instance locks, background start and readiness.

use crate::exit::ExitError;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

use super::safe_open::{self, no_follow};
use super::signals::survive_others;
use nix::fcntl::{Flock, FlockArg, OFlag};

/// Environment variable with the descriptor on which a daemon started in the background reports.
pub const REPORT_FD: &str = "HALITE_REPORT_FD";

/// A lock that only one process can hold; the kernel releases it when the holder exits.
#[derive(Debug)]
pub struct InstanceLock {
    _lock: Flock<File>,
}

impl InstanceLock {
    /// Takes the lock at `path`; `Ok(None)` if another process has it.
    pub fn take(path: &Path) -> io::Result<Option<InstanceLock>> {
        let file = open_plain(path, 0o600)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(InstanceLock { _lock: lock })),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, e)) => Err(e.into()),
        }
    }
}

/// A pid file that is removed when this value is dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the pid of this process, without a trailing newline, as Salt does.
    pub fn write(path: &Path) -> io::Result<PidFile> {
        if let Some(dir) = path.parent() {
            make_dir(dir, 0o755)?;
        }
        write_plain(path, std::process::id().to_string().as_bytes(), 0o644)?;
        Ok(PidFile {
            path: path.to_owned(),
        })
    }

    /// Creates the file, if it is not there, for a daemon whose account may not create files in that directory.
    pub fn reserve(path: &Path) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            make_dir(dir, 0o755)?;
        }
        open_plain(path, 0o644)?.set_permissions(PermissionsExt::from_mode(0o644))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // After privileges are dropped, the directory may not be writable; then the file is emptied instead.
        if std::fs::remove_file(&self.path).is_err() {
            let _ = write_plain(&self.path, b"", 0o644);
        }
    }
}

/// Creates a directory with `mode` unless it exists. Missing parents get 0755.
pub fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    let build = |path: &Path, mode: u32| {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(path)
    };
    if path.is_dir() {
        return Ok(());
    }
    // None of a name alone, which is in the working directory.
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    if let Some(parent) = parent {
        make_dir(parent, 0o755)?;
    }
    build(path, mode)?;
    // The daemon's umask would clear bits of `mode`. Where others may write, it may be something else by now.
    let made = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).bits())
        .open(path)?;
    made.set_permissions(PermissionsExt::from_mode(mode))
}

/// Opens or creates a file that may be in a directory of another account: a regular file with one link, so that
/// root does not write elsewhere.
fn open_plain(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = no_follow();
    options.write(true).create(true).truncate(false).mode(mode);
    safe_open::open_plain(&options, path)
}

/// Writes a file in its place, which [`open_plain`] checks.
fn write_plain(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = open_plain(path, mode)?;
    file.set_permissions(PermissionsExt::from_mode(mode))?;
    file.set_len(0)?;
    file.write_all(content)
}

/// Sets a daemon's umask (0077 unless a mode is given explicitly).
pub fn private_umask() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
}

/// Writes a whole file under a temporary name in the same directory and renames it: readers see either the old
/// content or the new.
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    beside(path, content, mode, |temp| std::fs::rename(temp, path))
}

/// Like [`write_atomic`], but the file must not exist yet.
///
/// # Errors
/// `AlreadyExists` if the file exists, or any other I/O error.
pub fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    beside(path, content, mode, |temp| {
        std::fs::hard_link(temp, path)?;
        std::fs::remove_file(temp)
    })
}

/// Reads a file that can be made anew: if it is missing or `parse` refuses it, it gets the content that `make` gives.
/// Processes that do this at the same time get the same.
///
/// # Errors
/// The file cannot be read, or not be written where it must be.
pub fn read_or_make<T, C: AsRef<[u8]>>(
    path: &Path,
    mode: u32,
    parse: impl Fn(&str) -> Option<T>,
    make: impl Fn() -> C,
) -> io::Result<T> {
    use io::ErrorKind::{AlreadyExists, InvalidData, NotFound};
    let read = || std::fs::read_to_string(path).map(|text| parse(Zeroizing::new(text).trim()));
    match read() {
        Ok(Some(found)) => return Ok(found),
        Err(e) if e.kind() == NotFound => match write_new(path, make().as_ref(), mode) {
            Err(e) if e.kind() != AlreadyExists => return Err(e),
            _ => {}
        },
        Err(e) if e.kind() != InvalidData => return Err(e),
        Ok(None) | Err(_) => {
            log::warn!("{} is damaged; it is made anew", path.display());
            write_atomic(path, make().as_ref(), mode)?;
        }
    }
    read()?.ok_or_else(|| InvalidData.into())
}

/// Writes a temporary file next to `path`, then calls `place` to move it there. Nobody can foretell its name, and
/// it must not exist: whoever may write to the directory cannot make this process write elsewhere.
fn beside(
    path: &Path,
    content: &[u8],
    mode: u32,
    place: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("a file needs a name"))?;
    let n: u64 = rand::random();
    let temp = dir.join(format!(".{:.200}.{n:016x}~", name.to_string_lossy()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temp)?;
    let written = file.write_all(content).and_then(|()| place(&temp));
    if written.is_err() {
        let _ = std::fs::remove_file(&temp);
    }
    written
}

/// The child's end of a background start (`-d`): the starting process waits until the daemon is ready or has
/// reported why it is not.
#[derive(Debug, Default)]
pub struct Report(Option<File>);

impl Report {
    /// Takes the descriptor from the environment if this is a background start.
    pub fn inherited() -> Report {
        Report(super::process::take_inherited(REPORT_FD))
    }

    /// Whether a starting process waits for the report.
    pub fn is_awaited(&self) -> bool {
        self.0.is_some()
    }

    /// Reports to the starting process that the daemon is ready.
    pub fn ready(&mut self) {
        if let Some(mut f) = self.0.take() {
            let _ = f.write_all(b"ready");
        }
    }

    /// Reports to the starting process why the daemon failed.
    pub fn failed(&mut self, why: &str) {
        if let Some(mut f) = self.0.take() {
            let _ = f.write_all(why.as_bytes());
        }
    }
}

/// The first step of every daemon and of its roles: no stray signal ends it, and SIGUSR1 asks for a report.
pub fn survive_signals() {
    if let Err(e) = survive_others() {
        log::warn!("signals that this process should survive may end it: {e}");
    }
}

/// Whether this process was started by [`start_in_background`] and has not taken its [`Report`] yet. A daemon
/// does not go into the background twice, whatever option asks for it.
pub fn in_background() -> bool {
    let Ok(fd) = std::env::var(REPORT_FD) else {
        return false;
    };
    // Programs started by the daemon inherit the variable but not the pipe.
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    link.is_ok_and(|link| link.to_string_lossy().starts_with("pipe:"))
}

/// Starts this program again in the background with the same arguments except `-d`, and waits for its report.
/// `Ok` once it is ready, otherwise its exit status and the text of the failure.
pub fn start_in_background(
    args: impl IntoIterator<Item = std::ffi::OsString>,
) -> io::Result<Result<(), ExitError>> {
    use std::process::{Command, Stdio};
    let (read, write): (OwnedFd, OwnedFd) = nix::unistd::pipe()?;
    nix::fcntl::fcntl(
        &read,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
    )?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(args)
        .env(REPORT_FD, write.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    drop(write);
    let mut said = String::new();
    File::from(read).read_to_string(&mut said)?;
    if said == "ready" {
        return Ok(Ok(()));
    }
    let status = child.wait()?;
    if said.is_empty() {
        said = format!("the daemon ended before it was ready ({status}); see its log file");
    }
    // One that was told to end before it was ready has not started either.
    let code = status.code().filter(|code| *code != 0);
    Ok(Err(ExitError::new(code.unwrap_or(1), said)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_make_nobody_write_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("other"), "theirs").unwrap();
        std::fs::set_permissions(at("other"), PermissionsExt::from_mode(0o600)).unwrap();
        symlink(at("other"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        std::fs::hard_link(at("other"), at("second")).unwrap();
        for name in ["link", "dangling", "second"] {
            assert!(PidFile::write(&at(name)).is_err(), "{name}");
            assert!(InstanceLock::take(&at(name)).is_err(), "{name}");
        }
        assert!(make_dir(&at("dangling"), 0o755).is_err());
        assert!(!at("nowhere").exists());
        assert_eq!(std::fs::read_to_string(at("other")).unwrap(), "theirs");
        let mode = std::fs::metadata(at("other")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// Whoever may write to the directory and guesses names of temporary files.
    #[test]
    fn a_planted_link_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (dir.path().join("file"), dir.path().join("elsewhere"));
        let pid = std::process::id();
        for n in 0..100 {
            symlink(&elsewhere, dir.path().join(format!(".file.{pid}.{n}~"))).unwrap();
        }
        write_atomic(&path, b"x", 0o600).unwrap();
        write_new(&dir.path().join("new"), b"x", 0o600).unwrap();
        assert!(!elsewhere.exists());
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    }
}
