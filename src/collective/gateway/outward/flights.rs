//! Pending requests: which nodes they were sent to, and until when to wait for replies.

use super::call::NodeRequest;
use super::nodes::MOST;
use crate::wire::RequestId;
use halite_wire::Map;
use halite_wire::ids::Jid;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A job's part of a request.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// The job.
    pub jid: Jid,
    /// `fun`, `arg`, ...
    pub load: Arc<Map>,
    /// The request.
    pub what: NodeRequest,
}

/// The purpose of a request.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// Discovery, in the collective with this index.
    Discovery(usize),
    /// Inventories.
    Inventory,
    /// A job.
    Job(Work),
}

/// A pending request.
#[derive(Debug)]
pub(super) struct Flight {
    /// Its purpose.
    pub kind: Purpose,
    /// Index of its collective, and whether it was broadcast.
    pub sent: (usize, bool),
    /// Ids of nodes that have not replied; for a discovery, of those that have.
    pub nodes: HashSet<String>,
    /// When it times out.
    pub due: Instant,
    /// Its timeout.
    pub patience: Duration,
}

/// How a reply matches the pending requests.
#[derive(Debug)]
pub(super) enum ReplyMatch {
    /// It is expected.
    Awaited(Purpose),
    /// It matches no pending request.
    Stray,
    /// Its node was not asked, or has already replied.
    Stranger,
}

/// All pending requests.
#[derive(Debug, Default)]
pub(super) struct Flights {
    all: HashMap<RequestId, Flight>,
}

impl Flights {
    /// Adds a request.
    pub fn begin(&mut self, id: RequestId, flight: Flight) {
        self.all.insert(id, flight);
    }

    /// Removes a request.
    pub fn take(&mut self, id: &RequestId) -> Option<Flight> {
        self.all.remove(id)
    }

    /// Handles a reply of a node to a request.
    pub fn answered(&mut self, id: &RequestId, node: &str) -> ReplyMatch {
        let Some(flight) = self.all.get_mut(id) else {
            return ReplyMatch::Stray;
        };
        let fits = match flight.kind {
            Purpose::Discovery(_) if flight.nodes.len() >= MOST => false,
            Purpose::Discovery(_) => flight.nodes.insert(node.to_owned()),
            _ => flight.nodes.remove(node),
        };
        if !fits {
            return ReplyMatch::Stranger;
        }
        let kind = flight.kind.clone();
        if flight.nodes.is_empty() {
            self.all.remove(id);
        }
        ReplyMatch::Awaited(kind)
    }

    /// Removes and returns requests that have timed out.
    pub fn overdue(&mut self, now: Instant) -> Vec<Flight> {
        let over = |(id, flight): (&RequestId, &Flight)| (flight.due <= now).then(|| id.clone());
        let ids: Vec<RequestId> = self.all.iter().filter_map(over).collect();
        ids.iter().filter_map(|id| self.all.remove(id)).collect()
    }

    /// Jobs running on a node.
    pub fn of_node<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Work> {
        self.works(move |flight, _| flight.nodes.contains(node))
    }

    /// The requests of a job, with the nodes that it is running on.
    pub fn of_job(&self, jid: &str) -> Vec<(&Work, &HashSet<String>)> {
        let found = self.all.values().filter_map(|flight| match &flight.kind {
            Purpose::Job(work) if work.jid.as_str() == jid => Some((work, &flight.nodes)),
            _ => None,
        });
        found.collect()
    }

    /// Number of inventories not yet received.
    pub fn inventories(&self) -> usize {
        let asked = self.all.values();
        let asked = asked.filter(|flight| matches!(flight.kind, Purpose::Inventory));
        asked.map(|flight| flight.nodes.len()).sum()
    }

    /// Number of pending requests of jobs.
    pub fn jobs(&self) -> usize {
        self.works(|_, _| true).count()
    }

    fn works<'a>(
        &'a self,
        which: impl Fn(&Flight, &Work) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Work> {
        self.all
            .values()
            .filter_map(move |flight| match &flight.kind {
                Purpose::Job(work) if which(flight, work) => Some(work),
                _ => None,
            })
    }
}

/// A job as `saltutil.find_job` of a minion describes it.
pub(super) fn described(work: &Work) -> Map {
    let mut out = halite_wire::map! {"jid" => work.jid.as_str(), "pid" => std::process::id()};
    out.0.extend(work.load.0.iter().cloned());
    out
}
