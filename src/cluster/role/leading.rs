//! What one master at a time does: who leads, and who runs each gateway of which there is one.

use super::{Cluster, Membership};
use crate::lease::Lease;
use crate::link::Entry;
use crate::record::{LEAD, Lead, gateway_of, lead_of};
use crate::sync::Put;
use halite_config::MasterConfig;
use halite_crypto::random_hex;
use halite_wire::Value;
use std::collections::BTreeMap;
use std::time::Instant;

/// What this master may do for all, by the name of the entry in the bucket.
pub(super) struct Leases(BTreeMap<String, Lease>);

impl Leases {
    pub(super) fn new(config: &MasterConfig) -> Leases {
        let own = format!("{} {}", config.id, random_hex(8));
        let gateways = config.gateways_of_clusters().into_iter().map(lead_of);
        let names = std::iter::once(LEAD.to_owned()).chain(gateways);
        Leases(names.map(|name| (name, Lease::new(own.clone()))).collect())
    }

    /// Whether this master leads.
    pub(super) fn is_leader(&self) -> bool {
        let lease = self.0.get(LEAD);
        lease.is_some_and(|lease| lease.is_leader(Instant::now()))
    }

    /// The gateways that this master runs for all.
    pub(super) fn gateways(&self) -> Value {
        let now = Instant::now();
        let held = self.0.iter().filter(|(_, lease)| lease.is_leader(now));
        let held = held.filter_map(|(name, _)| gateway_of(name));
        Value::Array(held.map(Value::from).collect())
    }

    /// How a write has ended; `false` if it was of something else.
    pub(super) fn ended(&mut self, name: &str, how: Put) -> bool {
        let lease = self.0.get_mut(name);
        lease.map(|lease| lease.ended(how)).is_some()
    }

    /// The connection is lost.
    pub(super) fn down(&mut self) {
        self.0.values_mut().for_each(Lease::down);
    }
}

impl Cluster<'_> {
    /// An entry that says who leads, or which master runs a gateway.
    pub(super) fn check_lead(&mut self, entry: &Entry) {
        let lead = self.sealer.open_lead(&entry.name, &entry.value);
        let is_ours = lead.is_some();
        // This master may have no such gateway.
        let lease = self.leases.0.get_mut(&entry.name);
        let is_new = lease.is_none_or(|one| one.entry(lead, entry.revision, Instant::now()));
        if !is_new || !is_ours {
            self.stranger(&entry.name);
        }
    }

    /// Makes room for other masters.
    pub(super) fn resign(&mut self) {
        let leases = self.leases.0.iter_mut();
        let resigns = leases.filter_map(|(name, lease)| {
            let (lead, revision) = lease.resign(Instant::now())?;
            Some((name.clone(), lead, revision))
        });
        for (name, lead, revision) in resigns.collect::<Vec<_>>() {
            if self.membership == Membership::Member {
                self.put_lead(&name, &lead, revision);
            }
        }
    }

    /// Takes what nobody does, and goes on with what this master does.
    pub(super) fn lead(&mut self) {
        let is_leaving = self.peers.is_draining || self.streams.is_pausing();
        if self.membership != Membership::Member || is_leaving {
            return;
        }
        let leases = self.leases.0.iter_mut();
        let due = leases.filter_map(|(name, lease)| {
            let (lead, revision) = lease.due(Instant::now())?;
            Some((name.clone(), lead, revision))
        });
        for (name, lead, revision) in due.collect::<Vec<_>>() {
            if !self.put_lead(&name, &lead, revision) {
                self.leases.ended(&name, Put::Unknown);
            }
        }
    }

    fn put_lead(&self, name: &str, lead: &Lead, revision: u64) -> bool {
        let sealed = self.sealer.seal_lead(name, lead);
        self.link.put(name.to_owned(), sealed, revision)
    }

    /// Logs when this master begins to lead, or ends.
    pub(super) fn tell_of_leading(&mut self) {
        let leads = self.leases.is_leader();
        if std::mem::replace(&mut self.said_leader, leads) != leads {
            let what = if leads { "leads" } else { "leads no more" };
            log::info!(
                "cluster: this master {what}: the leader runs the schedule and fires presence events"
            );
        }
    }
}
