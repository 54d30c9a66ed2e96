//! The memory of a module, as accessed by WASI functions: every pointer is checked, every count has a limit, and every
//! access costs fuel, so that no call of a function takes longer than it pays for.

use super::errno::{Errno, Fault};
use std::cell::Cell;

/// Pieces of a scattered read or gathered write.
const MOST_PIECES: u32 = 1024;
/// Bytes of one entry of `iovec`: pointer and length.
const IOVEC: u32 = 8;
/// Price of an access to memory, in simple instructions of a module.
const ACCESS: u64 = 4;
/// Bytes copied that cost about as much as one instruction of a module.
const COPIED_PER_FUEL: usize = 64;

/// A checked part of a module's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IoSlice {
    /// Its address.
    pub(super) at: u32,
    /// Its size in bytes.
    pub(super) len: u32,
}

/// The linear memory of a module; empty if it has none.
pub(super) struct Guest<'a> {
    memory: &'a mut [u8],
    /// What the function has cost so far, in fuel.
    cost: Cell<u64>,
}

impl<'a> Guest<'a> {
    /// The memory, for one call of a function.
    pub(super) fn new(memory: &'a mut [u8]) -> Guest<'a> {
        let cost = Cell::new(0);
        Guest { memory, cost }
    }

    /// What the function has cost, in fuel.
    pub(super) fn cost(&self) -> u64 {
        self.cost.get()
    }

    /// Adds to what the function costs, in fuel.
    pub(super) fn charge(&self, fuel: u64) {
        self.cost.set(self.cost.get().saturating_add(fuel));
    }

    /// Adds the price of an access to memory, or of other work with so many bytes.
    pub(super) fn charge_bytes(&self, bytes: usize) {
        self.charge(ACCESS + (bytes / COPIED_PER_FUEL) as u64);
    }

    /// Reads `len` bytes.
    pub(super) fn bytes(&self, at: u32, len: u32) -> Result<&[u8], Fault> {
        self.charge_bytes(len as usize);
        self.range(at, len)
    }

    /// `len` bytes, which the caller does not copy.
    fn range(&self, at: u32, len: u32) -> Result<&[u8], Fault> {
        let (at, len) = (at as usize, len as usize);
        let end = at.checked_add(len).ok_or(Errno::Fault)?;
        Ok(self.memory.get(at..end).ok_or(Errno::Fault)?)
    }

    /// `len` bytes, for writing.
    pub(super) fn bytes_mut(&mut self, at: u32, len: u32) -> Result<&mut [u8], Fault> {
        self.charge_bytes(len as usize);
        let (at, len) = (at as usize, len as usize);
        let end = at.checked_add(len).ok_or(Errno::Fault)?;
        Ok(self.memory.get_mut(at..end).ok_or(Errno::Fault)?)
    }

    /// Writes bytes.
    pub(super) fn put(&mut self, at: u32, data: &[u8]) -> Result<(), Fault> {
        let len = u32::try_from(data.len()).map_err(|_| Errno::Overflow)?;
        self.bytes_mut(at, len)?.copy_from_slice(data);
        Ok(())
    }

    /// Writes a number of four bytes.
    pub(super) fn put_u32(&mut self, at: u32, value: u32) -> Result<(), Fault> {
        self.put(at, &value.to_le_bytes())
    }

    /// Writes a number of eight bytes.
    pub(super) fn put_u64(&mut self, at: u32, value: u64) -> Result<(), Fault> {
        self.put(at, &value.to_le_bytes())
    }

    /// Reads a number of four bytes.
    pub(super) fn u32(&self, at: u32) -> Result<u32, Fault> {
        let raw: [u8; 4] = self.array(at)?;
        Ok(u32::from_le_bytes(raw))
    }

    /// Reads a fixed number of bytes.
    pub(super) fn array<const N: usize>(&self, at: u32) -> Result<[u8; N], Fault> {
        let len = u32::try_from(N).map_err(|_| Errno::Overflow)?;
        let raw = self.bytes(at, len)?;
        Ok(raw.try_into().map_err(|_| Errno::Fault)?)
    }

    /// Reads text of at most `most` bytes.
    pub(super) fn text(&self, at: u32, len: u32, most: u32) -> Result<String, Fault> {
        if len > most {
            return Err(Errno::NameTooLong.into());
        }
        let raw = self.bytes(at, len)?.to_vec();
        Ok(String::from_utf8(raw).map_err(|_| Errno::IllegalSequence)?)
    }

    /// The pieces of a scattered read or gathered write, all checked, and their total size in bytes.
    pub(super) fn pieces(&self, at: u32, count: u32) -> Result<(Vec<IoSlice>, u64), Fault> {
        if count > MOST_PIECES {
            return Err(Errno::Invalid.into());
        }
        let mut pieces = Vec::with_capacity(count as usize);
        let mut total = 0;
        for n in 0..count {
            let at = at.checked_add(n * IOVEC).ok_or(Errno::Fault)?;
            let second = at.checked_add(4).ok_or(Errno::Fault)?;
            let piece = IoSlice {
                at: self.u32(at)?,
                len: self.u32(second)?,
            };
            self.range(piece.at, piece.len)?;
            total += u64::from(piece.len);
            pieces.push(piece);
        }
        Ok((pieces, total))
    }

    /// Reads the first bytes of some pieces, at most `most`.
    pub(super) fn gather(&self, pieces: &[IoSlice], most: usize) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        for piece in pieces {
            let left = most.saturating_sub(out.len());
            let data = self.range(piece.at, piece.len)?;
            let data = data.get(..left).unwrap_or(data);
            self.charge_bytes(data.len());
            out.extend_from_slice(data);
        }
        Ok(out)
    }

    /// Writes bytes to pieces, one after the other.
    pub(super) fn scatter(&mut self, pieces: &[IoSlice], mut data: &[u8]) -> Result<(), Fault> {
        for piece in pieces {
            let len = data.len().min(piece.len as usize);
            let (now, later) = data.split_at(len);
            self.put(piece.at, now)?;
            data = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_beyond_the_memory_are_faults() {
        let mut memory = [0; 16];
        let mut guest = Guest::new(&mut memory);
        let fault = Err(Fault::Errno(Errno::Fault));
        assert_eq!(guest.bytes(16, 0), Ok(&[][..]));
        assert_eq!(guest.bytes(17, 0).map(<[u8]>::len), fault);
        assert_eq!(guest.bytes(u32::MAX, u32::MAX).map(<[u8]>::len), fault);
        assert_eq!(guest.put_u64(9, 1), Err(Fault::Errno(Errno::Fault)));
        assert_eq!(guest.put_u64(8, 1), Ok(()));
    }

    #[test]
    fn pieces_are_checked_before_anything_is_copied() {
        let mut memory = [0; 32];
        let mut guest = Guest::new(&mut memory);
        guest.put(0, &[24, 0, 0, 0, 8, 0, 0, 0]).expect("room");
        guest.put(8, &[24, 0, 0, 0, 9, 0, 0, 0]).expect("room");
        let (pieces, total) = guest.pieces(0, 1).expect("one good piece");
        assert_eq!((pieces.len(), total), (1, 8));
        assert!(guest.pieces(0, 2).is_err());
        assert!(guest.pieces(0, MOST_PIECES + 1).is_err());
        assert!(guest.pieces(u32::MAX - 3, 1).is_err());
        guest.scatter(&pieces, b"abc").expect("room");
        assert_eq!(guest.gather(&pieces, 2).expect("readable"), b"ab");
    }
}
