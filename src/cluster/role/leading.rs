//! Who leads, and what the leader does.

use super::{Cluster, Membership};
use crate::record::LEAD;
use crate::sync::Put;
use std::time::Instant;

impl Cluster<'_> {
    /// Makes room for another leader.
    pub(super) fn resign(&mut self) {
        let resigns = self.lease.resign(Instant::now());
        if let Some((lead, revision)) = resigns.filter(|_| self.membership == Membership::Member) {
            let sealed = self.sealer.seal_lead(&lead);
            self.link.put(LEAD.to_owned(), sealed, revision);
        }
    }

    /// Becomes the leader if nobody is, or stays it.
    pub(super) fn lead(&mut self) {
        if self.membership != Membership::Member || self.streams.is_pausing() {
            return;
        }
        if let Some((lead, revision)) = self.lease.due(Instant::now()) {
            let sealed = self.sealer.seal_lead(&lead);
            if !self.link.put(LEAD.to_owned(), sealed, revision) {
                self.lease.ended(Put::Unknown);
            }
        }
    }

    /// Logs when this master begins to lead, or ends.
    pub(super) fn tell_of_leading(&mut self) {
        let leads = self.lease.is_leader(Instant::now());
        if std::mem::replace(&mut self.said_leader, leads) != leads {
            let what = if leads { "leads" } else { "leads no more" };
            log::info!(
                "cluster: this master {what}: the leader does what must happen once for all masters"
            );
        }
    }
}
