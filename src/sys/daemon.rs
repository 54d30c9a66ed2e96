//! Pid files, single-instance locks, background start and readiness.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

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
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)?;
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
        std::fs::write(path, std::process::id().to_string())?;
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o644))?;
        Ok(PidFile {
            path: path.to_owned(),
        })
    }
}

impl PidFile {
    /// Creates the file, if it is not there, for a daemon whose account may not create files in that directory.
    pub fn reserve(path: &Path) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            make_dir(dir, 0o755)?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(path)?;
        file.set_permissions(PermissionsExt::from_mode(0o644))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // After privileges are dropped, the directory may not be writable; then the file is emptied instead.
        if std::fs::remove_file(&self.path).is_err() {
            let _ = std::fs::write(&self.path, b"");
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
    if let Some(parent) = path.parent() {
        make_dir(parent, 0o755)?;
    }
    build(path, mode)?;
    // The daemon's umask would clear bits of `mode`.
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode))
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

/// Writes a temporary file next to `path`, then calls `place` to move it there.
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
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let temp = dir.join(format!(
        ".{:.200}.{}.{n}~",
        name.to_string_lossy(),
        std::process::id()
    ));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&temp)
        .and_then(|mut f| f.write_all(content))
        .and_then(|()| place(&temp));
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
/// `Ok` once it is ready, otherwise the text of the failure.
pub fn start_in_background(
    args: impl IntoIterator<Item = std::ffi::OsString>,
) -> io::Result<Result<(), String>> {
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
    if said.is_empty() {
        let status = child.wait()?;
        said = format!("the daemon ended before it was ready ({status}); see its log file");
    }
    Ok(Err(said))
}
