//! The inward half of the gateway: minions of this master appear on the collective as nodes.
//!
//! A connected minion is a node under its id, with its grains as facts, its nodegroups as classes,
//! and the agents `discovery`, `rpcutil` and `halite`. This module decides without IO: the loop of
//! the gateway passes in genuine requests and carries out the resulting actions. All access to disks, bus and master
//! is in [`workers`].
//!
//! Order of checks (reference, section 10): genuine (by the loop), age, replay, filter, agent. If one fails there is no
//! reply, as from Ruby's servers; each reason is counted.

mod access;
mod agents;
mod filtering;
mod heard;
mod jobs;
mod nodes;
mod process;
mod question;
mod replay_guard;
mod stats;
pub(super) mod workers;

pub use agents::interface;
pub(super) use nodes::Node;

use super::act::Clock;
use crate::broker::Place;
use crate::wire::subjects::Bus;
use crate::wire::{AgentName, CallerId, Collective, Form, Packet, Refused, Reply};
use agents::Body;
use agents::ddl::RpcError;
use halite_config::{Broker, CollectiveGateway, MasterConfig, Plugin};
use halite_wire::ids::{Jid, JidClock, MinionId};
use halite_wire::{Map, Value};
use jobs::Jobs;
use nodes::Nodes;
use question::Question;
use stats::Stats;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most replies queued; more are dropped and counted.
const WAITING: usize = 200_000;

/// An action for the loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// Subscribe to a place.
    Subscribe(Place),
    /// Unsubscribe from it.
    Unsubscribe(Place),
    /// Pass this to [`workers::Workers::take`].
    Do(Task),
}

/// A task for [`workers`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Task {
    /// Publish a job.
    Publish(Order),
    /// Query the job cache for returns of a job that did not come over the bus.
    Look(Jid),
    /// This job has finished.
    Forget(Jid),
    /// Write a refusal to the audit log.
    Refusal {
        /// The caller id.
        caller: String,
        /// The identity that the caller gave.
        from: String,
        /// The function.
        fun: String,
        /// The minions.
        minions: Vec<String>,
    },
}

/// A job for minions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    /// Its id.
    pub jid: Jid,
    /// The caller id, which is the user in the job cache.
    pub user: String,
    /// Who sent the request, for the audit log.
    pub from: String,
    /// The function.
    pub fun: String,
    /// Its arguments, as in jobs.
    pub arg: Vec<Value>,
    /// The minions.
    pub minions: Vec<String>,
}

/// A result from [`workers`].
#[derive(Clone, Debug)]
pub(super) enum News {
    /// The current nodes.
    Nodes(Vec<Node>),
    /// A job was published; the keys of these ids are no longer accepted.
    Published(Jid, Vec<String>),
    /// A job could not be published: why.
    Unpublished(Jid, String),
    /// A return.
    Returned(Jid, MinionId, Map),
    /// All returns of a job in the job cache.
    Looked(Jid, Vec<(MinionId, Map)>),
}

/// A reply to send.
#[derive(Clone, Debug)]
pub(super) struct OutgoingReply {
    /// The client's reply address from its request. The connector refuses other places.
    pub to: String,
    /// The reply to seal.
    pub reply: Reply,
    /// Its form.
    pub form: Form,
    /// The caller to whom it goes.
    pub caller: CallerId,
    /// Its packet; `data` is still empty.
    pub packet: Packet,
    /// Time to live, in seconds.
    pub ttl: u32,
}

/// A queued reply. It is built only when it can be sent, so that a request to ten thousand nodes does not take memory for
/// as many inventories.
struct Due {
    question: Arc<Question>,
    node: Arc<Node>,
    /// The body; if `None`, it is built from the request.
    body: Option<Body>,
}

/// All nodes, their agents and running jobs.
pub(super) struct Inward {
    settings: Settings,
    access: access::Access,
    doors: replay_guard::ReplayGuard,
    common: filtering::Common,
    nodes: Nodes,
    jobs: Jobs,
    due: VecDeque<Due>,
    stats: Stats,
    clock: JidClock,
}

/// Data about the gateway for replies.
struct Settings {
    collectives: Vec<Collective>,
    master: String,
    configfile: String,
    connector: &'static str,
    bus: Bus,
    security: &'static str,
    ttl: u32,
    started: i64,
}

impl Settings {
    fn new(config: &MasterConfig, settings: &CollectiveGateway, now: Clock) -> Settings {
        let collectives = settings.collectives.iter();
        Settings {
            collectives: collectives.filter_map(|name| name.parse().ok()).collect(),
            master: config.id.clone(),
            configfile: config.conf_file.to_string_lossy().into_owned(),
            connector: match settings.broker {
                Broker::Nats => "nats",
                Broker::RabbitMq => "rabbitmq",
                Broker::ActiveMq => "activemq",
            },
            bus: match settings.broker {
                Broker::Nats => Bus::Nats,
                Broker::RabbitMq => Bus::RabbitMq,
                Broker::ActiveMq => Bus::ActiveMq,
            },
            security: match settings.plugin {
                Plugin::Choria | Plugin::ChoriaYaml => "choria",
                Plugin::Psk => "psk",
                Plugin::Ssl => "ssl",
                Plugin::Aes => "aes_security",
            },
            ttl: settings.ttl,
            started: now.unix,
        }
    }
}

impl Inward {
    /// There are no nodes until [`workers`] report them.
    pub fn new(config: &MasterConfig, settings: &CollectiveGateway, now: Clock) -> Inward {
        let access = access::Access::new(config);
        let settings = Settings::new(config, settings, now);
        let agents = agents::AGENTS.iter();
        let agents: Vec<AgentName> = agents.filter_map(|name| name.parse().ok()).collect();
        Inward {
            access,
            doors: replay_guard::ReplayGuard::new(),
            common: filtering::Common::new(&settings.collectives),
            nodes: Nodes::new(settings.collectives.clone(), agents),
            jobs: Jobs::default(),
            due: VecDeque::new(),
            stats: Stats::default(),
            clock: JidClock::default(),
            settings,
        }
    }

    /// The places of requests: those to all nodes with an agent, and those to each node.
    pub fn places(&self) -> Vec<Place> {
        self.nodes.places()
    }

    /// Counts a message to a place that was not a genuine request. The loop counts the reason; the nodes
    /// that would have received it count it here.
    pub fn refused(&mut self, place: Option<&Place>, why: &Refused) {
        let tally = |tally: &mut stats::Tally| {
            tally.total = tally.total.wrapping_add(1);
            match why {
                Refused::Expired(_) | Refused::Future(_) => {
                    tally.validated = tally.validated.wrapping_add(1);
                    tally.ttlexpired = tally.ttlexpired.wrapping_add(1);
                }
                _ => tally.unvalidated = tally.unvalidated.wrapping_add(1),
            }
        };
        match place {
            Some(Place::Node(_, identity)) => {
                if let Some(node) = self.nodes.get(identity) {
                    tally(&mut node.tally());
                }
            }
            Some(Place::Broadcast(..)) => tally(&mut self.stats.all),
            Some(Place::Replies(_)) | None => {}
        }
    }

    /// Handles a result from [`workers`].
    pub fn handle_news(&mut self, news: News) -> Vec<Act> {
        let mut acts = Vec::new();
        match news {
            News::Nodes(found) => acts = self.nodes.replace(found, self.stats.fresh()),
            News::Published(jid, missing) => {
                let due = self.jobs.missing(&jid, &missing);
                self.owe(due);
            }
            News::Unpublished(jid, why) => {
                let due = self.jobs.failed(&jid, &why);
                self.owe(due);
            }
            News::Returned(jid, minion, load) => {
                let due = self.jobs.returned(&jid, &minion, &load);
                self.owe(due);
            }
            News::Looked(jid, returns) => {
                for (minion, load) in returns {
                    let due = self.jobs.returned(&jid, &minion, &load);
                    self.owe(due);
                }
                let silent = self.jobs.looked(&jid);
                self.stats.silent += silent.len() as u64;
                self.owe(silent);
            }
        }
        acts.extend(self.jobs.over());
        acts
    }

    /// Handles timeouts.
    pub fn tick(&mut self, now: Clock) -> Vec<Act> {
        let (mut acts, silent) = self.jobs.tick(now.at);
        self.stats.silent += silent.len() as u64;
        self.owe(silent);
        acts.extend(self.jobs.over());
        acts
    }

    fn owe(&mut self, due: impl IntoIterator<Item = Due>) {
        for due in due {
            if self.due.len() < WAITING {
                self.due.push_back(due)
            } else {
                self.stats.dropped += 1
            }
        }
    }

    /// Builds the next reply to send. Call it as long as the connector accepts replies.
    pub fn answer(&mut self, now: Clock) -> Option<OutgoingReply> {
        loop {
            let Due {
                question,
                node,
                body,
            } = self.due.pop_front()?;
            let body = body.or_else(|| {
                let known = agents::Known {
                    node: &node,
                    tally: self.stats.of(*node.tally()),
                    settings: &self.settings,
                    form: question.form,
                    now,
                };
                agents::answer(&question.prepared, &known)
            });
            if let Some(body) = body {
                self.stats.replies += 1;
                node.tally().replies += 1;
                return Some(OutgoingReply {
                    to: question.reply_to.clone(),
                    reply: question.reply(&node.identity, body.into_datum(), now.unix),
                    form: question.form,
                    caller: question.caller.clone(),
                    packet: question.packet(&node.identity),
                    ttl: question.ttl,
                });
            }
        }
    }

    /// The replacement for a reply that is larger than the broker accepts.
    pub fn too_large(&self, mut answer: OutgoingReply, bytes: usize) -> OutgoingReply {
        let jid = answer.reply.body.get("data");
        let jid = jid.and_then(|data| data.get("jid")?.as_str());
        let place = match jid {
            Some(jid) => format!("; on the master, `halite-run jobs.lookup_jid {jid}` shows it"),
            None => String::new(),
        };
        let text =
            format!("the answer is larger than the broker accepts, which is {bytes} bytes{place}");
        answer.reply.body = Body::failed(None, RpcError(5, text)).into_datum();
        answer
    }

    /// Number of queued replies.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.due.len()
    }

    /// For the scoreboard.
    pub fn counters(&self) -> Map {
        let mut map = self.stats.counters();
        map.set("inward_nodes", self.nodes.all().len());
        map.set("inward_running", self.jobs.count());
        map.set("inward_waiting", self.due.len());
        map.set("inward_forgotten", self.doors.evicted());
        map
    }
}

#[cfg(test)]
mod tests;
