//! The outward half: the servers of the collective are minions of this master.
//!
//! Decides without IO: messages and the time come in, actions go out. Keys are accessed through [`Registry`]. `nodes` has
//! the known nodes, `flights` the pending requests; `call` maps functions to requests, `outcome` replies to returns, `send`
//! chooses the recipients of a request.
//!
//! A reply is accepted only if it belongs to a pending request of ours (ids are random) and its sender was asked and has
//! not replied yet. Nothing else in it is trusted.

mod call;
mod find;
mod flights;
mod grains;
mod jobs;
mod nodes;
mod outcome;
mod registry;
mod send;

pub(super) use registry::{Keys, Registry};

pub(super) use find::REGISTRATION;

use super::act::{Act, Clock};
use crate::broker::{Place, To, Unsent};
use crate::ruby::Datum;
use crate::wire::{
    AgentName, BadName, CallerId, Collective, Filter, Identity, Reply, Request, RequestId,
};
use flights::{Flights, Purpose, ReplyMatch};
use halite_config::CollectiveGateway;
use halite_crypto::random_hex;
use halite_gateway::agent_keys::Standing;
use halite_wire::Map;
use halite_wire::ids::MinionId;
use nodes::Nodes;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The smallest `ttl` that Choria's request schema accepts, in seconds (reference, section 18).
const LEAST_TTL: u32 = 30;

/// The settings of this half.
pub(super) struct Rules {
    /// Sender of requests.
    pub identity: Identity,
    /// Caller id of requests.
    pub caller: CallerId,
    /// The collectives, the main one first.
    pub collectives: Vec<Collective>,
    /// Time to live of requests, in seconds.
    pub ttl: u32,
    /// How long nodes may take for an action.
    pub timeout: Duration,
    /// Interval of discovery.
    pub discovery_interval: Duration,
    /// How long to wait for replies to discovery and pings.
    pub discovery_timeout: Duration,
    /// How often to request a node's inventory.
    pub inventory_interval: Duration,
    /// Up to this many nodes get a request each.
    pub direct_threshold: usize,
}

impl Rules {
    /// From the settings; requests are sent as `caller`.
    ///
    /// # Errors
    /// A name is invalid; not possible with validated settings.
    pub fn new(settings: &CollectiveGateway, caller: &CallerId) -> Result<Rules, BadName> {
        let collectives = settings.collectives.iter().map(|name| name.parse());
        // A request must not start after we have stopped waiting for it.
        let patience = u32::try_from(settings.timeout.as_secs()).unwrap_or(u32::MAX);
        Ok(Rules {
            identity: settings.identity.parse()?,
            caller: caller.clone(),
            collectives: collectives.collect::<Result<_, _>>()?,
            ttl: settings.ttl.min(patience.max(LEAST_TTL)),
            timeout: settings.timeout,
            discovery_interval: settings.discovery_interval,
            discovery_timeout: settings.discovery_timeout,
            inventory_interval: settings.inventory_interval,
            direct_threshold: settings.direct_threshold,
        })
    }
}

/// Why a request was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The connector did not accept it.
    Unsent(Unsent),
    /// It could not be encoded or signed: why.
    Unsealed(String),
}

/// Counters.
#[derive(Debug, Default)]
struct Stats {
    requests: u64,
    replies: u64,
    strays: u64,
    strangers: u64,
    malformed: u64,
    bad_ids: u64,
    foreign: u64,
    full: u64,
    timeouts: u64,
}

/// The outward half of the gateway.
pub(super) struct Outward {
    rules: Rules,
    registry: Box<dyn Registry>,
    nodes: Nodes,
    flights: Flights,
    stats: Stats,
    /// Why the collective cannot be reached; `None` while it can.
    cut: Option<String>,
    next_round: Option<Instant>,
    round: Option<Instant>,
    looked: Option<Instant>,
}

impl Outward {
    /// No node is connected yet; `known` are the ids that registered here before.
    pub fn new(
        rules: Rules,
        mut registry: Box<dyn Registry>,
        known: &[MinionId],
        now: Clock,
    ) -> Outward {
        let mut nodes = Nodes::default();
        for id in known {
            if let Ok(identity) = id.as_str().parse()
                && nodes.learn(id, identity, 0)
            {
                nodes.set_standing(id.as_str(), registry.standing(id), now);
            }
        }
        Outward {
            rules,
            registry,
            nodes,
            flights: Flights::default(),
            stats: Stats::default(),
            cut: Some("there has been no connection yet".to_owned()),
            next_round: None,
            round: None,
            looked: None,
        }
    }

    /// The places to subscribe to.
    pub fn places(&self) -> Vec<Place> {
        let replies = self.rules.collectives.iter().cloned().map(Place::Replies);
        let main = self.rules.collectives.first().cloned();
        let agent: Option<AgentName> = REGISTRATION.parse().ok();
        let registrations = main
            .zip(agent)
            .map(|(main, agent)| Place::Broadcast(main, agent));
        replies.chain(registrations).collect()
    }

    /// Counters for metrics.
    pub fn counters(&self) -> Map {
        let (known, connected) = self.nodes.counts();
        let stats = &self.stats;
        halite_wire::map! {
            "nodes" => known, "connected" => connected, "jobs" => self.flights.jobs(),
            "requests" => stats.requests, "replies" => stats.replies, "strays" => stats.strays,
            "strangers" => stats.strangers, "malformed" => stats.malformed, "bad_ids" => stats.bad_ids,
            "foreign" => stats.foreign, "full" => stats.full, "timeouts" => stats.timeouts,
        }
    }

    /// Whether the list of connected nodes has changed since the last call.
    pub fn changed(&mut self) -> bool {
        std::mem::take(&mut self.nodes.changed)
    }

    /// The connected nodes; none while the collective cannot be reached.
    pub fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        match self.cut {
            None => self.nodes.connected(),
            Some(_) => BTreeMap::new(),
        }
    }

    /// The collective can be reached: starts a discovery at once.
    pub fn up(&mut self, now: Clock) -> Vec<Act> {
        self.cut = None;
        self.nodes.changed = true;
        self.next_round = Some(now.at);
        self.discover(now)
    }

    /// The collective cannot be reached.
    pub fn down(&mut self, why: &str) {
        self.cut = Some(why.to_owned());
        self.nodes.changed = true;
        // No node can have replied.
        self.round = None;
    }

    /// Handles timeouts.
    pub fn tick(&mut self, now: Clock) -> Vec<Act> {
        let mut acts = Vec::new();
        for flight in self.flights.overdue(now.at) {
            acts.extend(self.late(flight, now));
        }
        if self.cut.is_none() {
            acts.extend(self.discover(now));
            acts.extend(self.inventories(now));
        }
        acts
    }

    /// A key has changed.
    pub fn key(&mut self, id: &str, deleted: bool, now: Clock) -> Vec<Act> {
        let Ok(id) = id.parse::<MinionId>() else {
            return Vec::new();
        };
        if deleted {
            self.registry.forget(&id);
        }
        if self.nodes.get(id.as_str()).is_none() {
            return Vec::new();
        }
        let standing = self.registry.standing(&id);
        if matches!(standing, Standing::Unknown | Standing::Foreign) {
            self.nodes.forget(id.as_str());
            return Vec::new();
        }
        if self.nodes.set_standing(id.as_str(), standing, now) {
            find::start_events(&id)
        } else {
            Vec::new()
        }
    }

    /// Handles a reply that passed the network's security plugin.
    pub fn reply(&mut self, reply: Reply, now: Clock) -> Vec<Act> {
        let node = reply.sender.as_str();
        match self.flights.answered(&reply.id, node) {
            ReplyMatch::Stray => self.stats.strays += 1,
            ReplyMatch::Stranger => self.stats.strangers += 1,
            ReplyMatch::Awaited(kind) => {
                self.stats.replies += 1;
                return match kind {
                    Purpose::Discovery(collective) => self.discovered(&reply, collective, now),
                    Purpose::Inventory => self.inventoried(&reply, now),
                    Purpose::Job(work) => self.finish(&reply, &work, now),
                };
            }
        }
        log::debug!("{node}: a reply to {} that nobody waits for", reply.id);
        Vec::new()
    }

    /// Handles a request that could not be sent.
    pub fn failed(&mut self, id: &RequestId, why: Failed, now: Clock) -> Vec<Act> {
        let Some(flight) = self.flights.take(id) else {
            return Vec::new();
        };
        let text = match &why {
            Failed::Unsent(Unsent::TooLarge(_)) if flight.sent.1 && flight.nodes.len() > 1 => {
                return self.halve(flight, now);
            }
            Failed::Unsent(Unsent::TooLarge(most)) => {
                format!("the request is larger than the broker accepts ({most} bytes)")
            }
            Failed::Unsent(Unsent::Full) => {
                "too many messages are waiting to be sent to the broker; try later".to_owned()
            }
            Failed::Unsent(Unsent::Forbidden) => "requests to that place are forbidden".to_owned(),
            Failed::Unsealed(why) => format!("the request cannot be encoded: {why}"),
        };
        self.unsent(flight, &text, now)
    }

    /// Builds a request.
    fn request(
        &self,
        (collective, agent): (&Collective, &AgentName),
        filter: Filter,
        body: Datum,
        now: Clock,
    ) -> Option<Request> {
        Some(Request {
            body,
            sender: self.rules.identity.clone(),
            // Random, so that only nodes that got the request can reply to it.
            id: random_hex(16).parse().ok()?,
            filter,
            collective: collective.clone(),
            agent: agent.clone(),
            caller: self.rules.caller.clone(),
            ttl: self.rules.ttl,
            time: now.unix,
        })
    }

    /// Sends a request, to these nodes or to all, and waits for replies.
    fn ask(
        &mut self,
        collective: usize,
        nodes: Option<Vec<Identity>>,
        (agent, filter, body): (&str, Filter, Datum),
        flight: impl FnOnce(usize) -> flights::Flight,
        now: Clock,
    ) -> Vec<Act> {
        let name = self.rules.collectives.get(collective).cloned();
        let Some((name, agent)) = name.zip(agent.parse::<AgentName>().ok()) else {
            return Vec::new();
        };
        let Some(request) = self.request((&name, &agent), filter, body, now) else {
            return Vec::new();
        };
        self.stats.requests += 1;
        self.flights.begin(request.id.clone(), flight(collective));
        let to = match nodes {
            Some(nodes) => To::Nodes(name, nodes),
            None => To::Broadcast(name, agent),
        };
        vec![Act::Ask(to, Box::new(request))]
    }
}

#[cfg(test)]
mod tests;
