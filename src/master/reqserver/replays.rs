//! Authentication codes of requests: each counts once, also after this role or the whole master was restarted.

use halite_sys::safe_open::no_follow;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Codes remembered per generation.
const HELD: usize = 65_536;
/// Records of the file: those of two generations, the oldest is overwritten.
const SLOTS: u64 = 2 * HELD as u64;
/// A number that counts up, from 1, and a code.
const RECORD: usize = 16;

/// Authentication codes of pending requests, and two generations of those of authenticated ones.
#[derive(Debug, Default)]
pub(super) struct ReplayGuard {
    at_hand: HashSet<u64>,
    young: HashSet<u64>,
    old: HashSet<u64>,
    file: Option<ReplayFile>,
}

impl ReplayGuard {
    /// With the codes in the file at `path`. If it cannot be used, replays from before a restart are not noticed.
    pub fn open(path: &Path) -> ReplayGuard {
        let mut guard = ReplayGuard::default();
        match ReplayFile::open(path) {
            Ok((file, codes)) => {
                codes.into_iter().for_each(|code| guard.hold(code));
                guard.file = Some(file);
            }
            Err(e) => log::warn!(
                "{}: {e}; requests from before a restart can be replayed",
                path.display()
            ),
        }
        guard
    }

    /// Whether a request with this code is pending or was authenticated.
    pub fn contains(&self, code: u64) -> bool {
        self.at_hand.contains(&code) || self.young.contains(&code) || self.old.contains(&code)
    }

    /// A request is pending: a copy that arrives meanwhile is a replay.
    pub fn begin(&mut self, code: Option<u64>) {
        self.at_hand.extend(code);
    }

    /// A request is finished; `genuine` if its sender was authenticated.
    pub fn end(&mut self, code: Option<u64>, genuine: bool) {
        let Some(code) = code else { return };
        self.at_hand.remove(&code);
        if !genuine {
            return;
        }
        self.hold(code);
        if let Some(file) = &mut self.file
            && let Err(e) = file.add(code)
        {
            log::error!("requests can be replayed after a restart: {e}");
            self.file = None;
        }
    }

    fn hold(&mut self, code: u64) {
        if self.young.len() >= HELD {
            std::mem::swap(&mut self.old, &mut self.young);
            self.young.clear();
        }
        self.young.insert(code);
    }
}

#[derive(Debug)]
struct ReplayFile {
    file: File,
    next: u64,
}

impl ReplayFile {
    /// Opens or creates the file; returns the codes in it, the oldest first.
    fn open(path: &Path) -> io::Result<(ReplayFile, Vec<u64>)> {
        let mut file = no_follow()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let mut bytes = Vec::new();
        let longest = SLOTS * RECORD as u64;
        file.by_ref().take(longest).read_to_end(&mut bytes)?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        let records = bytes.chunks_exact(RECORD).map(|r| r.split_at(8));
        let mut records: Vec<(u64, u64)> = (0..)
            .zip(records.map(|(n, code)| (number(n), number(code))))
            // Anything else was never written here.
            .filter(|(slot, (n, _))| *n > 0 && n % SLOTS == *slot)
            .map(|(_, record)| record)
            .collect();
        records.sort_unstable();
        let next = records.last().map_or(1, |(n, _)| n.wrapping_add(1));
        let codes = records.into_iter().map(|(_, code)| code).collect();
        Ok((ReplayFile { file, next }, codes))
    }

    fn add(&mut self, code: u64) -> io::Result<()> {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&self.next.to_le_bytes());
        record[8..].copy_from_slice(&code.to_le_bytes());
        let at = self.next % SLOTS * RECORD as u64;
        self.next = self.next.wrapping_add(1).max(1);
        self.file.write_all_at(&record, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_held_until_two_generations_have_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("replays");
        let mut guard = ReplayGuard::open(&path);
        for code in 1..=3 {
            guard.begin(Some(code));
            assert!(guard.contains(code));
        }
        guard.end(Some(1), true);
        guard.end(Some(2), false);
        assert!(guard.contains(1) && !guard.contains(2));
        drop(guard);
        let mut guard = ReplayGuard::open(&path);
        assert!(guard.contains(1), "after a restart");
        assert!(
            !guard.contains(2) && !guard.contains(3),
            "not authenticated"
        );
        for code in 10..10 + SLOTS + 5 {
            guard.end(Some(code), true);
        }
        assert!(!guard.contains(1));
        drop(guard);
        assert_eq!(path.metadata().unwrap().len(), SLOTS * RECORD as u64);
        let guard = ReplayGuard::open(&path);
        let last = 10 + SLOTS + 4;
        assert!(guard.contains(last) && guard.contains(last - HELD as u64));
        assert!(!guard.contains(10));
    }

    #[test]
    fn a_damaged_file_is_used_as_far_as_it_makes_sense() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("replays");
        let mut guard = ReplayGuard::open(&path);
        guard.end(Some(7), true);
        drop(guard);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend([0xff; 21]);
        std::fs::write(&path, bytes).unwrap();
        let mut guard = ReplayGuard::open(&path);
        assert!(guard.contains(7) && !guard.contains(u64::MAX));
        guard.end(Some(8), true);
        assert!(ReplayGuard::open(&path).contains(8));
        let nowhere = ReplayGuard::open(&dir.path().join("no/such"));
        assert!(nowhere.file.is_none());
    }
}
