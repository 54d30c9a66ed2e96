//! Jobs of the master on nodes: requests, returns and timeouts.

use super::super::act::{Act, Clock};
use super::call::{Call, FUNCTIONS, NodeRequest, missing};
use super::find::inventory;
use super::flights::{Flight, Purpose, Work, described};
use super::nodes::Node;
use super::outcome::{TIMED_OUT, outcome};
use super::{Outward, send};
use crate::wire::{Identity, Reply};
use halite_gateway::agent_keys::Standing;
use halite_gateway::answer::{self, FunctionResult};
use halite_gateway::master_events::Order;
use halite_gateway::writer::Task;
use halite_wire::Value;
use halite_wire::ids::MinionId;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Most nodes of a list target that get a request each, regardless of `direct_threshold`.
const LISTED: usize = 200;
/// Most pending requests of jobs; further jobs are refused.
const REQUESTS: usize = 10_000;

impl Outward {
    /// Starts a job on its connected nodes; the others count as not connected. A ping goes to the others,
    /// too, since they may be back.
    pub fn order(&mut self, order: &Order, now: Clock) -> Vec<Act> {
        let call = Call::of(&order.load);
        let ping = matches!(call, Ok(Call::Ask(NodeRequest::Ping)));
        let cut = self.cut.clone();
        let ours = |node: &&Node| {
            let there = node.here || ping || cut.is_some();
            there && node.standing == Standing::Accepted
        };
        let ids = order.ids.iter();
        let nodes = ids.filter_map(|id| self.nodes.get(id)).filter(ours);
        let nodes: Vec<(MinionId, Identity, usize)> = nodes
            .map(|node| (node.id.clone(), node.identity.clone(), node.collective))
            .collect();
        if nodes.is_empty() {
            return Vec::new();
        }
        let what = match call {
            Ok(Call::Ask(what)) => what,
            Ok(call) => return self.answer_directly(order, &call, &nodes),
            Err(outcome) => {
                let answer = |(id, ..): &(MinionId, _, _)| returned(order, id, outcome.clone());
                return nodes.iter().map(answer).collect();
            }
        };
        let refusal = match cut {
            Some(why) => Some(format!(
                "the collective cannot be reached ({why}); nothing was sent"
            )),
            None if self.flights.jobs() >= REQUESTS => {
                Some(format!("{REQUESTS} requests are pending already"))
            }
            None => None,
        };
        if let Some(text) = refusal {
            let answer = |(id, ..): &(MinionId, _, _)| {
                returned(order, id, FunctionResult::failure(text.as_str(), 1))
            };
            return nodes.iter().map(answer).collect();
        }
        self.begin(order, &what, nodes, now)
    }

    /// Returns for nodes that need not be asked.
    fn answer_directly(
        &self,
        order: &Order,
        call: &Call,
        nodes: &[(MinionId, Identity, usize)],
    ) -> Vec<Act> {
        let running = match call {
            Call::FindJob(jid) => self.flights.of_job(jid),
            _ => Vec::new(),
        };
        let value = |id: &str| match call {
            Call::FindJob(_) => {
                let found = running.iter().find(|(_, nodes)| nodes.contains(id));
                Value::from(found.map(|(work, _)| described(work)).unwrap_or_default())
            }
            Call::Running => {
                let all: Vec<Value> = self
                    .flights
                    .of_node(id)
                    .map(|w| described(w).into())
                    .collect();
                all.into()
            }
            Call::Functions | Call::Ask(_) => self.functions(id).into(),
        };
        nodes
            .iter()
            .map(|(id, ..)| returned(order, id, FunctionResult::success(value(id.as_str()))))
            .collect()
    }

    /// Functions of a node: the gateway's own, and its agents, whose actions are unknown.
    fn functions(&self, id: &str) -> Vec<String> {
        let agents = self.nodes.get(id).and_then(|node| node.agents.as_ref());
        let agents = agents
            .into_iter()
            .flatten()
            .map(|agent| format!("{agent}.*"));
        let mut names: Vec<String> = FUNCTIONS.iter().map(|name| (*name).to_owned()).collect();
        names.extend(agents);
        names.sort();
        names
    }

    fn begin(
        &mut self,
        order: &Order,
        what: &NodeRequest,
        nodes: Vec<(MinionId, Identity, usize)>,
        now: Clock,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        // A job published again with the same jid is the same job.
        let mut running: HashSet<String> = HashSet::new();
        for (_, nodes) in self.flights.of_job(order.jid.as_str()) {
            running.extend(nodes.iter().cloned());
        }
        let mut groups: BTreeMap<usize, Vec<Identity>> = BTreeMap::new();
        for (id, identity, place) in nodes {
            if running.contains(id.as_str()) {
                continue;
            }
            let agents = self
                .nodes
                .get(id.as_str())
                .and_then(|node| node.agents.as_ref());
            if let NodeRequest::Action { agent, .. } = what
                && agents.is_some_and(|agents| !agents.iter().any(|a| a == agent.as_str()))
            {
                let FunctionResult { value, retcode } = missing(&function(order, what));
                let text = format!(
                    "{} This node has no agent {agent:?}; once it is installed there, saltutil.refresh_grains",
                    answer::text(&value),
                    agent = agent.as_str(),
                );
                acts.push(returned(order, &id, FunctionResult::failure(text, retcode)));
                continue;
            }
            if let Some(outcome) = what.nameless() {
                acts.push(returned(order, &id, outcome));
                continue;
            }
            groups.entry(place).or_default().push(identity);
        }
        let work = Work {
            jid: order.jid.clone(),
            load: order.load.clone(),
            what: what.clone(),
        };
        for (place, nodes) in groups {
            let list = order.load.str("tgt_type") == Some("list") && nodes.len() <= LISTED;
            if list || nodes.len() <= self.rules.direct_threshold {
                acts.extend(self.send(&work, place, nodes, false, now));
                continue;
            }
            for part in send::parts(nodes) {
                acts.extend(self.send(&work, place, part, true, now));
            }
        }
        acts
    }

    /// Sends the request of a job to these nodes.
    fn send(
        &mut self,
        work: &Work,
        place: usize,
        nodes: Vec<Identity>,
        broadcast: bool,
        now: Clock,
    ) -> Vec<Act> {
        let agent = work.what.agent();
        let body = work.what.body(self.rules.caller.as_str());
        let patience = match work.what {
            NodeRequest::Ping => self.rules.discovery_timeout,
            _ => self.rules.timeout,
        };
        let names = nodes.iter().map(|node| node.as_str().to_owned()).collect();
        let flight = |place| Flight {
            kind: Purpose::Job(work.clone()),
            sent: (place, broadcast),
            nodes: names,
            due: now.at + patience,
            patience,
        };
        let (filter, nodes) = if broadcast {
            (send::broadcast(agent, &nodes), None)
        } else {
            (send::direct(agent), Some(nodes))
        };
        self.ask(place, nodes, (agent, filter, body), flight, now)
    }

    /// Splits a broadcast that is larger than the broker accepts in two.
    pub(super) fn halve(&mut self, flight: Flight, now: Clock) -> Vec<Act> {
        let Purpose::Job(work) = flight.kind else {
            return Vec::new();
        };
        let names = flight.nodes.iter();
        let nodes: Vec<Identity> = names.filter_map(|name| name.parse().ok()).collect();
        let (first, second) = nodes.split_at(nodes.len() / 2);
        let mut acts = self.send(&work, flight.sent.0, first.to_vec(), true, now);
        acts.extend(self.send(&work, flight.sent.0, second.to_vec(), true, now));
        acts
    }

    /// Handles a request that could not be sent, with the reason.
    pub(super) fn unsent(&mut self, flight: Flight, why: &str, now: Clock) -> Vec<Act> {
        match flight.kind {
            Purpose::Discovery(_) => {
                log::warn!("discovery failed: {why}");
                // No node was asked.
                self.round = None;
                Vec::new()
            }
            Purpose::Inventory => {
                log::warn!("inventories cannot be requested: {why}");
                for id in &flight.nodes {
                    self.nodes.retry_inventory(id, now);
                }
                Vec::new()
            }
            Purpose::Job(work) if work.what == NodeRequest::Ping => Vec::new(),
            Purpose::Job(work) => self.all(&flight.nodes, &work, &FunctionResult::failure(why, 1)),
        }
    }

    /// Handles a request that has timed out.
    pub(super) fn late(&mut self, flight: Flight, now: Clock) -> Vec<Act> {
        match flight.kind {
            Purpose::Discovery(_) => Vec::new(),
            Purpose::Inventory => {
                for id in &flight.nodes {
                    log::info!(
                        "the node {id} did not send its inventory; it will be asked again later"
                    );
                    self.nodes.retry_inventory(id, now);
                }
                Vec::new()
            }
            Purpose::Job(work) if work.what == NodeRequest::Ping => {
                for id in &flight.nodes {
                    self.nodes.leave(id);
                }
                Vec::new()
            }
            Purpose::Job(work) => {
                self.stats.timeouts += flight.nodes.len() as u64;
                let text = format!("no answer within {} s", flight.patience.as_secs());
                self.all(
                    &flight.nodes,
                    &work,
                    &FunctionResult::failure(text, TIMED_OUT),
                )
            }
        }
    }

    /// Handles the reply of a node to a job.
    pub(super) fn finish(&mut self, reply: &Reply, work: &Work, now: Clock) -> Vec<Act> {
        let id = reply.sender.as_str();
        let mut acts = Vec::new();
        let outcome = match &work.what {
            NodeRequest::Ping => FunctionResult::success(true),
            NodeRequest::Action { .. } => outcome(&reply.body),
            NodeRequest::Grains | NodeRequest::Refresh => match inventory(reply) {
                Ok(inventory) => {
                    let value = match work.what {
                        NodeRequest::Refresh => Value::Bool(true),
                        _ => answer::grains_result(&work.load, inventory.grains.clone()),
                    };
                    acts.extend(self.store_inventory(id, inventory, now));
                    FunctionResult::success(value)
                }
                Err(why) => FunctionResult::failure(format!("no inventory: {why}"), 1),
            },
        };
        let Some(minion) = self.nodes.get(id).map(|node| node.id.clone()) else {
            return acts;
        };
        if self.nodes.mark_seen(id, now) {
            acts.extend(super::find::start_events(&minion));
        }
        acts.push(hand_in(work, &minion, outcome));
        acts
    }

    fn all(&self, nodes: &HashSet<String>, work: &Work, outcome: &FunctionResult) -> Vec<Act> {
        let known = nodes.iter().filter_map(|id| self.nodes.get(id));
        known
            .map(|node| hand_in(work, &node.id, outcome.clone()))
            .collect()
    }
}

/// `AGENT.ACTION`, however the function was written.
fn function(order: &Order, what: &NodeRequest) -> String {
    match what {
        NodeRequest::Action { agent, action, .. } => format!("{agent}.{action}"),
        _ => order.load.str("fun").unwrap_or_default().to_owned(),
    }
}

fn returned(order: &Order, id: &MinionId, outcome: FunctionResult) -> Act {
    let load = answer::return_load(id.as_str(), &order.jid, &order.load, outcome);
    Act::Write(Task::Return(id.clone(), order.jid.clone(), load))
}

fn hand_in(work: &Work, id: &MinionId, outcome: FunctionResult) -> Act {
    let order = Order {
        jid: work.jid.clone(),
        ids: Vec::new(),
        load: Arc::clone(&work.load),
    };
    returned(&order, id, outcome)
}
