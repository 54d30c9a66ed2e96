//! Locks by name, between processes and threads: one byte of a file for each name, so that holders of different
//! names do not wait for each other and no file is left behind for each.

use super::safe_open::no_follow;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub struct NameLock {
    _file: File,
}

impl NameLock {
    /// Waits for the lock of `name` in the file at `path`, which is created if it is missing. Rarely, two names
    /// share a lock: whoever holds one must not wait for another.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub fn take(path: &Path, name: &str) -> io::Result<NameLock> {
        let file = no_follow()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let at = crc32fast::hash(name.as_bytes()) & 0x7fff_ffff;
        let lock = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: libc::off_t::from(at.cast_signed()),
            l_len: 1,
            l_pid: 0,
        };
        loop {
            match fcntl(&file, FcntlArg::F_OFD_SETLKW(&lock)) {
                Ok(_) => return Ok(NameLock { _file: file }),
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn one_name_waits_and_another_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (first, freed) = (NameLock::take(&path, "a").unwrap(), AtomicBool::new(false));
        let _other = NameLock::take(&path, "b").unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _lock = NameLock::take(&path, "a").unwrap();
                freed.load(Ordering::SeqCst)
            });
            freed.store(true, Ordering::SeqCst);
            drop(first);
            assert!(waiter.join().unwrap(), "it did not wait");
        });
    }
}
