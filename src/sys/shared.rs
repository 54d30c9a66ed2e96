//! The few bytes that a master's role processes share: the AES key of publications, its successor, and the
//! serial of the last publication.
//!
//! They are in an anonymous memory file created by the supervisor and inherited by its children; nothing of it
//! reaches a disk. A record has its own checksum, so a reader that meets a half-written one simply reads again.
//! Plain positioned reads and writes suffice, and no mapping (hence no `unsafe`) is needed.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use zeroize::Zeroizing;

/// Environment variable that passes the descriptor to a role.
pub const SHARED_FD: &str = "HALITE_SHARED_FD";

const KEY_LEN: usize = 76;
const RECORD: usize = 8 + KEY_LEN + 8;
/// Offsets of the records of the current key and of the offered one.
const FORCE_AT: u64 = 0;
const OFFER_AT: u64 = 128;
const SERIAL_AT: u64 = 256;
const SIZE: u64 = 512;

/// Handle of the shared memory file.
#[derive(Debug)]
pub struct SharedSecret {
    file: File,
}

impl SharedSecret {
    /// Creates the memory file. It stays open when roles are executed.
    pub fn create() -> io::Result<SharedSecret> {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let file = File::from(memfd_create(c"halite-shared", MFdFlags::empty())?);
        file.set_len(SIZE)?;
        if let Err(e) = keep_in_memory(&file) {
            log::debug!("the key of publications may be swapped: {e}");
        }
        Ok(SharedSecret { file })
    }

    /// Opens the file inherited from the supervisor. Call once per process: the inherited descriptor is closed.
    pub fn inherited() -> io::Result<SharedSecret> {
        let fd: i32 = std::env::var(SHARED_FD)
            .ok()
            .and_then(|n| n.parse().ok())
            .filter(|fd| *fd > 2)
            .ok_or_else(|| {
                io::Error::other(
                    "this role can only be started by its supervisor (no shared memory)",
                )
            })?;
        let file = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{fd}"))?;
        // Children of this role must not have the key. It may be closed already.
        let _ = nix::unistd::close(fd);
        Ok(SharedSecret { file })
    }

    /// The descriptor to pass in [`SHARED_FD`].
    pub fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Stores a new key text of 76 characters and increments the generation. A key on offer is withdrawn and
    /// its generation skipped. One writer at a time.
    pub fn store_key(&self, key: &str) -> io::Result<u64> {
        let present = self.load_key().map_or(0, |(g, _)| g);
        let offered = self.offered().ok().flatten().map_or(0, |(g, _)| g);
        let generation = present.max(offered) + 1;
        self.write(FORCE_AT, generation, key)?;
        Ok(generation)
    }

    /// Offers the key text that comes into force next; returns the generation it will have.
    pub fn offer_key(&self, key: &str) -> io::Result<u64> {
        let generation = self.load_key()?.0 + 1;
        self.write(OFFER_AT, generation, key)?;
        Ok(generation)
    }

    /// The key on offer with its generation.
    pub fn offered(&self) -> io::Result<Option<(u64, Zeroizing<String>)>> {
        let mut n = [0u8; 8];
        self.file.read_exact_at(&mut n, OFFER_AT)?;
        // An offer that has come into force or was withdrawn is not newer than the current key.
        if u64::from_le_bytes(n) <= self.generation()? {
            return Ok(None);
        }
        self.read(OFFER_AT).map(Some)
    }

    /// Puts the offered key in force; returns its generation, or `None` if no key is on offer.
    pub fn take_offered(&self) -> io::Result<Option<u64>> {
        let Some((generation, key)) = self.offered()? else {
            return Ok(None);
        };
        self.write(FORCE_AT, generation, &key)?;
        Ok(Some(generation))
    }

    /// The generation (from 1) and the key text in force.
    pub fn load_key(&self) -> io::Result<(u64, Zeroizing<String>)> {
        self.read(FORCE_AT)
    }

    fn write(&self, at: u64, generation: u64, key: &str) -> io::Result<()> {
        if key.len() != KEY_LEN {
            return Err(io::Error::other("an AES key text has 76 characters"));
        }
        let mut record = Zeroizing::new([0u8; RECORD]);
        record[..8].copy_from_slice(&generation.to_le_bytes());
        record[8..8 + KEY_LEN].copy_from_slice(key.as_bytes());
        let sum = checksum(&record[..8 + KEY_LEN]);
        record[8 + KEY_LEN..].copy_from_slice(&sum);
        self.file.write_all_at(record.as_slice(), at)
    }

    fn read(&self, at: u64) -> io::Result<(u64, Zeroizing<String>)> {
        for _ in 0..1000 {
            let mut record = Zeroizing::new([0u8; RECORD]);
            self.file.read_exact_at(record.as_mut_slice(), at)?;
            let (body, sum) = record.split_at(8 + KEY_LEN);
            if checksum(body) == sum {
                let mut generation = [0u8; 8];
                generation.copy_from_slice(&body[..8]);
                let key = String::from_utf8_lossy(&body[8..]).into_owned();
                return Ok((u64::from_le_bytes(generation), Zeroizing::new(key)));
            }
            std::thread::yield_now();
        }
        Err(io::Error::other("the shared AES key record is damaged"))
    }

    /// The generation alone: hot paths check it before they use a cached key.
    pub fn generation(&self) -> io::Result<u64> {
        let mut n = [0u8; 8];
        self.file.read_exact_at(&mut n, 0)?;
        Ok(u64::from_le_bytes(n))
    }

    /// Stores the serial of the last publication under `generation`. Only the publisher writes it.
    pub fn store_serial(&self, generation: u64, serial: u64) -> io::Result<()> {
        let mut record = [0u8; 16];
        record[..8].copy_from_slice(&generation.to_le_bytes());
        record[8..].copy_from_slice(&serial.to_le_bytes());
        self.file.write_all_at(&record, SERIAL_AT)
    }

    /// Serial of the last publication under `generation`; 0 if there was none.
    pub fn load_serial(&self, generation: u64) -> io::Result<u64> {
        let mut record = [0u8; 16];
        self.file.read_exact_at(&mut record, SERIAL_AT)?;
        let (of, serial) = record.split_at(8);
        if of != generation.to_le_bytes() {
            return Ok(0);
        }
        let mut n = [0u8; 8];
        n.copy_from_slice(serial);
        Ok(u64::from_le_bytes(n))
    }
}

/// Locks the content of the file in memory, as long as this process lives. Its mapping serves nothing else: it is neither passed on
/// to forked children nor written to core dumps.
#[allow(unsafe_code)]
fn keep_in_memory(file: &File) -> io::Result<()> {
    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mlock, mmap};
    let size = std::num::NonZeroUsize::new(SIZE as usize).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: a new mapping at an address that the kernel chooses, which nothing here reads, writes or unmaps.
    unsafe {
        let at = mmap(
            None,
            size,
            ProtFlags::PROT_READ,
            MapFlags::MAP_SHARED,
            file,
            0,
        )?;
        madvise(at, size.get(), MmapAdvise::MADV_DONTFORK)?;
        madvise(at, size.get(), MmapAdvise::MADV_DONTDUMP)?;
        mlock(at, size.get())?;
    }
    Ok(())
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let digest = Sha256::digest(bytes);
    let mut out = [0u8; 8];
    out.copy_from_slice(&digest[..8]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: io::Result<(u64, Zeroizing<String>)>) -> (u64, String) {
        let (generation, key) = key.unwrap();
        (generation, key.to_string())
    }

    #[test]
    fn the_key_stays_in_memory() {
        let shared = SharedSecret::create().unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let map = maps.split("/memfd:halite-shared").nth(1).unwrap();
        let flags = map
            .lines()
            .find(|line| line.starts_with("VmFlags:"))
            .unwrap();
        for flag in [" lo", " dc", " dd"] {
            assert!(flags.contains(flag), "{flags}");
        }
        drop(shared);
    }

    #[test]
    fn keys_and_serials_come_back() {
        let shared = SharedSecret::create().unwrap();
        assert!(shared.load_key().is_err(), "nothing stored yet");
        let key = "k".repeat(76);
        assert_eq!(shared.store_key(&key).unwrap(), 1);
        assert_eq!(text(shared.load_key()), (1, key.clone()));
        shared.store_serial(1, 42).unwrap();
        assert_eq!(shared.load_serial(1).unwrap(), 42);
        assert_eq!(shared.store_key(&key).unwrap(), 2);
        assert_eq!(shared.generation().unwrap(), 2);
        assert_eq!(shared.load_serial(2).unwrap(), 0, "a new key starts at 0");
        assert!(shared.store_key("short").is_err());
    }

    #[test]
    fn a_key_on_offer_comes_into_force_or_is_replaced() {
        let shared = SharedSecret::create().unwrap();
        assert!(shared.offer_key(&"n".repeat(76)).is_err(), "none in force");
        shared.store_key(&"a".repeat(76)).unwrap();
        assert_eq!(shared.offered().unwrap(), None);
        assert_eq!(shared.take_offered().unwrap(), None);
        assert_eq!(shared.offer_key(&"b".repeat(76)).unwrap(), 2);
        assert_eq!(text(shared.load_key()), (1, "a".repeat(76)));
        let (generation, key) = shared.offered().unwrap().unwrap();
        assert_eq!((generation, key.as_str()), (2, "b".repeat(76).as_str()));
        assert_eq!(shared.take_offered().unwrap(), Some(2));
        assert_eq!(text(shared.load_key()), (2, "b".repeat(76)));
        assert_eq!(shared.offered().unwrap(), None);
        // Replaced at once: the offer is withdrawn.
        shared.offer_key(&"c".repeat(76)).unwrap();
        assert_eq!(shared.store_key(&"d".repeat(76)).unwrap(), 4, "3 is void");
        assert_eq!(shared.offered().unwrap(), None);
        assert_eq!(shared.take_offered().unwrap(), None);
        assert_eq!(text(shared.load_key()), (4, "d".repeat(76)));
    }

    #[test]
    fn readers_never_see_a_mixture() {
        let shared = SharedSecret::create().unwrap();
        shared.store_key(&"a".repeat(76)).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                for i in 0..2000 {
                    let c = if i % 2 == 0 { "b" } else { "c" };
                    shared.store_key(&c.repeat(76)).unwrap();
                }
            });
            for _ in 0..2000 {
                let (_, key) = shared.load_key().unwrap();
                assert!(key.bytes().all(|b| b == key.as_bytes()[0]), "{:?}", *key);
            }
        });
    }
}
