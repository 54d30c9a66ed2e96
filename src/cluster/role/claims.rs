//! Runs of scheduled jobs are claimed in the bucket before they begin.

use super::{Cluster, Membership};
use crate::link::Entry;
use crate::record::{job_of, run_of};
use halite_sys::time::unix_now;
use std::time::Instant;

impl Cluster<'_> {
    /// Claims what the scheduler of this master asks for, if this master leads.
    pub(super) fn claim(&mut self) {
        if self.membership != Membership::Member {
            return;
        }
        let leads = self.leases.is_leader();
        for (job, run, revision) in self.claims.due(leads, Instant::now()) {
            let name = run_of(&job);
            let sealed = self.sealer.seal_run(&name, run);
            if !self.link.put(name, sealed, revision) {
                self.claims.ended(&job);
            }
        }
    }

    /// An entry about a job.
    pub(super) fn check_run(&mut self, entry: &Entry) {
        let run = self.sealer.open_run(&entry.name, &entry.value);
        let job = job_of(&entry.name).unwrap_or_default();
        if !self.claims.entry(&job, run, entry.revision, unix_now()) {
            self.stranger(&entry.name);
        }
    }

    /// A write has ended.
    pub(super) fn claim_ended(&mut self, name: &str) {
        if let Some(job) = job_of(name) {
            self.claims.ended(&job);
        }
    }
}
