//! A semaphore shared by several processes: a number of files, each locked by the process that holds the slot.
//! The kernel releases the slots of a process that exits in any way.

use crate::daemon::make_dir;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// How often a waiting process tries again.
const LOOK: Duration = Duration::from_millis(50);

/// A number of slots, in a directory of their own.
#[derive(Clone, Debug)]
pub struct Slots {
    dir: PathBuf,
    count: u32,
}

/// A held slot; dropping it releases it.
#[derive(Debug)]
pub struct Slot {
    _file: File,
}

impl Slots {
    /// `count` slots in `dir`; the directory is not touched yet.
    pub fn new(dir: PathBuf, count: u32) -> Slots {
        Slots { dir, count }
    }

    /// Takes a free slot; `None` if all are held.
    ///
    /// # Errors
    /// The directory is not usable.
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

    /// Waits for a slot; returns `None` once `stop` returns true.
    ///
    /// # Errors
    /// The directory is not usable.
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
