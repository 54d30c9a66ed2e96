//! Which jobs have something new in the job log. Events only tell where to look; if some were missed, the log is searched.

use halite_wire::ids::Jid;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Most jobs that wait; beyond this the log is searched instead.
pub const MOST_JOBS: usize = 50_000;
/// How often the log is to be searched even if no event was missed: an event that could not be fired goes unnoticed.
pub const LOOK: Duration = Duration::from_secs(30);
/// How far before a checkpoint a search starts: an event may come this much later than its record, and clocks are not
/// exact.
pub const MARGIN: Duration = Duration::from_secs(60);
/// A run of a runner or wheel function is stored at most this much later than its event is fired.
const LATE: Duration = Duration::from_secs(2);

/// The job that an event is about (`salt/job/<jid>/new`, `salt/job/<jid>/ret/<id>`, `salt/run/<jid>/ret`,
/// `salt/wheel/<jid>/ret`), and whether it may not be in the log yet.
pub fn news_of(tag: &str) -> Option<(Jid, bool)> {
    let (kind, rest) = tag.strip_prefix("salt/")?.split_once('/')?;
    let (jid, what) = rest.split_once('/')?;
    let late = match kind {
        "job" if what == "new" || what.starts_with("ret/") => false,
        "run" | "wheel" if what == "ret" => true,
        _ => return None,
    };
    Some((jid.parse().ok()?, late))
}

/// Jobs with something new.
#[derive(Default)]
pub struct JobNews {
    /// To be read now.
    pub jobs: BTreeSet<Jid>,
    /// To be read from that time on.
    late: VecDeque<(Instant, Jid)>,
    /// Something may have been missed: search the log.
    pub look: bool,
}

impl JobNews {
    /// Adds a job; if `late`, with a short delay.
    pub fn add(&mut self, jid: Jid, late: bool) {
        if self.len() >= MOST_JOBS {
            self.jobs.clear();
            self.late.clear();
            self.look = true;
        }
        if late {
            self.late.push_back((Instant::now() + LATE, jid));
        } else {
            self.jobs.insert(jid);
        }
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.jobs.len() + self.late.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves what was late and is due to the others.
    pub fn take_late(&mut self) {
        let now = Instant::now();
        let due = self.late.partition_point(|(due, _)| *due <= now);
        self.jobs.extend(self.late.drain(..due).map(|(_, jid)| jid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_and_returns_are_news() {
        let late = |tag: &str| news_of(tag).map(|(_, late)| late);
        assert_eq!(late("salt/job/20261121092637195592/new"), Some(false));
        assert_eq!(late("salt/job/20261121092637195592/ret/m"), Some(false));
        assert_eq!(late("salt/run/20261121092637195592/ret"), Some(true));
        for other in [
            "salt/job/20261121092637195592/prog/m/1",
            "salt/job/x/new",
            "minion_start",
        ] {
            assert!(late(other).is_none(), "{other}");
        }
    }
}
