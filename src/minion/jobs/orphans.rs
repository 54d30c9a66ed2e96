//! Jobs of an earlier minion process that are still running: found by their files in `<cachedir>/proc` and
//! watched until their processes exit. Their results are in [`left_results`].

use super::{Finished, Jobs, Origin};
use crate::{job, left_results};
use halite_modules::execution::proc::{self, Process};
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::time::Duration;

/// Polling interval for exits: these processes are not our children, so there is no SIGCHLD.
pub const LOOK: Duration = Duration::from_millis(500);
/// Larger job files are ignored.
const MAX_FILE: u64 = 512 << 20;

/// A job of an earlier process that is still running.
pub(super) struct Orphan {
    jid: Jid,
    origin: Origin,
    load: Map,
    process: Process,
}

impl Orphan {
    pub fn pid(&self) -> u32 {
        self.process.pid
    }
}

impl Jobs {
    /// Finds the jobs of an earlier process: those still running are watched from now on. Returns the results
    /// of the others: what they left, or that they were killed.
    pub fn adopt_orphans(&mut self) -> Vec<Finished> {
        let cachedir = self.config.cachedir.clone();
        let mut finished = Vec::new();
        let notes = proc::dir(&cachedir);
        for jid in proc::jids(&notes) {
            let note = proc::read_file(&notes.join(jid.as_str()), MAX_FILE);
            let load = note.and_then(|bytes| msgpack::decode(&bytes).ok()?.into_map());
            let Some(load) = load.filter(|load| load.contains("fun")) else {
                continue;
            };
            let Some(line) = self.connection_of(load.get(proc::MASTER)) else {
                continue;
            };
            let origin = Origin::Master(line);
            match proc::process_of(&load) {
                Some(process) => {
                    log::info!(
                        jid:% = jid;
                        "job {jid} of an earlier process is still running as process {}",
                        process.pid
                    );
                    self.left.push(Orphan {
                        jid,
                        origin,
                        load,
                        process,
                    });
                }
                None => finished.push(self.orphan_result(&jid, origin, &load)),
            }
        }
        // If somebody queries a job that has finished, its proc file is removed.
        for jid in left_results::jids(&cachedir) {
            if !self.left.iter().any(|left| left.jid == jid)
                && let Some(load) = left_results::take(&cachedir, &jid)
            {
                finished.push(Finished {
                    jid,
                    origin: Origin::Master(0),
                    load,
                });
            }
        }
        finished
    }

    /// How long until [`Jobs::poll`] must check the jobs of an earlier process.
    pub fn patience(&self) -> Option<Duration> {
        (!self.left.is_empty()).then_some(LOOK)
    }

    /// Results of those that have exited since.
    pub(super) fn exited_orphans(&mut self) -> Vec<Finished> {
        let ended: Vec<Orphan> = self
            .left
            .extract_if(.., |left| !left.process.still_runs())
            .collect();
        ended
            .into_iter()
            .map(|left| self.orphan_result(&left.jid, left.origin, &left.load))
            .collect()
    }

    /// The result of a job whose process has exited.
    fn orphan_result(&self, jid: &Jid, origin: Origin, load: &Map) -> Finished {
        let result = left_results::take(&self.config.cachedir, jid);
        self.forget(jid);
        let why = "The minion was ended while it ran the job.";
        let load = result.unwrap_or_else(|| {
            log::warn!(jid:% = jid; "job {jid} was not finished by an earlier process");
            let ret = job::failed(&self.config.id, load, why, 1, self.stamp);
            msgpack::encode_map(&ret, Profile::Local)
        });
        Finished {
            jid: jid.clone(),
            origin,
            load,
        }
    }

    /// The connection to the master named in a job file; the first one if the file has no master field. `None`:
    /// no master waits for the job.
    fn connection_of(&self, master: Option<&Value>) -> Option<usize> {
        match master {
            None => Some(0),
            Some(master) => {
                let name = master.as_str()?;
                let at = self.sites.iter().position(|site| site.master == name);
                Some(at.unwrap_or(0))
            }
        }
    }
}
