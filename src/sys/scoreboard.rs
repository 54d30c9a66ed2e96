//! What the role processes of one master have counted: an anonymous memory file with a slot
//! for each, which the supervisor makes and its children inherit. A role writes its own slot
//! about once a second; anybody in the family reads all of them. A record carries its own
//! check sum, so that plain reads and writes do, as in [`crate::shared`].

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Environment variable that carries the descriptor's number to a role.
pub const BOARD_FD: &str = "HALITE_BOARD_FD";
/// Environment variable that carries the number of a role's slot.
pub const BOARD_SLOT: &str = "HALITE_BOARD_SLOT";

/// Bytes of a slot.
const SLOT: u64 = 8192;
const HEADER: usize = 8;
/// Bytes of the largest record.
pub const MOST: usize = SLOT as usize - HEADER;

/// The board.
#[derive(Debug)]
pub struct Scoreboard {
    file: File,
}

impl Scoreboard {
    /// Makes the memory file with so many slots. It stays open across the execution of roles.
    pub fn create(slots: usize) -> io::Result<Scoreboard> {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let file = File::from(memfd_create(c"halite-board", MFdFlags::empty())?);
        file.set_len(slots as u64 * SLOT)?;
        Ok(Scoreboard { file })
    }

    /// Opens the file that the supervisor handed down, and tells the own slot; once in a
    /// process, since the descriptor that was handed down is closed.
    pub fn inherited() -> io::Result<(Scoreboard, usize)> {
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
        // Children of this role have no business with it; already closed is as good.
        let _ = nix::unistd::close(fd);
        Ok((Scoreboard { file }, slot as usize))
    }

    /// Number to hand down in [`BOARD_FD`].
    pub fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Number of slots.
    pub fn slots(&self) -> io::Result<usize> {
        Ok((self.file.metadata()?.len() / SLOT) as usize)
    }

    /// Writes a slot, which belongs to the caller alone.
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

    /// The last record of a slot; `None` if there is none.
    pub fn read(&self, slot: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0u8; SLOT as usize];
        // A half-written record is met seldom, hardly ever twice.
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
