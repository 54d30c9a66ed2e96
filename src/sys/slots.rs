//! A counted permission that several processes share: a number of files, each locked by
//! whoever holds that slot. The kernel frees the slots of a process that ends in any way.

use crate::daemon::make_dir;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// How often a waiting process looks again.
const LOOK: Duration = Duration::from_millis(50);

/// So many slots below a directory of their own.
#[derive(Clone, Debug)]
pub struct Slots {
    dir: PathBuf,
    count: u32,
}

/// A slot that is held; dropping it frees it.
#[derive(Debug)]
pub struct Slot {
    _file: File,
}

impl Slots {
    /// `count` slots in `dir`; nothing is touched yet.
    pub fn new(dir: PathBuf, count: u32) -> Slots {
        Slots { dir, count }
    }

    /// Takes a free slot; `None` if all are held.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn take(&self) -> io::Result<Option<Slot>> {
        make_dir(&self.dir, 0o700)?;
        for n in 0..self.count {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(self.dir.join(n.to_string()))?;
            match file.try_lock() {
                Ok(()) => return Ok(Some(Slot { _file: file })),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Waits for a slot until `stop` says so; `None` then.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn wait(&self, stop: &dyn Fn() -> bool) -> io::Result<Option<Slot>> {
        while !stop() {
            if let Some(slot) = self.take()? {
                return Ok(Some(slot));
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let slots = Slots::new(dir.path().join("s"), 2);
        let first = slots.take().unwrap().unwrap();
        let _second = slots.take().unwrap().unwrap();
        assert!(slots.take().unwrap().is_none());
        assert!(slots.wait(&|| true).unwrap().is_none());
        drop(first);
        assert!(slots.wait(&|| false).unwrap().is_some());
    }
}
