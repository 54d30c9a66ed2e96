//! What the job log has, so that nothing is stored twice.

use super::record::{JobRecord, unpack};
use halite_master::events::PEER;
use halite_store::jobs::{JobStore, JobUpdate, Returned};
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// Most ids that are remembered; beyond this all are forgotten, and read again from the job log.
const MOST_IDS: usize = 500_000;

/// What the job log has about a job.
#[derive(Default)]
struct KnownJob {
    has_load: bool,
    is_published: bool,
    returned: HashSet<String>,
}

/// What was new of a record.
#[derive(Default)]
pub struct Stored {
    /// The load of the job.
    pub load: Option<Map>,
    /// Returns.
    pub returns: Vec<(MinionId, Map)>,
}

/// The job log, and what is known of it.
pub struct Known {
    jobs: Arc<dyn JobStore>,
    known: HashMap<Jid, KnownJob>,
    ids: usize,
}

impl Known {
    /// Of this job log.
    pub fn of(jobs: Arc<dyn JobStore>) -> Known {
        Known {
            jobs,
            known: HashMap::new(),
            ids: 0,
        }
    }

    /// Stores what is new of what the master `peer` has told.
    ///
    /// # Errors
    /// The job log cannot be read or written.
    pub fn store(&mut self, peer: &str, record: JobRecord) -> io::Result<Stored> {
        let jobs = self.jobs.clone();
        let jid = record.jid;
        let known = self.job(&jid)?;
        // Of a third master, if this one tells what it was told.
        let of_peer = |load: &mut Map| {
            if !load.contains(PEER) {
                load.set(PEER, peer);
            }
        };
        let mut stored = Stored::default();
        if !known.has_load
            && let Some(mut load) = record.load.and_then(|load| unpack(&load))
        {
            of_peer(&mut load);
            jobs.save_load(&jid, &load, &record.minions, &record.missing)?;
            known.has_load = true;
            stored.load = Some(load);
        }
        let starts_job = record.is_started_by_minion && !known.has_load;
        known.has_load |= record.is_started_by_minion;
        for mut load in record.returns.iter().filter_map(|load| unpack(load)) {
            let Some(Ok(id)) = load.str("id").map(str::parse::<MinionId>) else {
                continue;
            };
            if known.returned.insert(id.to_string()) {
                of_peer(&mut load);
                stored.returns.push((id, load));
            }
        }
        self.ids += stored.returns.len();
        let returned = stored.returns.iter().map(|(id, load)| Returned {
            jid: &jid,
            id,
            load,
            starts_job,
        });
        for outcome in jobs.save_returns(&returned.collect::<Vec<_>>()) {
            match outcome {
                // Trying again would not help.
                Err(e) if e.kind() == ErrorKind::InvalidInput => {
                    log::warn!(jid:% = jid; "a return that {peer} told of: {e}; not stored");
                }
                other => other?,
            }
        }
        Ok(stored)
    }

    /// Whether a job is to be published: the first time that this is asked, unless the log had it before.
    ///
    /// # Errors
    /// The job log cannot be read.
    pub fn publishes(&mut self, jid: &Jid) -> io::Result<bool> {
        Ok(!std::mem::replace(&mut self.job(jid)?.is_published, true))
    }

    fn job(&mut self, jid: &Jid) -> io::Result<&mut KnownJob> {
        if self.ids > MOST_IDS {
            self.known.clear();
            self.ids = 0;
        }
        if !self.known.contains_key(jid) {
            let stored = self.jobs.get(jid)?.unwrap_or_default();
            let has_load = !stored.load.is_empty();
            let returned: HashSet<String> = stored.returns.into_iter().map(|r| r.id).collect();
            self.ids += returned.len() + 1;
            let known = KnownJob {
                has_load,
                is_published: has_load,
                returned,
            };
            self.known.insert(jid.clone(), known);
        }
        Ok(self.known.entry(jid.clone()).or_default())
    }

    /// Hears of what this master's own job log has got.
    pub fn learn(&mut self, update: &JobUpdate) {
        if let Some(known) = self.known.get_mut(&update.jid) {
            let before = known.returned.len();
            known
                .returned
                .extend(update.returns.iter().map(|r| r.id.clone()));
            self.ids += known.returned.len() - before;
        }
    }
}
