//! Whether the servers tell this master what they tell the others. No IO and no clock: it is told the time.
//!
//! After a partition a reader of a NATS 2.9 server may stay behind for good, or have read what only a cut-off server had. So each
//! master tells how far it has read, and what it has of the bucket; one that stays behind, or has something else, reads anew.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most entries that are observed.
const MOST_CONFLICTS: usize = 10_000;

/// How long a difference must last.
const LASTING: Duration = Duration::from_secs(10);
/// How long it is left alone after it has begun anew: the servers may need time.
const PAUSE: Duration = Duration::from_secs(60);

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The bucket of keys.
    Bucket,
    /// The stream of jobs.
    Jobs,
    /// The stream of data.
    Data,
}

/// How far a master has read, and what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of the last message of each [`Source`]; 0 if it is not read.
    pub read: [u64; 3],
    /// A number that is the same for those who have the same entries of the bucket.
    pub content: u64,
}

/// What this master has read, compared with others.
#[derive(Debug, Default)]
pub struct ProgressCheck {
    /// `None` of what is not read now.
    read: [Option<u64>; 3],
    /// Since when others have read more of each, while nothing came.
    behind: [Option<Instant>; 3],
    /// Since when others have something else of the bucket.
    differs: Option<Instant>,
    /// Entries that could not be replaced although nothing newer was read: the revision, and since when.
    conflicts: BTreeMap<String, (u64, Instant)>,
    /// Whether that lasted.
    is_deaf: bool,
    /// When it has last begun anew.
    begun: Option<Instant>,
}

impl ProgressCheck {
    /// A message with this number was read.
    pub fn read(&mut self, source: Source, number: u64) {
        let n = source as usize;
        self.read[n] = Some(number);
        self.behind[n] = None;
    }

    /// It is not read any more.
    pub fn lost(&mut self, source: Source) {
        let n = source as usize;
        (self.read[n], self.behind[n]) = (None, None);
    }

    /// The entry with this name has another revision than the one to be replaced, or there is none any more: others hear nothing
    /// when somebody removes it.
    pub fn conflict(&mut self, name: &str, replaced: u64, now: Instant) {
        if let Some((revision, since)) = self.conflicts.get(name)
            && *revision == replaced
        {
            self.is_deaf |= now.saturating_duration_since(*since) >= LASTING;
        } else if self.conflicts.len() < MOST_CONFLICTS {
            self.conflicts.insert(name.to_owned(), (replaced, now));
        }
    }

    /// It was replaced.
    pub fn replaced(&mut self, name: &str) {
        self.conflicts.remove(name);
    }

    /// The connection is lost.
    pub fn down(&mut self) {
        *self = ProgressCheck {
            begun: self.begun,
            ..ProgressCheck::default()
        };
    }

    /// What this master tells; `content` is what it has of the bucket.
    pub fn own(&self, content: u64) -> Progress {
        Progress {
            read: self.read.map(Option::unwrap_or_default),
            content,
        }
    }

    /// What another master has; `content` is what this one has.
    pub fn heard(&mut self, other: Progress, content: u64, now: Instant) {
        for (n, theirs) in other.read.into_iter().enumerate() {
            if self.read[n].is_some_and(|ours| theirs > ours) {
                self.behind[n].get_or_insert(now);
            }
        }
        // Whoever has not read as far cannot have the same.
        if self.read[0] == Some(other.read[0]) {
            match other.content == content {
                true => self.differs = None,
                false => {
                    self.differs.get_or_insert(now);
                }
            }
        }
    }

    /// Why everything is to be read anew, if it is.
    pub fn objection(&mut self, now: Instant) -> Option<&'static str> {
        let is_lasting = |since: &Option<Instant>, time| {
            since.is_some_and(|at| now.saturating_duration_since(at) >= time)
        };
        let why = if self.is_deaf {
            "entries of the bucket are not what was read"
        } else if self.behind.iter().any(|since| is_lasting(since, LASTING)) {
            "other masters have read more"
        } else if is_lasting(&self.differs, LASTING) {
            "other masters have read something else"
        } else {
            return None;
        };
        if self.begun.is_some() && !is_lasting(&self.begun, PAUSE) {
            return None;
        }
        self.begun = Some(now);
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(bucket: u64, jobs: u64, content: u64) -> Progress {
        let read = [bucket, jobs, 0];
        Progress { read, content }
    }

    #[test]
    fn a_reader_that_stays_behind_begins_anew() {
        let start = Instant::now();
        let mut check = ProgressCheck::default();
        // Nothing is read yet: that is no difference.
        check.heard(other(9, 9, 1), 0, start);
        assert_eq!(check.objection(start + LASTING), None);
        check.read(Source::Bucket, 9);
        check.read(Source::Jobs, 5);
        assert_eq!(check.own(1), other(9, 5, 1));
        check.heard(other(9, 9, 1), 1, start);
        // It comes on, if slowly.
        check.read(Source::Jobs, 6);
        assert_eq!(check.objection(start + LASTING), None);
        check.heard(other(9, 9, 1), 1, start);
        check.heard(other(9, 20, 1), 1, start + LASTING / 2);
        assert_eq!(check.objection(start + LASTING / 2), None);
        assert!(check.objection(start + LASTING).is_some());
        // Not again at once.
        assert_eq!(check.objection(start + LASTING), None);
        check.down();
        check.read(Source::Bucket, 9);
        // Others were faster, or an entry is no longer there.
        let later = start + PAUSE;
        check.conflict("a", 7, start);
        check.conflict("a", 8, later);
        check.conflict("b", 3, start);
        check.replaced("b");
        check.conflict("b", 3, later);
        assert_eq!(check.objection(later), None);
        check.read(Source::Bucket, 10);
        check.conflict("b", 3, later + LASTING);
        assert!(check.objection(later + LASTING).is_some());
    }

    #[test]
    fn a_reader_of_something_else_begins_anew() {
        let start = Instant::now();
        let mut check = ProgressCheck::default();
        check.read(Source::Bucket, 9);
        for (bucket, content, is_differing) in [(8, 2, false), (9, 2, true), (9, 1, false)] {
            check.heard(other(bucket, 0, content), 1, start);
            let later = start + LASTING;
            assert_eq!(check.objection(later).is_some(), is_differing, "{bucket}");
            check.begun = None;
        }
    }
}
