//! The inward half of the gateway: minions of this master answer on the collective as nodes.
//!
//! A minion that is connected is a node under its id, with its grains as facts, the nodegroups that hold it as classes,
//! and the agents `discovery`, `rpcutil` and `halite`. What is answered is decided here without IO: the loop of
//! the gateway hands over requests that are genuine and does what comes back. Whatever asks disks, the bus or the master
//! stands in [`workers`].
//!
//! Order of checks (reference, section 10): genuine (by the loop), age, replay, filter, agent. Whoever fails one hears
//! nothing, as from Ruby's servers; each reason is counted.

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
use crate::wire::{AgentName, CallerId, Collective, Form, Packet, Refused, Reply};
use agents::Body;
use agents::ddl::Wrong;
use halite_config::{Broker, CollectiveGateway, MasterConfig, Plugin};
use halite_wire::ids::{Jid, JidClock, MinionId};
use halite_wire::{Map, Value};
use jobs::Jobs;
use nodes::Nodes;
use question::Question;
use stats::Stats;
use std::collections::VecDeque;
use std::sync::Arc;

/// Answers that may wait to be sent; what goes beyond is dropped and counted.
const WAITING: usize = 200_000;

/// What the loop is to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// Hear what comes in there.
    Subscribe(Place),
    /// Hear it no longer.
    Unsubscribe(Place),
    /// Give this to [`workers::Hands::take`].
    Do(Task),
}

/// What [`workers`] do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Task {
    /// Publish a job.
    Publish(Order),
    /// Look into the job cache for returns of a job that the bus did not bring.
    Look(Jid),
    /// Nobody waits for returns of this job any more.
    Forget(Jid),
    /// Write down that somebody was refused.
    Refusal {
        /// His caller id.
        caller: String,
        /// The identity that he gave.
        from: String,
        /// The function.
        fun: String,
        /// For which minions.
        minions: Vec<String>,
    },
}

/// A job for minions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    /// Its id.
    pub jid: Jid,
    /// The caller id, which stands in the job cache as the user.
    pub user: String,
    /// The function.
    pub fun: String,
    /// Its arguments, as jobs carry them.
    pub arg: Vec<Value>,
    /// For whom.
    pub minions: Vec<String>,
}

/// What [`workers`] tell.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// All nodes there are now.
    Nodes(Vec<Node>),
    /// A job was published; these ids hold no accepted key any more.
    Published(Jid, Vec<String>),
    /// A job could not be published: why.
    Unpublished(Jid, String),
    /// A return.
    Returned(Jid, MinionId, Map),
    /// All that the job cache has of a job.
    Looked(Jid, Vec<(MinionId, Map)>),
}

/// An answer on its way.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Where the client hears replies, as its request says. The connector refuses what is no such place.
    pub to: String,
    /// What is to be sealed.
    pub reply: Reply,
    /// In which form.
    pub form: Form,
    /// For whom.
    pub caller: CallerId,
    /// What stands around it; its `data` is still empty.
    pub packet: Packet,
    /// Seconds that it is good for.
    pub ttl: u32,
}

/// An answer that waits: made only when it can be sent, so that a question to ten thousand nodes takes no memory for as
/// many inventories.
struct Due {
    question: Arc<Question>,
    node: Arc<Node>,
    /// What is answered; of the question's own kind if not given.
    body: Option<Body>,
}

/// All nodes, their agents and the jobs that run for them.
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

/// What answers tell of the gateway.
struct Settings {
    collectives: Vec<Collective>,
    master: String,
    configfile: String,
    connector: &'static str,
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
    /// Nobody is a node before [`workers`] have told who is there.
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

    /// Where requests come in: those to all that have an agent, and those to each node.
    pub fn places(&self) -> Vec<Place> {
        self.nodes.places()
    }

    /// A message that came in at a place, and was no genuine request. The loop counts the reason; the nodes
    /// that would have heard it count it as well.
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

    /// Takes what [`workers`] tell.
    pub fn news(&mut self, news: News) -> Vec<Act> {
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

    /// Looks at the clock.
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

    /// The next answer to be sent; it is made now. To be asked for as long as the connector takes answers.
    pub fn answer(&mut self, now: Clock) -> Option<Answer> {
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
                return Some(Answer {
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

    /// What is sent instead of an answer that is larger than the broker takes.
    pub fn too_large(&self, mut answer: Answer, octets: usize) -> Answer {
        let jid = answer.reply.body.get("data");
        let jid = jid.and_then(|data| data.get("jid")?.as_str());
        let place = match jid {
            Some(jid) => format!("; on the master, `halite-run jobs.lookup_jid {jid}` shows it"),
            None => String::new(),
        };
        let text =
            format!("the answer is larger than the broker takes, which is {octets} octets{place}");
        answer.reply.body = Body::failed(None, Wrong(5, text)).into_datum();
        answer
    }

    /// Answers that wait.
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
