//! Jobs of a stock master into the job log, and back.

use super::{JobLog, StockLayout};
use crate::jobs::{JobStore, StoredJob, StoredReturn};
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::collections::HashSet;
use std::io;

/// What became of the jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTransfer {
    /// Jobs that were not there.
    pub jobs: usize,
    /// Returns that were not there, those of these jobs among them.
    pub returns: usize,
    /// Jobs that were there with all their returns.
    pub same: usize,
    /// Jobs that could not be read or written.
    pub failed: usize,
}

/// Copies what a stock master kept; with `dry` it is only counted.
///
/// # Errors
/// The directory of the stock master cannot be read. A job that cannot be copied is counted and told in the log.
pub fn import(from: &StockLayout, to: &JobLog, dry: bool) -> io::Result<JobTransfer> {
    let mut jids = from.jids()?;
    jids.sort_unstable();
    let mut done = JobTransfer::default();
    for jid in jids {
        let copied = from.get(&jid).and_then(|job| match job {
            Some(job) => Plan::of(&job, to.own(&jid)?).carry_out(
                dry,
                |job| to.save_load(&jid, &job.load, &job.minions, &job.missing),
                |id, load| to.save_return(&jid, id, load),
            ),
            None => Err(io::Error::other("its files are damaged")),
        });
        done.note(&jid, copied);
    }
    Ok(done)
}

/// Copies what halite kept to where a stock master reads it; with `dry` it is only counted.
///
/// # Errors
/// The job log cannot be read. A job that cannot be copied is counted and told in the log.
pub fn export(from: &JobLog, to: &StockLayout, dry: bool) -> io::Result<JobTransfer> {
    let mut done = JobTransfer::default();
    for (jid, _) in from.list()? {
        let copied = from.own(&jid).and_then(|job| match job {
            Some(job) => Plan::of(&job, to.get(&jid)?).carry_out(
                dry,
                |job| to.save_load(&jid, &job.load, &job.minions),
                |id, load| to.save_return(&jid, id, load),
            ),
            // A stock master kept it, in the place to which it would go.
            None => Ok(Plan::default()),
        });
        done.note(&jid, copied);
    }
    Ok(done)
}

impl JobTransfer {
    fn note(&mut self, jid: &Jid, copied: io::Result<Plan>) {
        match copied {
            Ok(plan) => {
                self.jobs += usize::from(plan.load.is_some());
                self.returns += plan.returns.len();
                self.same += usize::from(plan.load.is_none() && plan.returns.is_empty());
            }
            Err(e) => {
                self.failed += 1;
                log::error!("the job {jid} is not copied: {e}");
            }
        }
    }
}

/// What one side lacks of a job.
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

    /// Carries it out, unless it is to be `dry`.
    fn carry_out(
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
    use halite_crypto::HashType;

    #[test]
    fn jobs_go_there_and_back_once() {
        let [old, own] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let stock = StockLayout::new(old.path(), HashType::Sha256, true);
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

        // A return that came later, and a job of halite's own, go back.
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
