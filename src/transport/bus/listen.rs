//! Socket files: made with the mode asked for, never taken from a living owner.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why a socket could not be offered.
#[derive(Debug)]
pub enum BindError {
    /// Another process answers at that path.
    InUse(PathBuf),
    /// Something that is not a socket stands at that path.
    NotASocket(PathBuf),
    /// The system refused.
    Io {
        /// The socket file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            BindError::InUse(path) => write!(
                f,
                "{} is already in use by another process; stop that one, or set another sock_dir",
                path.display()
            ),
            BindError::NotASocket(path) => write!(
                f,
                "{} exists and is not a socket; move it away, or set another sock_dir",
                path.display()
            ),
            BindError::Io { path, source } => {
                write!(f, "cannot offer the socket {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BindError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Offers a non-blocking listening socket at `path` with exactly `mode`.
///
/// A file that nobody answers at is replaced. The directory is locked meanwhile, so that
/// two starting at once cannot both find the file stale.
pub(super) fn bind(path: &Path, mode: u32, backlog: i32) -> Result<UnixListener, BindError> {
    let wrap = |source: io::Error| BindError::Io {
        path: path.to_owned(),
        source,
    };
    let _lock = lock_parent(path).map_err(wrap)?;
    clear(path)?;
    open(path, mode, backlog).map_err(wrap)
}

fn lock_parent(path: &Path) -> io::Result<Flock<File>> {
    let parent = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    Flock::lock(File::open(parent)?, FlockArg::LockExclusive).map_err(|(_, e)| e.into())
}

/// Removes a stale socket file.
fn clear(path: &Path) -> Result<(), BindError> {
    let wrap = |source: io::Error| BindError::Io {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(wrap(e)),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(BindError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(wrap)
        }
        // EPROTOTYPE: a datagram socket or the like lives there.
        Ok(_) => Err(BindError::InUse(path.to_owned())),
        Err(e) if e.raw_os_error() == Some(Errno::EPROTOTYPE as i32) => {
            Err(BindError::InUse(path.to_owned()))
        }
        Err(e) => Err(wrap(e)),
    }
}

fn open(path: &Path, mode: u32, backlog: i32) -> io::Result<UnixListener> {
    let fd = socket::socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    // The file is made with the socket's own mode, less the umask: never wider than asked for.
    fchmod(&fd, Mode::from_bits_truncate(mode))?;
    socket::bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    // Nobody can connect before `listen`.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket::listen(&fd, Backlog::new(backlog)?)?;
    Ok(UnixListener::from(fd))
}
