//! Requests that are on their way: whom they were sent to, and until when answers are waited for.

use super::call::What;
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
    /// What is asked.
    pub what: What,
}

/// What a request is for.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Who is there, in the collective of this place.
    Discovery(usize),
    /// What nodes are.
    Inventory,
    /// A job.
    Job(Work),
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Flight {
    /// What it is for.
    pub kind: Kind,
    /// Place of its collective, and whether it went to all at once.
    pub sent: (usize, bool),
    /// Ids of nodes that have not answered. Of a discovery, of those that have.
    pub nodes: HashSet<String>,
    /// When nobody waits any longer.
    pub due: Instant,
    /// How long that is.
    pub patience: Duration,
}

/// How a reply fits.
#[derive(Debug)]
pub(super) enum Fit {
    /// It is waited for.
    Awaited(Kind),
    /// It answers nothing that is on its way.
    Stray,
    /// Its node was not asked, or has answered.
    Stranger,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Flights {
    all: HashMap<RequestId, Flight>,
}

impl Flights {
    /// A request is sent.
    pub fn begin(&mut self, id: RequestId, flight: Flight) {
        self.all.insert(id, flight);
    }

    /// Ends one.
    pub fn take(&mut self, id: &RequestId) -> Option<Flight> {
        self.all.remove(id)
    }

    /// A node has answered a request.
    pub fn answered(&mut self, id: &RequestId, node: &str) -> Fit {
        let Some(flight) = self.all.get_mut(id) else {
            return Fit::Stray;
        };
        let fits = match flight.kind {
            Kind::Discovery(_) if flight.nodes.len() >= MOST => false,
            Kind::Discovery(_) => flight.nodes.insert(node.to_owned()),
            _ => flight.nodes.remove(node),
        };
        if !fits {
            return Fit::Stranger;
        }
        let kind = flight.kind.clone();
        if flight.nodes.is_empty() {
            self.all.remove(id);
        }
        Fit::Awaited(kind)
    }

    /// Those whose time is over.
    pub fn overdue(&mut self, now: Instant) -> Vec<Flight> {
        let over = |(id, flight): (&RequestId, &Flight)| (flight.due <= now).then(|| id.clone());
        let ids: Vec<RequestId> = self.all.iter().filter_map(over).collect();
        ids.iter().filter_map(|id| self.all.remove(id)).collect()
    }

    /// Jobs that run on a node.
    pub fn of_node<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Work> {
        self.works(move |flight, _| flight.nodes.contains(node))
    }

    /// Nodes on which a job runs, with it.
    pub fn of_job(&self, jid: &str) -> Vec<(&Work, &HashSet<String>)> {
        let found = self.all.values().filter_map(|flight| match &flight.kind {
            Kind::Job(work) if work.jid.as_str() == jid => Some((work, &flight.nodes)),
            _ => None,
        });
        found.collect()
    }

    /// How many inventories nodes owe.
    pub fn inventories(&self) -> usize {
        let asked = self.all.values();
        let asked = asked.filter(|flight| matches!(flight.kind, Kind::Inventory));
        asked.map(|flight| flight.nodes.len()).sum()
    }

    /// How many requests of jobs there are.
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
                Kind::Job(work) if which(flight, work) => Some(work),
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
