//! Authentication codes of requests: each counts once, also after this role or the whole master was restarted, and at all
//! masters of a cluster: there, a minion has the same session key everywhere.

use halite_config::MasterConfig;
use halite_sys::safe_open::no_follow;
use halite_transport::sockets::{Context, Push, PushOptions};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Codes remembered per generation.
const HELD: usize = 65_536;
/// Records of the file: those of two generations, the oldest is overwritten.
const SLOTS: u64 = 2 * HELD as u64;
/// A number that counts up, from 1, and a code.
const RECORD: usize = 16;
/// How long codes are gathered before they are told to the other masters.
pub(super) const GATHER: Duration = Duration::from_millis(10);
/// Most bytes of codes that are told together.
const TOGETHER: usize = 4096;

/// Authentication codes of pending requests, and two generations of those of authenticated ones.
#[derive(Debug, Default)]
pub(super) struct ReplayGuard {
    at_hand: HashSet<u64>,
    young: HashSet<u64>,
    old: HashSet<u64>,
    file: Option<ReplayFile>,
    news: Option<News>,
    /// Codes that other masters have told.
    pub(super) learned: u64,
}

/// Codes that the other masters of the cluster are to be told.
struct News {
    to_cluster: Push,
    codes: Vec<u8>,
    since: Instant,
}

impl std::fmt::Debug for News {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} bytes", self.codes.len())
    }
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

    /// In a cluster, tells the other masters through the role Cluster.
    ///
    /// # Errors
    /// No sockets are left.
    pub fn telling(mut self, config: &MasterConfig) -> io::Result<ReplayGuard> {
        if config.cluster().is_some() {
            // Nothing waits for a role that is not there.
            let options = PushOptions {
                reconnect: Some((Duration::from_millis(20), Duration::from_millis(200))),
                send_timeout: Some(Duration::ZERO),
            };
            let to_cluster = Push::connect(&Context::new(), &config.cluster_pull(), options);
            self.news = Some(News {
                to_cluster: to_cluster.map_err(io::Error::other)?,
                codes: Vec::new(),
                since: Instant::now(),
            });
        }
        Ok(self)
    }

    /// Whether there is something to be told.
    pub fn has_news(&self) -> bool {
        self.news
            .as_ref()
            .is_some_and(|news| !news.codes.is_empty())
    }

    /// Tells what has been gathered long enough.
    pub fn tell(&mut self, now: Instant) {
        let Some(news) = self.news.as_mut().filter(|news| !news.codes.is_empty()) else {
            return;
        };
        if news.codes.len() >= TOGETHER || now.saturating_duration_since(news.since) >= GATHER {
            let _ = news.to_cluster.send(&[&b""[..], b"seen", &news.codes]);
            news.codes.clear();
        }
    }

    /// Another master has answered requests with these codes, eight bytes each.
    pub fn learn(&mut self, codes: &[u8]) {
        for code in codes.as_chunks().0 {
            let code = u64::from_be_bytes(*code);
            if !self.contains(code) {
                self.learned += 1;
                self.keep(code);
            }
        }
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
        if let Some(news) = &mut self.news {
            if news.codes.is_empty() {
                news.since = Instant::now();
            }
            news.codes.extend(code.to_be_bytes());
        }
        self.keep(code);
    }

    /// Remembers a code, also over a restart.
    fn keep(&mut self, code: u64) {
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
        // What another master has told, with some bytes that are no code.
        guard.learn(&[&4u64.to_be_bytes()[..], &1u64.to_be_bytes(), b"rest"].concat());
        assert_eq!(guard.learned, 1);
        drop(guard);
        let mut guard = ReplayGuard::open(&path);
        assert!(guard.contains(1) && guard.contains(4));
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
