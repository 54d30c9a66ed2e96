//! Slows down password guessing.
//!
//! Failures are counted per system, user and source, so that nobody can lock out a user elsewhere, or other users of
//! the same host. A source is an IPv4 address or an IPv6 /64 network. The count is shared by all workers of a master:
//! a file of fixed size in `sock_dir`, a table whose slots are found by a keyed hash. Who does not know the key cannot
//! choose names that share a bucket, and the least guilty entry of a full bucket makes room.

use crate::auth_limit::source;
use halite_crypto::{hmac_hex, random_hex};
use halite_sys::daemon::make_dir;
use halite_sys::safe_open::no_follow;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Number of failures without a penalty.
const FREE: u32 = 5;
/// Longest time for which further attempts are refused without a check, in seconds.
const LONGEST: u64 = 60;
/// Failures are forgotten after this time, in seconds.
const MEMORY: u64 = 600;
/// Buckets of the table.
const BUCKETS: u64 = 2048;
/// Entries of a bucket.
const WAYS: usize = 8;
/// Bytes of an entry: hash, time of the last failure and number of failures.
const ENTRY: usize = 24;
/// Bytes of the key at the start of the file.
const KEY: usize = 32;

/// The source of attempts: system, user, address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginSource {
    system: String,
    user: String,
    network: String,
}

impl LoginSource {
    /// The source of an attempt from `peer`, an address as reported by ZeroMQ.
    pub fn new(system: &str, user: &str, peer: &str) -> LoginSource {
        LoginSource {
            system: system.to_owned(),
            user: user.to_owned(),
            network: source(peer).map_or_else(|| peer.to_owned(), |network| network.to_string()),
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        let mut text = Vec::new();
        for part in [&self.system, &self.user, &self.network] {
            text.extend((part.len() as u64).to_le_bytes());
            text.extend(part.as_bytes());
        }
        let digest = hmac_hex(key, &text);
        u64::from_str_radix(digest.get(..16).unwrap_or_default(), 16).unwrap_or_default()
    }
}

/// The failures of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Failures {
    hash: u64,
    last: u64,
    count: u64,
}

impl Failures {
    fn is_fresh(&self, now: u64) -> bool {
        self.count > 0 && now.saturating_sub(self.last) <= MEMORY
    }

    /// For how many seconds further attempts are refused after the last failure.
    fn penalty(&self) -> u64 {
        match self.count.checked_sub(FREE.into()) {
            None => 0,
            Some(over) => LONGEST.min(1 << over.min(10)),
        }
    }
}

/// The entries among which a source has its place.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket([Failures; WAYS]);

impl Bucket {
    fn find(&self, hash: u64, now: u64) -> Option<usize> {
        self.0
            .iter()
            .position(|entry| entry.hash == hash && entry.is_fresh(now))
    }

    /// In how many seconds an attempt is allowed; 0 if it is now.
    fn wait(&self, hash: u64, now: u64) -> u64 {
        let Some(at) = self.find(hash, now) else {
            return 0;
        };
        let entry = &self.0[at];
        (entry.last + entry.penalty())
            .saturating_sub(now)
            .min(LONGEST)
    }

    fn failed(&mut self, hash: u64, now: u64) {
        let guilt = |entry: &Failures| (entry.is_fresh(now), entry.count, entry.last);
        let least = || (0..WAYS).min_by_key(|at| guilt(&self.0[*at])).unwrap_or(0);
        let known = self.find(hash, now);
        let entry = &mut self.0[known.unwrap_or_else(least)];
        *entry = Failures {
            hash,
            last: now,
            count: known.map_or(0, |_| entry.count).saturating_add(1),
        };
    }

    fn parse(bytes: &[u8]) -> Bucket {
        let mut bucket = Bucket::default();
        let number = |bytes: &[u8]| {
            let mut octets = [0; 8];
            octets.copy_from_slice(bytes);
            u64::from_le_bytes(octets)
        };
        for (entry, bytes) in bucket.0.iter_mut().zip(bytes.chunks_exact(ENTRY)) {
            *entry = Failures {
                hash: number(&bytes[..8]),
                last: number(&bytes[8..16]),
                count: number(&bytes[16..]),
            };
        }
        bucket
    }

    fn to_bytes(self) -> Vec<u8> {
        let numbers = self.0.iter().flat_map(|e| [e.hash, e.last, e.count]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }
}

/// Recent failed attempts at one master.
#[derive(Clone, Debug)]
pub struct Throttle {
    path: PathBuf,
}

impl Throttle {
    /// The table in this file, which is created when something has failed.
    pub fn new(path: &Path) -> Throttle {
        Throttle {
            path: path.to_owned(),
        }
    }

    /// In how many seconds an attempt is allowed at `now` (Unix seconds); 0 if it is now.
    ///
    /// # Errors
    /// The table is not readable.
    pub fn wait(&self, who: &LoginSource, now: u64) -> io::Result<u64> {
        match self.open(false) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(e),
            Ok(file) => {
                let slot = Slot::of(&file, who)?;
                Ok(slot.read()?.wait(slot.hash, now))
            }
        }
    }

    /// Records a failed attempt.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn failed(&self, who: &LoginSource, now: u64) -> io::Result<()> {
        let file = match self.open(true) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                make_dir(self.path.parent().unwrap_or(Path::new(".")), 0o755)?;
                self.open(true)?
            }
            other => other?,
        };
        let slot = Slot::of(&file, who)?;
        let mut bucket = slot.read()?;
        bucket.failed(slot.hash, now);
        slot.write(bucket)
    }

    /// Forgets the failures of a source that has succeeded.
    ///
    /// # Errors
    /// The table cannot be written.
    pub fn succeeded(&self, who: &LoginSource) -> io::Result<()> {
        let file = match self.open(false) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let slot = Slot::of(&file, who)?;
        let mut bucket = slot.read()?;
        let own = bucket.0.iter_mut().find(|entry| entry.hash == slot.hash);
        if let Some(entry) = own {
            *entry = Failures::default();
            slot.write(bucket)?;
        }
        Ok(())
    }

    /// Opens and locks the table, until the file is closed.
    fn open(&self, create: bool) -> io::Result<File> {
        let mut options = no_follow();
        options.read(true).write(true).create(create).mode(0o600);
        let file = options.open(&self.path)?;
        file.lock()?;
        if create && file.metadata()?.len() == 0 {
            file.write_all_at(random_hex(KEY / 2).as_bytes(), 0)?;
            file.set_len(KEY as u64 + BUCKETS * (WAYS * ENTRY) as u64)?;
        }
        Ok(file)
    }
}

/// The place of a source in an open table.
struct Slot<'f> {
    file: &'f File,
    hash: u64,
}

impl Slot<'_> {
    fn of<'f>(file: &'f File, who: &LoginSource) -> io::Result<Slot<'f>> {
        let mut key = [0; KEY];
        file.read_exact_at(&mut key, 0)?;
        Ok(Slot {
            file,
            hash: who.hash(&key),
        })
    }

    fn offset(&self) -> u64 {
        KEY as u64 + self.hash % BUCKETS * (WAYS * ENTRY) as u64
    }

    fn read(&self) -> io::Result<Bucket> {
        let mut bytes = [0; WAYS * ENTRY];
        self.file.read_exact_at(&mut bytes, self.offset())?;
        Ok(Bucket::parse(&bytes))
    }

    fn write(&self, bucket: Bucket) -> io::Result<()> {
        self.file.write_all_at(&bucket.to_bytes(), self.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: &str, from: &str) -> LoginSource {
        LoginSource::new("pam", user, from)
    }

    fn table() -> (tempfile::TempDir, Throttle) {
        let dir = tempfile::tempdir().unwrap();
        let throttle = Throttle::new(&dir.path().join("run/failures"));
        (dir, throttle)
    }

    #[test]
    fn guessing_gets_slow_for_the_guesser_alone() {
        let (_dir, t) = table();
        let now = 1_700_000_000;
        let guesser = who("fred", "10.0.0.9");
        for _ in 0..FREE - 1 {
            t.failed(&guesser, now).unwrap();
            assert_eq!(t.wait(&guesser, now).unwrap(), 0);
        }
        t.failed(&guesser, now).unwrap();
        assert_eq!(t.wait(&guesser, now).unwrap(), 1);
        assert_eq!(t.wait(&guesser, now + 1).unwrap(), 0);
        for _ in 0..100 {
            t.failed(&guesser, now).unwrap();
        }
        assert_eq!(t.wait(&guesser, now).unwrap(), 60);
        assert_eq!(
            t.wait(&guesser, now - 1000).unwrap(),
            60,
            "a clock set back"
        );
        assert_eq!(t.wait(&who("fred", "10.0.0.1"), now).unwrap(), 0);
        assert_eq!(t.wait(&who("mary", "10.0.0.9"), now).unwrap(), 0);
        t.succeeded(&guesser).unwrap();
        assert_eq!(t.wait(&guesser, now).unwrap(), 0);
    }

    #[test]
    fn workers_and_addresses_of_one_network_share_a_count() {
        let (_dir, one) = table();
        let other = Throttle::new(&one.path);
        let now = 1_700_000_000;
        for n in 0..20 {
            let throttle = if n % 2 == 0 { &one } else { &other };
            let from = format!("2001:db8:1:2::{n:x}");
            throttle.failed(&who("fred", &from), now).unwrap();
        }
        for throttle in [&one, &other] {
            assert_eq!(
                throttle
                    .wait(&who("fred", "2001:db8:1:2:ffff::"), now)
                    .unwrap(),
                60
            );
            assert_eq!(
                throttle.wait(&who("fred", "2001:db8:1:3::1"), now).unwrap(),
                0
            );
        }
        let mapped = who("fred", "::ffff:10.0.0.1");
        assert_eq!(mapped, who("fred", "10.0.0.1"));
        assert_ne!(who("a", "b"), who("ab", ""));
    }

    #[test]
    fn failures_are_forgotten_and_the_table_is_bounded() {
        let (_dir, t) = table();
        let now = 1_700_000_000;
        let fred = who("fred", "a");
        for _ in 0..20 {
            t.failed(&fred, now).unwrap();
        }
        assert_eq!(t.wait(&fred, now + MEMORY + 1).unwrap(), 0);
        t.failed(&fred, now + MEMORY + 1).unwrap();
        assert_eq!(t.wait(&fred, now + MEMORY + 1).unwrap(), 0);
        let size = t.path.metadata().unwrap().len();
        for n in 0..300 {
            t.failed(&who(&n.to_string(), "a"), now).unwrap();
        }
        assert_eq!(t.path.metadata().unwrap().len(), size);
    }

    #[test]
    fn many_names_do_not_hide_a_guesser() {
        let mut bucket = Bucket::default();
        (0..10).for_each(|_| bucket.failed(1, 100));
        (2..500).for_each(|hash| bucket.failed(hash, 200));
        assert_eq!(bucket.find(1, 200), Some(0));
        // Only when it is forgotten anyway does it make room.
        (500..600).for_each(|hash| bucket.failed(hash, 200 + MEMORY));
        assert_eq!(bucket.find(1, 200), None);
    }
}
