//! Outward: the servers of the collective are minions of this master.
//!
//! Decides without IO: what is heard comes in with the time, what is to be done goes out as acts. Keys are asked for through
//! [`Registry`]. `nodes` knows who there is, `flights` which requests are on their way, `call` and `outcome` what functions
//! ask for and what replies come to, `send` to whom a request goes.
//!
//! Nothing that comes in is trusted beyond this: its request is one of ours that is on its way (ids are random), and its
//! sender was asked and has not answered yet.

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
use flights::{Fit, Flights, Kind};
use halite_config::CollectiveGateway;
use halite_crypto::random_hex;
use halite_gateway::agent_keys::Standing;
use halite_wire::Map;
use halite_wire::ids::MinionId;
use nodes::Nodes;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The least `ttl` that Choria's schema of requests takes, in seconds (reference, section 18).
const LEAST_TTL: u32 = 30;

/// What the settings say about this half.
pub(super) struct Rules {
    /// Who sends.
    pub identity: Identity,
    /// Who asks.
    pub caller: CallerId,
    /// The collectives, the main one first.
    pub collectives: Vec<Collective>,
    /// Seconds that requests are good for.
    pub ttl: u32,
    /// How long nodes may take for an action.
    pub timeout: Duration,
    /// How often nodes are looked for.
    pub discovery_interval: Duration,
    /// How long answers to that, and to pings, are waited for.
    pub discovery_timeout: Duration,
    /// How often a node's inventory is asked for.
    pub inventory_interval: Duration,
    /// Up to so many nodes get a request each.
    pub direct_threshold: usize,
}

impl Rules {
    /// What the settings say; requests are those of `caller`.
    ///
    /// # Errors
    /// A name is none; settings that were checked have no such.
    pub fn new(settings: &CollectiveGateway, caller: &CallerId) -> Result<Rules, BadName> {
        let collectives = settings.collectives.iter().map(|name| name.parse());
        // A request that is begun after nobody waits for it any longer helps nobody.
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

/// Why a request did not go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The broker's side.
    Unsent(Unsent),
    /// It could not be written or signed: why.
    Unsealed(String),
}

/// What is counted.
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

/// This half of the gateway.
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
    /// Nobody is connected yet; `known` are the ids that came in here before.
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
                nodes.judge(id.as_str(), registry.standing(id), now);
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

    /// Where this half listens.
    pub fn places(&self) -> Vec<Place> {
        let replies = self.rules.collectives.iter().cloned().map(Place::Replies);
        let main = self.rules.collectives.first().cloned();
        let agent: Option<AgentName> = REGISTRATION.parse().ok();
        let registrations = main
            .zip(agent)
            .map(|(main, agent)| Place::Broadcast(main, agent));
        replies.chain(registrations).collect()
    }

    /// What metrics tell.
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

    /// Whether the list of connected nodes has changed since the last question.
    pub fn changed(&mut self) -> bool {
        std::mem::take(&mut self.nodes.changed)
    }

    /// Who is connected: nobody while the collective cannot be reached.
    pub fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        match self.cut {
            None => self.nodes.connected(),
            Some(_) => BTreeMap::new(),
        }
    }

    /// The collective can be reached: nodes are looked for at once.
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
        // Nobody can have answered.
        self.round = None;
    }

    /// The clock.
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
        if self.nodes.judge(id.as_str(), standing, now) {
            find::came(&id)
        } else {
            Vec::new()
        }
    }

    /// A reply that is genuine as far as the network's security goes.
    pub fn reply(&mut self, reply: Reply, now: Clock) -> Vec<Act> {
        let node = reply.sender.as_str();
        match self.flights.answered(&reply.id, node) {
            Fit::Stray => self.stats.strays += 1,
            Fit::Stranger => self.stats.strangers += 1,
            Fit::Awaited(kind) => {
                self.stats.replies += 1;
                return match kind {
                    Kind::Discovery(collective) => self.discovered(&reply, collective, now),
                    Kind::Inventory => self.inventoried(&reply, now),
                    Kind::Job(work) => self.done(&reply, &work, now),
                };
            }
        }
        log::debug!("{node}: a reply to {} that nobody waits for", reply.id);
        Vec::new()
    }

    /// A request did not go out.
    pub fn failed(&mut self, id: &RequestId, why: Failed, now: Clock) -> Vec<Act> {
        let Some(flight) = self.flights.take(id) else {
            return Vec::new();
        };
        let text = match &why {
            Failed::Unsent(Unsent::TooLarge(_)) if flight.sent.1 && flight.nodes.len() > 1 => {
                return self.halve(flight, now);
            }
            Failed::Unsent(Unsent::TooLarge(most)) => {
                format!("the request is larger than the broker takes ({most} octets)")
            }
            Failed::Unsent(Unsent::Full) => {
                "too much waits to be sent to the broker already; try later".to_owned()
            }
            Failed::Unsent(Unsent::Forbidden) => "the broker lets nobody ask there".to_owned(),
            Failed::Unsealed(why) => format!("the request cannot be written: {why}"),
        };
        self.unsent(flight, &text, now)
    }

    /// A request of this half.
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
            // Nobody can answer what was not asked.
            id: random_hex(16).parse().ok()?,
            filter,
            collective: collective.clone(),
            agent: agent.clone(),
            caller: self.rules.caller.clone(),
            ttl: self.rules.ttl,
            time: now.unix,
        })
    }

    /// Sends a request, to these nodes or to all, and waits for answers.
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
