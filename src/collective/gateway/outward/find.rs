//! Finds nodes: discovery, registrations, inventories.

use super::super::act::{Act, Clock};
use super::call::NodeRequest;
use super::flights::{Flight, Purpose};
use super::grains::Inventory;
use super::outcome::parts;
use super::{Outward, send};
use crate::wire::{Filter, Identity, Reply, Request};
use halite_gateway::agent_keys::{RegisterOutcome, Standing};
use halite_gateway::writer::Task;
use halite_wire::Value;
use halite_wire::ids::MinionId;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// The agent that receives registrations.
pub(in crate::gateway) const REGISTRATION: &str = "registration";
/// Most inventories requested at one time.
const BATCH: usize = 50;
/// How long to wait for them.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to check which inventories are due.
const LOOK: Duration = Duration::from_millis(250);

impl Outward {
    /// Starts and ends rounds of discovery when due.
    pub(super) fn discover(&mut self, now: Clock) -> Vec<Act> {
        if let Some(begun) = self.round
            && now.is_past(begun, self.rules.discovery_timeout)
        {
            self.round = None;
            for id in self.nodes.end_round(begun) {
                log::info!("the node {id} of the collective no longer answers");
            }
        }
        if self.next_round.is_none_or(|next| now.at < next) {
            return Vec::new();
        }
        // Keep the start of a round that is not over yet.
        self.round.get_or_insert(now.at);
        self.next_round = Some(now.at + self.rules.discovery_interval);
        let patience = self
            .rules
            .discovery_timeout
            .max(self.rules.discovery_interval);
        let mut acts = Vec::new();
        for place in 0..self.rules.collectives.len() {
            let what = NodeRequest::Ping;
            let body = what.body(self.rules.caller.as_str());
            let flight = |place| Flight {
                kind: Purpose::Discovery(place),
                sent: (place, true),
                nodes: HashSet::new(),
                due: now.at + patience,
                patience,
            };
            let request = (what.agent(), Filter::default(), body);
            acts.extend(self.ask(place, None, request, flight, now));
        }
        acts
    }

    /// Handles a reply to a discovery.
    pub(super) fn discovered(&mut self, reply: &Reply, place: usize, now: Clock) -> Vec<Act> {
        // Go sends the bare word, Ruby a JSON string.
        if reply.body.as_str().map(|text| text.trim_matches('"')) != Some("pong") {
            self.stats.malformed += 1;
            return Vec::new();
        }
        let identity = &reply.sender;
        let Ok(id) = identity.as_str().parse::<MinionId>() else {
            self.stats.bad_ids += 1;
            log::debug!(
                "the node {identity} cannot be a minion: its identity is not a valid minion id"
            );
            return Vec::new();
        };
        let standing = self.admitted(&id);
        if matches!(standing, Standing::Unknown | Standing::Foreign) {
            self.nodes.forget(id.as_str());
            return Vec::new();
        }
        if !self.nodes.learn(&id, identity.clone(), place) {
            self.stats.full += 1;
            return Vec::new();
        }
        self.nodes.answers_in(id.as_str(), place);
        let judged = self.nodes.set_standing(id.as_str(), standing, now);
        if self.nodes.mark_seen(id.as_str(), now) || judged {
            start_events(&id)
        } else {
            Vec::new()
        }
    }

    /// The standing of a live node in the key store; registers a new one.
    fn admitted(&mut self, id: &MinionId) -> Standing {
        match self.registry.standing(id) {
            Standing::Foreign => {
                self.stats.foreign += 1;
                if self.stats.foreign.is_power_of_two() {
                    log::warn!(
                        "the id of the node {id} belongs to a minion that did not come in through the collective; \
                         the node is not listened to; {} such answers so far",
                        self.stats.foreign
                    );
                }
                Standing::Foreign
            }
            Standing::Unknown => match self.registry.enter(id) {
                RegisterOutcome::Accepted => Standing::Accepted,
                RegisterOutcome::Waiting => Standing::Waiting,
                RegisterOutcome::Rejected => Standing::Rejected,
                RegisterOutcome::Full => {
                    self.stats.full += 1;
                    Standing::Unknown
                }
            },
            known => known,
        }
    }

    /// Handles a registration message: the node is alive. It does not add a new node, since anybody can broadcast.
    pub fn registration(&mut self, request: &Request, now: Clock) -> Vec<Act> {
        let id = request.sender.as_str();
        match self.nodes.get(id).map(|node| node.id.clone()) {
            Some(id) if self.nodes.mark_seen(id.as_str(), now) => start_events(&id),
            _ => Vec::new(),
        }
    }

    /// Requests inventories that are due.
    pub(super) fn inventories(&mut self, now: Clock) -> Vec<Act> {
        if self.looked.is_some_and(|at| !now.is_past(at, LOOK)) {
            return Vec::new();
        }
        self.looked = Some(now.at);
        let room = BATCH.saturating_sub(self.flights.inventories());
        let mut groups: BTreeMap<usize, Vec<Identity>> = BTreeMap::new();
        for id in self.nodes.take_due(room, now) {
            if let Some(node) = self.nodes.get(id.as_str()) {
                let group = groups.entry(node.collective).or_default();
                group.push(node.identity.clone());
            }
        }
        let mut acts = Vec::new();
        for (place, nodes) in groups {
            let what = NodeRequest::Refresh;
            let body = what.body(self.rules.caller.as_str());
            let names = nodes.iter().map(|node| node.as_str().to_owned());
            let names: HashSet<String> = names.collect();
            let flight = |place| Flight {
                kind: Purpose::Inventory,
                sent: (place, false),
                nodes: names,
                due: now.at + PATIENCE,
                patience: PATIENCE,
            };
            let request = (what.agent(), send::direct(what.agent()), body);
            acts.extend(self.ask(place, Some(nodes), request, flight, now));
        }
        acts
    }

    /// Handles a reply with an inventory.
    pub(super) fn inventoried(&mut self, reply: &Reply, now: Clock) -> Vec<Act> {
        let id = reply.sender.as_str();
        self.nodes.mark_seen(id, now);
        match inventory(reply) {
            Ok(inventory) => self.store_inventory(id, inventory, now),
            Err(why) => {
                log::warn!("cannot get the inventory of the node {id}: {why}");
                self.nodes.retry_inventory(id, now);
                Vec::new()
            }
        }
    }

    /// Stores the inventory of a node.
    pub(super) fn store_inventory(
        &mut self,
        id: &str,
        inventory: Inventory,
        now: Clock,
    ) -> Vec<Act> {
        let Some(minion) = self.nodes.get(id).map(|node| node.id.clone()) else {
            return Vec::new();
        };
        let next = now.at + self.rules.inventory_interval;
        self.nodes
            .set_inventory(id, inventory.agents, inventory.address, next);
        vec![Act::Write(Task::Grains(minion, inventory.grains))]
    }
}

/// The inventory in a reply, or why there is none.
pub(super) fn inventory(reply: &Reply) -> Result<Inventory, String> {
    let Some((code, text, data)) = parts(&reply.body) else {
        return Err("its reply is not SimpleRPC".to_owned());
    };
    if code != 0 {
        return Err(format!(
            "{text} (status code {code}); let this master's caller id use the agent rpcutil there"
        ));
    }
    Inventory::of(reply.sender.as_str(), &data).ok_or_else(|| "it is empty".to_owned())
}

/// The start events of a minion.
pub(super) fn start_events(id: &MinionId) -> Vec<Act> {
    log::info!("the node {id} of the collective is connected");
    let event = |tag: String| {
        let data = halite_wire::map! {
            "id" => id.as_str(), "cmd" => "_minion_event", "pretag" => Value::Nil,
            "data" => format!("Minion {id} started"), "tag" => tag.as_str(),
        };
        Act::Write(Task::Fire(tag, data))
    };
    ["minion_start".to_owned(), format!("salt/minion/{id}/start")]
        .map(event)
        .into()
}
