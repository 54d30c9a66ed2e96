//! Jobs of an earlier process of the minion that go on: found by their files in `<cachedir>/proc`, watched until
//! their processes end. Their results wait in [`left_results`].

use super::{Finished, Jobs, Origin};
use crate::{job, left_results};
use halite_modules::execution::proc::{self, Process};
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::time::Duration;

/// How often ends are looked for: these processes are not children of ours, so the system does not tell.
pub const LOOK: Duration = Duration::from_millis(500);
/// Job files beyond this are none.
const MAX_FILE: u64 = 512 << 20;

/// A job that goes on.
pub(super) struct Left {
    jid: Jid,
    origin: Origin,
    load: Map,
    process: Process,
}

impl Left {
    pub fn pid(&self) -> u32 {
        self.process.pid
    }
}

impl Jobs {
    /// Looks for the jobs of an earlier process: those that go on are watched from now on. Gives the
    /// results of the others: what they left, or that they were ended.
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
            let Some(line) = self.home(load.get(proc::MASTER)) else {
                continue;
            };
            let origin = Origin::Master(line);
            match proc::process_of(&load) {
                Some(process) => {
                    log::info!(
                        jid:% = jid;
                        "job {jid} of an earlier process goes on as process {}",
                        process.pid
                    );
                    self.left.push(Left {
                        jid,
                        origin,
                        load,
                        process,
                    });
                }
                None => finished.push(self.account(&jid, origin, &load)),
            }
        }
        // Somebody has asked for a job that had ended, which takes its file away.
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

    /// How long until [`Jobs::attend`] has to look after jobs of an earlier process.
    pub fn patience(&self) -> Option<Duration> {
        (!self.left.is_empty()).then_some(LOOK)
    }

    /// Results of those that have ended since.
    pub(super) fn left_ended(&mut self) -> Vec<Finished> {
        let ended: Vec<Left> = self
            .left
            .extract_if(.., |left| !left.process.still_runs())
            .collect();
        ended
            .into_iter()
            .map(|left| self.account(&left.jid, left.origin, &left.load))
            .collect()
    }

    /// The result of a job whose process has ended.
    fn account(&self, jid: &Jid, origin: Origin, load: &Map) -> Finished {
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

    /// The connection to the master that a job file names; of one that names none, the first. `None`:
    /// no master waits for the job.
    fn home(&self, master: Option<&Value>) -> Option<usize> {
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
