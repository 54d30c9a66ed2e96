//! Which upper master gets the returns of which job, and which it has already (`salt/minion.py
//! SyndicManager.iter_master_options`, `_return_pub_syndic`).
//!
//! A job belongs to the upper master that published it. A job published by the local master itself belongs to
//! one of them, chosen according to `syndic_failover`.

use super::forwarded::Forwarded;
use halite_config::MasterConfig;
use halite_sys::daemon::make_dir;
use halite_sys::exit::ExitError;
use halite_wire::ids::Jid;
use rand::seq::SliceRandom;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How several upper masters are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// `syndic_mode: cluster`: only events about jobs are forwarded, and any upper master may get any return.
    pub cluster: bool,
    /// `syndic_failover: ordered`.
    pub ordered: bool,
    /// Messages without an answer before returns that may go to any master are reassigned.
    pub retries: u32,
}

impl Rules {
    /// Reads the options.
    ///
    /// # Errors
    /// An option has an invalid value.
    pub fn of(config: &MasterConfig) -> Result<Rules, ExitError> {
        let one = |name: &str, value: &str, other: &str, default: &str| match value {
            v if v == other => Ok(true),
            v if v == default => Ok(false),
            v => Err(ExitError::new(
                1,
                format!("the option `{name}` is {v:?}; it must be {default} or {other}"),
            )),
        };
        Ok(Rules {
            cluster: one("syndic_mode", &config.syndic_mode, "cluster", "sync")?,
            ordered: one(
                "syndic_failover",
                &config.syndic_failover,
                "ordered",
                "random",
            )?,
            retries: config.syndic_retries.max(1),
        })
    }
}

/// The records of all upper masters, by their index in `syndic_master`.
#[derive(Debug)]
pub struct Routes {
    rules: Rules,
    forwarded: Vec<Forwarded>,
    /// Jobs that no upper master published, or that were reassigned.
    free: BTreeSet<Jid>,
}

impl Routes {
    /// Reads the records of an earlier process below `cachedir`.
    ///
    /// # Errors
    /// A directory is not usable.
    pub fn open(cachedir: &Path, masters: &[String], rules: Rules) -> io::Result<Routes> {
        let dir = halite_config::paths::minion::cache::syndic(cachedir);
        make_dir(&dir, 0o700)?;
        let places: Vec<_> = masters.iter().map(|m| dir.join(dir_name(m))).collect();
        if let Some(first) = places.first() {
            make_dir(first, 0o700)?;
            adopt(&dir, first)?;
        }
        let forwarded: io::Result<Vec<Forwarded>> =
            places.iter().map(|p| Forwarded::open(p)).collect();
        Ok(Routes {
            rules,
            forwarded: forwarded?,
            free: BTreeSet::new(),
        })
    }

    /// Records that an upper master published a job, before any of its returns can arrive. Returns whether to
    /// publish it below, false if another upper master's request did that already.
    ///
    /// # Errors
    /// The file is not writable.
    pub fn record_job(&mut self, master: usize, jid: &Jid) -> io::Result<bool> {
        let new = !self.forwarded.iter().any(|forwarded| forwarded.knows(jid));
        self.forwarded[master].begin(jid)?;
        Ok(new)
    }

    /// The upper masters that get a job's returns. `reached` tells which of them answer at present.
    ///
    /// # Errors
    /// The file is not writable.
    pub fn owners(&mut self, jid: &Jid, reached: &[bool]) -> io::Result<Vec<usize>> {
        let owners: Vec<usize> = (0..self.forwarded.len())
            .filter(|at| self.forwarded[*at].knows(jid))
            .collect();
        if !owners.is_empty() {
            return Ok(owners);
        }
        let Some(one) = self.pick(None, reached) else {
            return Ok(owners);
        };
        self.free.insert(jid.clone());
        self.forwarded[one].begin(jid)?;
        Ok(vec![one])
    }

    /// Reassigns a job whose upper master does not answer, if another may have it; returns the other one.
    ///
    /// # Errors
    /// A file is not writable.
    pub fn reassign(
        &mut self,
        master: usize,
        jid: &Jid,
        reached: &[bool],
    ) -> io::Result<Option<usize>> {
        if !self.rules.cluster && !self.free.contains(jid) {
            return Ok(None);
        }
        let Some(other) = self.pick(Some(master), reached) else {
            return Ok(None);
        };
        self.forwarded[other].begin(jid)?;
        let ids = self.forwarded[master].take(jid);
        self.forwarded[other].record(jid, &ids)?;
        self.free.insert(jid.clone());
        Ok(Some(other))
    }

    fn pick(&self, not: Option<usize>, reached: &[bool]) -> Option<usize> {
        let others = || (0..self.forwarded.len()).filter(|at| Some(*at) != not);
        let mut choice: Vec<usize> = others()
            .filter(|at| reached.get(*at).copied().unwrap_or(false))
            .collect();
        if choice.is_empty() && not.is_none() {
            choice = others().collect();
        }
        if self.rules.ordered {
            choice.first().copied()
        } else {
            choice.choose(&mut rand::thread_rng()).copied()
        }
    }

    /// The options.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The jobs of an upper master, oldest first.
    pub fn jobs(&self, master: usize) -> Vec<Jid> {
        self.forwarded[master].jobs()
    }

    /// Whether a job belongs to an upper master.
    pub fn knows(&self, master: usize, jid: &Jid) -> bool {
        self.forwarded[master].knows(jid)
    }

    /// Whether an upper master has this return.
    pub fn has(&self, master: usize, jid: &Jid, id: &str) -> bool {
        self.forwarded[master].has(jid, id)
    }

    /// Records returns that an upper master has.
    ///
    /// # Errors
    /// The file is not writable; the returns would be forwarded again after a restart.
    pub fn record(&mut self, master: usize, jid: &Jid, ids: &[String]) -> io::Result<()> {
        self.forwarded[master].record(jid, ids)
    }

    /// Forgets an upper master's jobs without activity for `keep`.
    pub fn expire(&mut self, master: usize, keep: Duration) {
        self.forwarded[master].expire(keep);
        let forwarded = &self.forwarded;
        self.free
            .retain(|jid| forwarded.iter().any(|forwarded| forwarded.knows(jid)));
    }
}

/// A directory name for an entry of `syndic_master`.
pub fn dir_name(master: &str) -> String {
    let plain = |(at, c): (usize, char)| match c {
        c if c.is_ascii_alphanumeric() || c == '-' => c,
        '.' if at > 0 => c,
        _ => '_',
    };
    master.trim().chars().enumerate().map(plain).collect()
}

/// Records from the time of a single upper master belong to the first.
fn adopt(dir: &Path, first: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)?.flatten() {
        let name = entry.file_name();
        let job = name.to_str().is_some_and(|n| n.parse::<Jid>().is_ok());
        if job && entry.file_type().is_ok_and(|t| t.is_file()) {
            std::fs::rename(entry.path(), first.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Rules = Rules {
        cluster: false,
        ordered: true,
        retries: 3,
    };

    fn jid(n: u32) -> Jid {
        format!("202611211200000000{n:02}").parse().unwrap()
    }

    fn two(dir: &Path, rules: Rules) -> Routes {
        let masters = ["one:4506".to_owned(), "two".to_owned()];
        Routes::open(dir, &masters, rules).unwrap()
    }

    #[test]
    fn returns_go_to_whom_asked() {
        let dir = tempfile::tempdir().unwrap();
        let mut routes = two(dir.path(), SYNC);
        assert!(routes.record_job(1, &jid(1)).unwrap());
        assert_eq!(routes.owners(&jid(1), &[true, true]).unwrap(), [1]);
        // Not even when it is down.
        assert_eq!(routes.reassign(1, &jid(1), &[true, false]).unwrap(), None);
        // Both publish it: it goes below once, and both get the returns.
        assert!(!routes.record_job(0, &jid(1)).unwrap());
        assert_eq!(routes.owners(&jid(1), &[true, true]).unwrap(), [0, 1]);
        routes.record(1, &jid(1), &["a".into()]).unwrap();
        assert!(routes.has(1, &jid(1), "a") && !routes.has(0, &jid(1), "a"));
        let again = two(dir.path(), SYNC);
        assert!(again.has(1, &jid(1), "a") && again.knows(0, &jid(1)));
    }

    #[test]
    fn what_nobody_asked_for_goes_to_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut routes = two(dir.path(), SYNC);
        assert_eq!(routes.owners(&jid(1), &[false, true]).unwrap(), [1]);
        assert_eq!(routes.owners(&jid(1), &[true, true]).unwrap(), [1]);
        assert_eq!(routes.owners(&jid(2), &[false, false]).unwrap(), [0]);
        routes.record(0, &jid(2), &["a".into()]).unwrap();
        assert_eq!(routes.reassign(0, &jid(2), &[false, false]).unwrap(), None);
        assert_eq!(
            routes.reassign(0, &jid(2), &[false, true]).unwrap(),
            Some(1)
        );
        assert!(routes.has(1, &jid(2), "a") && !routes.knows(0, &jid(2)));
    }

    #[test]
    fn in_a_cluster_another_may_have_them() {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules {
            cluster: true,
            ordered: false,
            ..SYNC
        };
        let mut routes = two(dir.path(), rules);
        routes.record_job(0, &jid(1)).unwrap();
        assert_eq!(
            routes.reassign(0, &jid(1), &[false, true]).unwrap(),
            Some(1)
        );
        assert_eq!(routes.owners(&jid(1), &[true, true]).unwrap(), [1]);
    }

    #[test]
    fn notes_of_one_master_are_the_first_ones() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("syndic")).unwrap();
        let old = dir.path().join("syndic").join(jid(1).as_str());
        std::fs::write(&old, "a\n").unwrap();
        let routes = two(dir.path(), SYNC);
        assert!(routes.has(0, &jid(1), "a") && !old.exists());
    }

    #[test]
    fn what_cannot_be_written_down_is_known_still() {
        let dir = tempfile::tempdir().unwrap();
        let mut routes = two(dir.path(), SYNC);
        std::fs::remove_dir_all(dir.path().join("syndic")).unwrap();
        assert!(routes.record_job(1, &jid(1)).is_err());
        assert_eq!(routes.owners(&jid(1), &[true, true]).unwrap(), [1]);
        assert!(routes.owners(&jid(2), &[true, true]).is_err());
        assert_eq!(routes.owners(&jid(2), &[true, true]).unwrap(), [0]);
    }

    #[test]
    fn names_of_places() {
        assert_eq!(dir_name("10.0.0.1:4506"), "10.0.0.1_4506");
        assert_eq!(dir_name("[::1]:5"), "___1__5");
        assert_eq!(dir_name(".."), "_.");
    }

    #[test]
    fn options_are_checked() {
        let none = halite_wire::Map::new();
        let mut config = MasterConfig::from_map(none, Path::new("/etc/halite")).unwrap();
        assert!(Rules::of(&config).is_ok());
        config.syndic_mode = "both".to_owned();
        assert!(Rules::of(&config).unwrap_err().message.contains("cluster"));
    }
}
