//! Which upper master gets which job's returns, and what each has already
//! (`salt/minion.py SyndicManager.iter_master_options`, `_return_pub_syndic`).
//!
//! A job belongs to the upper master that published it. What the master on this host published
//! itself belongs to one of them, as `syndic_failover` says.

use super::forwarded::Ledger;
use halite_channel::MinionError;
use halite_config::MasterConfig;
use halite_sys::daemon::make_dir;
use halite_wire::ids::Jid;
use rand::seq::SliceRandom;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How several upper masters are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// `syndic_mode: cluster`: no events but those about jobs, and any upper master may have any return.
    pub cluster: bool,
    /// `syndic_failover: ordered`.
    pub ordered: bool,
    /// Messages without an answer before another master gets what may go to any.
    pub retries: u32,
}

impl Rules {
    /// From the options.
    ///
    /// # Errors
    /// One of them is none of its values.
    pub fn of(config: &MasterConfig) -> Result<Rules, MinionError> {
        let one = |name: &str, value: &str, other: &str, default: &str| match value {
            v if v == other => Ok(true),
            v if v == default => Ok(false),
            v => Err(MinionError::new(
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

/// The ledgers of all upper masters, by their place in `syndic_master`.
#[derive(Debug)]
pub struct Routes {
    rules: Rules,
    ledgers: Vec<Ledger>,
    /// Jobs that no upper master asked for, or whose own one was away.
    free: BTreeSet<Jid>,
}

impl Routes {
    /// Reads what an earlier process left below `cachedir`.
    ///
    /// # Errors
    /// A directory cannot be used.
    pub fn open(cachedir: &Path, masters: &[String], rules: Rules) -> io::Result<Routes> {
        let dir = halite_config::paths::minion::cache::syndic(cachedir);
        make_dir(&dir, 0o700)?;
        let places: Vec<_> = masters.iter().map(|m| dir.join(place(m))).collect();
        if let Some(first) = places.first() {
            make_dir(first, 0o700)?;
            adopt(&dir, first)?;
        }
        let ledgers: io::Result<Vec<Ledger>> = places.iter().map(|p| Ledger::open(p)).collect();
        Ok(Routes {
            rules,
            ledgers: ledgers?,
            free: BTreeSet::new(),
        })
    }

    /// Notes that an upper master asked for a job, before anything of it can come back; whether
    /// it is to be published below, which another one's may have been already.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn asked(&mut self, master: usize, jid: &Jid) -> io::Result<bool> {
        let new = !self.ledgers.iter().any(|ledger| ledger.knows(jid));
        self.ledgers[master].begin(jid)?;
        Ok(new)
    }

    /// The upper masters that get a job's returns. `reached` says which of them can be
    /// reached now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn owners(&mut self, jid: &Jid, reached: &[bool]) -> io::Result<Vec<usize>> {
        let owners: Vec<usize> = (0..self.ledgers.len())
            .filter(|at| self.ledgers[*at].knows(jid))
            .collect();
        if !owners.is_empty() {
            return Ok(owners);
        }
        let Some(one) = self.pick(None, reached) else {
            return Ok(owners);
        };
        self.free.insert(jid.clone());
        self.ledgers[one].begin(jid)?;
        Ok(vec![one])
    }

    /// Another upper master for a job whose own one is away, if another may have it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn hand_over(
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
        self.ledgers[other].begin(jid)?;
        let ids = self.ledgers[master].take(jid);
        self.ledgers[other].done(jid, &ids)?;
        self.free.insert(jid.clone());
        Ok(Some(other))
    }

    fn pick(&self, not: Option<usize>, reached: &[bool]) -> Option<usize> {
        let others = || (0..self.ledgers.len()).filter(|at| Some(*at) != not);
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

    /// How the masters are served.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The jobs of an upper master, oldest first.
    pub fn jobs(&self, master: usize) -> Vec<Jid> {
        self.ledgers[master].jobs()
    }

    /// Whether a job is an upper master's.
    pub fn knows(&self, master: usize, jid: &Jid) -> bool {
        self.ledgers[master].knows(jid)
    }

    /// Whether an upper master has this return.
    pub fn has(&self, master: usize, jid: &Jid, id: &str) -> bool {
        self.ledgers[master].has(jid, id)
    }

    /// Notes returns that an upper master has.
    ///
    /// # Errors
    /// The file cannot be written; the returns would go up again after a restart.
    pub fn done(&mut self, master: usize, jid: &Jid, ids: &[String]) -> io::Result<()> {
        self.ledgers[master].done(jid, ids)
    }

    /// Forgets an upper master's jobs in which nothing has happened for `keep`.
    pub fn expire(&mut self, master: usize, keep: Duration) {
        self.ledgers[master].expire(keep);
        let ledgers = &self.ledgers;
        self.free
            .retain(|jid| ledgers.iter().any(|ledger| ledger.knows(jid)));
    }
}

/// A name for a file or directory out of an entry of `syndic_master`.
pub fn place(master: &str) -> String {
    let plain = |(at, c): (usize, char)| match c {
        c if c.is_ascii_alphanumeric() || c == '-' => c,
        '.' if at > 0 => c,
        _ => '_',
    };
    master.trim().chars().enumerate().map(plain).collect()
}

/// Notes from when there was one upper master only are the first one's.
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
        assert!(routes.asked(1, &jid(1)).unwrap());
        assert_eq!(routes.owners(&jid(1), &[true, true]).unwrap(), [1]);
        // Not even when it is away.
        assert_eq!(routes.hand_over(1, &jid(1), &[true, false]).unwrap(), None);
        // Both ask: once down, both are told.
        assert!(!routes.asked(0, &jid(1)).unwrap());
        assert_eq!(routes.owners(&jid(1), &[true, true]).unwrap(), [0, 1]);
        routes.done(1, &jid(1), &["a".into()]).unwrap();
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
        routes.done(0, &jid(2), &["a".into()]).unwrap();
        assert_eq!(routes.hand_over(0, &jid(2), &[false, false]).unwrap(), None);
        assert_eq!(
            routes.hand_over(0, &jid(2), &[false, true]).unwrap(),
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
        routes.asked(0, &jid(1)).unwrap();
        assert_eq!(
            routes.hand_over(0, &jid(1), &[false, true]).unwrap(),
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
        assert!(routes.asked(1, &jid(1)).is_err());
        assert_eq!(routes.owners(&jid(1), &[true, true]).unwrap(), [1]);
        assert!(routes.owners(&jid(2), &[true, true]).is_err());
        assert_eq!(routes.owners(&jid(2), &[true, true]).unwrap(), [0]);
    }

    #[test]
    fn names_of_places() {
        assert_eq!(place("10.0.0.1:4506"), "10.0.0.1_4506");
        assert_eq!(place("[::1]:5"), "___1__5");
        assert_eq!(place(".."), "_.");
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
