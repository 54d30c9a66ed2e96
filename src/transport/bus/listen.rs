//! Socket files: created with an exact mode, never taken over from a running owner.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fchmod};
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Why a socket could not be bound.
#[derive(Debug)]
pub enum BindError {
    /// Another process listens at that path.
    InUse(PathBuf),
    /// The file at that path is not a socket.
    NotASocket(PathBuf),
    /// The system call failed.
    Io {
        /// The socket file.
        path: PathBuf,
        /// The error of the operating system.
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
                write!(f, "cannot create the socket {}: {source}", path.display())?;
                match source.raw_os_error() {
                    Some(e) if e == Errno::ENAMETOOLONG as i32 => {
                        f.write_str(" (at most 107 bytes; set a shorter sock_dir)")
                    }
                    _ => Ok(()),
                }
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

/// Binds a non-blocking listening socket at `path` with exactly `mode`.
///
/// A stale socket file is replaced. The directory is locked meanwhile, so that two processes
/// starting at once cannot both find the file stale.
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
    match probe(path) {
        Err(Errno::ECONNREFUSED) => fs::remove_file(path).map_err(wrap),
        Err(Errno::ENOENT) => Ok(()),
        // EAGAIN: too busy to answer. EPROTOTYPE: a socket of another kind.
        Ok(()) | Err(Errno::EAGAIN | Errno::EPROTOTYPE) => Err(BindError::InUse(path.to_owned())),
        Err(e) => Err(wrap(e.into())),
    }
}

/// Connects without blocking: an owner that is suspended or overloaded must not delay us.
fn probe(path: &Path) -> Result<(), Errno> {
    let fd = stream_socket()?;
    socket::connect(fd.as_raw_fd(), &UnixAddr::new(path)?)
}

fn stream_socket() -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
}

fn open(path: &Path, mode: u32, backlog: i32) -> io::Result<UnixListener> {
    let fd = stream_socket()?;
    // The file is created with the socket's own mode minus the umask: never wider than requested.
    fchmod(&fd, Mode::from_bits_truncate(mode))?;
    socket::bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    // No client can connect before `listen`.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket::listen(&fd, Backlog::new(backlog)?)?;
    Ok(UnixListener::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn modes_are_exact() {
        let dir = tempfile::tempdir().unwrap();
        for wanted in [0o600, 0o660, 0o666] {
            let path = dir.path().join(format!("{wanted:o}"));
            let _listener = bind(&path, wanted, 5).unwrap();
            assert_eq!(mode(&path), wanted);
        }
    }

    #[test]
    fn a_stale_file_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.ipc");
        drop(bind(&path, 0o600, 5).unwrap());
        assert!(path.exists());
        let living = bind(&path, 0o600, 5).unwrap();
        let refused = bind(&path, 0o600, 5).unwrap_err();
        assert!(matches!(refused, BindError::InUse(_)));
        assert!(
            refused
                .to_string()
                .contains("already in use by another process")
        );
        UnixStream::connect(&path).unwrap();
        drop(living);
    }

    /// A suspended owner accepts no connection once its backlog is full.
    #[test]
    fn an_owner_that_does_not_accept_is_living() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.ipc");
        let _living = bind(&path, 0o600, 0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        assert!(matches!(bind(&path, 0o600, 5), Err(BindError::InUse(_))));
    }

    #[test]
    fn other_things_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "mine").unwrap();
        assert!(matches!(
            bind(&file, 0o600, 5),
            Err(BindError::NotASocket(_))
        ));
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        let datagram = dir.path().join("datagram");
        let _owner = UnixDatagram::bind(&datagram).unwrap();
        assert!(matches!(
            bind(&datagram, 0o600, 5),
            Err(BindError::InUse(_))
        ));
        let missing = dir.path().join("no/such.ipc");
        assert!(matches!(
            bind(&missing, 0o600, 5),
            Err(BindError::Io { .. })
        ));
        let long = dir.path().join("x".repeat(120));
        let said = bind(&long, 0o600, 5).unwrap_err().to_string();
        assert!(said.contains("shorter sock_dir"), "{said}");
    }
}
