//! Copies jobs of a stock master to the job log, and back.

use super::{JobLog, StockLayout};
use crate::jobs::{JobStore, StoredJob, StoredReturn};
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::collections::HashSet;
use std::io;

/// How many jobs and returns were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTransfer {
    /// Jobs that were new.
    pub jobs: usize,
    /// Returns that were new, including those of new jobs.
    pub returns: usize,
    /// Jobs that existed with all their returns.
    pub same: usize,
    /// Jobs that could not be read or written.
    pub failed: usize,
}

/// Copies the jobs of a stock master to the job log; with `dry`, only counts them.
///
/// # Errors
/// The directory of the stock master cannot be read. A job that cannot be copied is counted and logged.
pub fn import(from: &StockLayout, to: &JobLog, dry: bool) -> io::Result<JobTransfer> {
    let mut jids = from.jids()?;
    jids.sort_unstable();
    let mut done = JobTransfer::default();
    for jid in jids {
        let copied = from.get(&jid).and_then(|job| match job {
            Some(job) => Plan::of(&job, to.get_logged(&jid)?).apply(
                dry,
                |job| to.save_load(&jid, &job.load, &job.minions, &job.missing),
                |id, load| to.save_return(&jid, id, load),
            ),
            None => Err(io::Error::other("its files are damaged")),
        });
        done.count(&jid, copied);
    }
    Ok(done)
}

/// Copies the job log to where a stock master reads it; with `dry`, only counts the jobs.
///
/// # Errors
/// The job log cannot be read. A job that cannot be copied is counted and logged.
pub fn export(from: &JobLog, to: &StockLayout, dry: bool) -> io::Result<JobTransfer> {
    let mut done = JobTransfer::default();
    for (jid, _) in from.list()? {
        let copied = from.get_logged(&jid).and_then(|job| match job {
            Some(job) => Plan::of(&job, to.get(&jid)?).apply(
                dry,
                |job| to.save_load(&jid, &job.load, &job.minions),
                |id, load| to.save_return(&jid, id, load),
            ),
            // A stock master stored it, and it is already where it would be copied to.
            None => Ok(Plan::default()),
        });
        done.count(&jid, copied);
    }
    Ok(done)
}

impl JobTransfer {
    fn count(&mut self, jid: &Jid, copied: io::Result<Plan>) {
        match copied {
            Ok(plan) => {
                self.jobs += usize::from(plan.load.is_some());
                self.returns += plan.returns.len();
                self.same += usize::from(plan.load.is_none() && plan.returns.is_empty());
            }
            Err(e) => {
                self.failed += 1;
                log::error!("job {jid} was not copied: {e}");
            }
        }
    }
}

/// The parts of a job that the target lacks.
#[derive(Default)]
struct Plan {
    load: Option<StoredJob>,
    returns: Vec<StoredReturn>,
}

impl Plan {
    fn of(job: &StoredJob, there: Option<StoredJob>) -> Plan {
        let known: HashSet<&str> = there
            .iter()
            .flat_map(|t| t.returns.iter().map(|r| r.id.as_str()))
            .collect();
        let new = |r: &&StoredReturn| !known.contains(r.id.as_str());
        let has_load = there.as_ref().is_some_and(|t| !t.load.is_empty());
        Plan {
            load: (!has_load).then(|| StoredJob {
                returns: Vec::new(),
                ..job.clone()
            }),
            returns: job.returns.iter().filter(new).cloned().collect(),
        }
    }

    /// Stores these parts, unless `dry` is set.
    fn apply(
        self,
        dry: bool,
        save_load: impl FnOnce(&StoredJob) -> io::Result<()>,
        save_return: impl Fn(&MinionId, &Map) -> io::Result<()>,
    ) -> io::Result<Plan> {
        if dry {
            return Ok(self);
        }
        if let Some(job) = &self.load {
            save_load(job)?;
        }
        for one in &self.returns {
            save_return(&id(one)?, &one.load)?;
        }
        Ok(self)
    }
}

fn id(one: &StoredReturn) -> io::Result<MinionId> {
    one.id.parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::JobReader;
    use halite_crypto::HashType;

    #[test]
    fn jobs_are_copied_once_in_each_direction() {
        let [old, own] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let stock = StockLayout::new(old.path(), HashType::Sha256);
        let log = JobLog::new(own.path(), 86400, None);
        let jid: Jid = "20201121092637195592".parse().unwrap();
        let load = halite_wire::map! {"fun" => "test.ping", "tgt" => "*", "key" => "secret"};
        stock
            .save_load(&jid, &load, &["a".into(), "b".into()])
            .unwrap();
        let ret = halite_wire::map! {"return" => true, "retcode" => 0, "success" => true};
        stock
            .save_return(&jid, &"a".parse().unwrap(), &ret)
            .unwrap();

        let counted = import(&stock, &log, true).unwrap();
        assert_eq!((counted.jobs, counted.returns), (1, 1));
        assert!(log.get(&jid).unwrap().is_none(), "nothing is written");
        assert_eq!(import(&stock, &log, false).unwrap(), counted);
        let job = log.get(&jid).unwrap().unwrap();
        assert_eq!(job.minions, ["a", "b"]);
        assert_eq!(job.returns.len(), 1);
        assert!(!job.load.contains("key"));
        let again = import(&stock, &log, false).unwrap();
        assert_eq!((again.jobs, again.returns, again.same), (0, 0, 1));

        // A later return and a job of halite are copied back.
        log.save_return(
            &jid,
            &"b".parse().unwrap(),
            &halite_wire::map! {"id" => "b", "return" => 5},
        )
        .unwrap();
        let next: Jid = "20201121092638195592".parse().unwrap();
        log.save_load(&next, &load, &["a".into()], &[]).unwrap();
        let back = export(&log, &stock, false).unwrap();
        assert_eq!(
            (back.jobs, back.returns, back.same, back.failed),
            (1, 1, 0, 0)
        );
        assert_eq!(stock.get(&jid).unwrap().unwrap().returns.len(), 2);
        assert_eq!(
            stock.get(&next).unwrap().unwrap().load.str("fun"),
            Some("test.ping")
        );
        assert_eq!(export(&log, &stock, false).unwrap().same, 2);
    }
}
