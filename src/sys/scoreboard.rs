//! Counters of a master's role processes: an anonymous memory file with a slot for each, created by the
//! supervisor and inherited by its children. A role writes its own slot about once a second; every process of
//! the family reads all of them. A record has its own checksum, so plain reads and writes suffice, as in
//! [`crate::shared`].

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// Environment variable that passes the descriptor to a role.
pub const BOARD_FD: &str = "HALITE_BOARD_FD";
/// Environment variable that passes a role's slot number.
pub const BOARD_SLOT: &str = "HALITE_BOARD_SLOT";

/// Size of a slot in bytes.
const SLOT: u64 = 8192;
const HEADER: usize = 8;
/// Size of the largest record in bytes.
pub const MOST: usize = SLOT as usize - HEADER;

/// The inherited one, once it was opened.
static INHERITED: Mutex<Option<(File, usize)>> = Mutex::new(None);

/// Counters of all roles.
#[derive(Debug)]
pub struct Scoreboard {
    file: File,
}

impl Scoreboard {
    /// Creates the memory file with the given number of slots. It stays open when roles are executed.
    pub fn create(slots: usize) -> io::Result<Scoreboard> {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let file = File::from(memfd_create(c"halite-board", MFdFlags::empty())?);
        file.set_len(slots as u64 * SLOT)?;
        Ok(Scoreboard { file })
    }

    /// The file inherited from the supervisor, with this process's slot number.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn inherited() -> io::Result<(Scoreboard, usize)> {
        // The inherited descriptor is closed when it is first used; its number may then be that of another file.
        let mut first = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, slot) = match &mut *first {
            Some(known) => known,
            none => none.insert(Scoreboard::take_inherited()?),
        };
        let file = file.try_clone()?;
        Ok((Scoreboard { file }, *slot))
    }

    fn take_inherited() -> io::Result<(File, usize)> {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            text.parse::<i32>().ok().filter(|n| *n >= 0)
        };
        let (Some(fd @ 3..), Some(slot)) = (number(BOARD_FD), number(BOARD_SLOT)) else {
            return Err(io::Error::other(
                "this process was not started by a supervisor (no scoreboard)",
            ));
        };
        let file = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{fd}"))?;
        // Children of this role do not need it. It may be closed already.
        let _ = nix::unistd::close(fd);
        Ok((file, slot as usize))
    }

    /// The descriptor to pass in [`BOARD_FD`].
    pub fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Number of slots.
    pub fn slots(&self) -> io::Result<usize> {
        Ok((self.file.metadata()?.len() / SLOT) as usize)
    }

    /// Writes a slot. Only the owner of the slot may do so.
    ///
    /// # Errors
    /// There is no such slot, or the record is longer than [`MOST`].
    pub fn write(&self, slot: usize, record: &[u8]) -> io::Result<()> {
        if record.len() > MOST || slot >= self.slots()? {
            return Err(io::Error::other("the record does not fit the scoreboard"));
        }
        let mut bytes = Vec::with_capacity(HEADER + record.len());
        bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(record).to_le_bytes());
        bytes.extend_from_slice(record);
        self.file.write_all_at(&bytes, slot as u64 * SLOT)
    }

    /// The latest record of a slot; `None` if it is empty.
    pub fn read(&self, slot: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0u8; SLOT as usize];
        // Meeting a half-written record is rare, and hardly ever happens twice.
        (0..100).find_map(|_| {
            self.file
                .read_exact_at(&mut bytes, slot as u64 * SLOT)
                .ok()?;
            let len = u32::from_le_bytes(bytes[..4].try_into().ok()?) as usize;
            let sum = u32::from_le_bytes(bytes[4..HEADER].try_into().ok()?);
            let record = bytes.get(HEADER..HEADER.checked_add(len)?)?;
            (len > 0 && crc32fast::hash(record) == sum).then(|| record.to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_apart() {
        let board = Scoreboard::create(3).unwrap();
        assert_eq!(board.slots().unwrap(), 3);
        assert!(board.read(0).is_none() && board.read(7).is_none());
        board.write(0, b"one").unwrap();
        board.write(2, &[7; MOST]).unwrap();
        assert_eq!(board.read(0).unwrap(), b"one");
        assert!(board.read(1).is_none());
        assert_eq!(board.read(2).unwrap().len(), MOST);
        assert!(board.write(3, b"x").is_err());
        assert!(board.write(0, &[0; MOST + 1]).is_err());
    }

    #[test]
    fn readers_never_see_a_mixture() {
        let board = Scoreboard::create(1).unwrap();
        board.write(0, &[1; 4000]).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                for i in 0..1000u32 {
                    board.write(0, &[i as u8; 4000]).unwrap();
                }
            });
            for _ in 0..1000 {
                if let Some(record) = board.read(0) {
                    assert!(record.iter().all(|b| *b == record[0]));
                }
            }
        });
    }
}
