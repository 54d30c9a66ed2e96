//! Running jobs of the collective: which nodes have not replied yet, and until when.

use super::agents::ddl::RpcError;
use super::agents::{Body, Prepared, halite};
use super::nodes::Node;
use super::question::Question;
use super::{Act, Due, Order, Task};
use crate::wire::RequestId;
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most jobs running at once.
const MOST_JOBS: usize = 1_000;
/// Most nodes with a reply due at once.
const MOST_NODES: usize = 100_000;
/// How long a look-up in the job cache may take.
const LOOK: Duration = Duration::from_secs(3);

/// How long single messages of one request are collected: clients send one each to a few nodes, which become one job.
const GATHER: Duration = Duration::from_millis(50);

struct Running {
    waiting: BTreeMap<MinionId, (Arc<Question>, Arc<Node>)>,
    until: Instant,
    /// Whether the job cache was already queried.
    looked: bool,
    patience: Duration,
}

/// A job to be published shortly, since more of its nodes may follow.
struct Gathering {
    request: RequestId,
    wanted: bool,
    order: Order,
    due: Instant,
}

/// All running jobs.
#[derive(Default)]
pub(super) struct Jobs {
    running: HashMap<Jid, Running>,
    gathering: Vec<Gathering>,
    nodes: usize,
    over: Vec<Jid>,
}

/// A job to start.
pub(super) struct Begin<'a> {
    pub question: &'a Arc<Question>,
    pub run: &'a halite::Run,
    pub nodes: &'a [Arc<Node>],
    /// Whether replies are wanted.
    pub wanted: bool,
    /// Whether the message went to a single node, so that messages to other nodes may follow.
    pub single: bool,
}

impl Jobs {
    /// Number of jobs.
    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// Whether there is room for a job of that many nodes.
    pub fn room(&self, nodes: usize) -> bool {
        self.running.len() < MOST_JOBS
            && self.gathering.len() < MOST_JOBS
            && self.nodes.saturating_add(nodes) <= MOST_NODES
    }

    /// Starts a job, or adds to one that is not published yet. `None` if there is nothing to do before the
    /// next tick; the flag is whether this is a new job.
    pub fn begin(&mut self, begin: &Begin, jid: Jid, now: Instant) -> (bool, Option<Act>) {
        let Begin {
            question,
            run,
            nodes,
            wanted,
            single,
        } = *begin;
        let ids = nodes.iter().map(|node| node.minion.to_string());
        let joined = self.gathering.iter_mut().find(|other| {
            single
                && other.request == question.id
                && other.order.user == question.caller.as_str()
                && (other.wanted, &other.order.fun) == (wanted, &run.fun)
                && other.order.arg == run.arg
        });
        let (jid, act) = match joined {
            Some(other) => {
                other.order.minions.extend(ids);
                (other.order.jid.clone(), None)
            }
            None => {
                let order = Order {
                    jid: jid.clone(),
                    user: question.caller.to_string(),
                    from: question.sender.to_string(),
                    fun: run.fun.clone(),
                    arg: run.arg.clone(),
                    minions: ids.collect(),
                };
                (jid, Some(order))
            }
        };
        let own = act.is_some();
        if wanted {
            self.nodes += nodes.len();
            let running = self.running.entry(jid).or_insert_with(|| Running {
                waiting: BTreeMap::new(),
                until: now + run.patience,
                looked: false,
                patience: run.patience,
            });
            let waiting = nodes.iter().map(|node| {
                let owed = (question.clone(), node.clone());
                (node.minion.clone(), owed)
            });
            running.waiting.extend(waiting);
        }
        let act = act.and_then(|order| {
            if single {
                self.gathering.push(Gathering {
                    request: question.id.clone(),
                    wanted,
                    order,
                    due: now + GATHER,
                });
                None
            } else {
                Some(self.publish(order, wanted))
            }
        });
        (own, act)
    }

    fn publish(&mut self, order: Order, wanted: bool) -> Act {
        if !wanted {
            self.over.push(order.jid.clone());
        }
        Act::Do(Task::Publish(order))
    }

    /// Handles a return; returns the reply if one is due.
    pub fn returned(&mut self, jid: &Jid, minion: &MinionId, load: &Map) -> Option<Due> {
        let running = self.running.get_mut(jid)?;
        let (question, node) = running.waiting.remove(minion)?;
        self.nodes = self.nodes.saturating_sub(1);
        if running.waiting.is_empty() {
            self.running.remove(jid);
            self.over.push(jid.clone());
        }
        let body = match &question.prepared {
            Prepared::Run(action, _) => halite::returned(action, jid, load),
            _ => return None,
        };
        Some(due(question, node, body))
    }

    /// The job was published, but not to these minions.
    pub fn missing(&mut self, jid: &Jid, minions: &[String]) -> Vec<Due> {
        let ids = minions.iter().filter_map(|id| id.parse().ok());
        let ids: Vec<MinionId> = ids.collect();
        let why = "its key is no longer accepted".to_owned();
        self.give_up(jid, Some(&ids), &why)
    }

    /// The job could not be published.
    pub fn failed(&mut self, jid: &Jid, why: &str) -> Vec<Due> {
        let why = format!("the job could not be published: {why}");
        self.give_up(jid, None, &why)
    }

    /// The job cache was queried and its returns handled: the remaining nodes have not returned.
    pub fn looked(&mut self, jid: &Jid) -> Vec<Due> {
        let Some(running) = self.running.get(jid) else {
            return Vec::new();
        };
        let seconds = running.patience.as_secs();
        let why = format!("no return within {seconds} seconds; the function may still run");
        self.give_up(jid, None, &why)
    }

    /// Jobs that have finished since the last call.
    pub fn over(&mut self) -> impl Iterator<Item = Act> {
        let over = std::mem::take(&mut self.over).into_iter();
        over.map(|jid| Act::Do(Task::Forget(jid)))
    }

    /// Ends a job on some or all nodes, with this reason.
    fn give_up(&mut self, jid: &Jid, only: Option<&[MinionId]>, why: &str) -> Vec<Due> {
        let Some(running) = self.running.get_mut(jid) else {
            return Vec::new();
        };
        let left: Vec<(Arc<Question>, Arc<Node>)> = match only {
            None => std::mem::take(&mut running.waiting).into_values().collect(),
            Some(ids) => {
                let taken = ids.iter().filter_map(|id| running.waiting.remove(id));
                taken.collect()
            }
        };
        if running.waiting.is_empty() {
            self.running.remove(jid);
            self.over.push(jid.clone());
        }
        self.nodes = self.nodes.saturating_sub(left.len());
        let left = left.into_iter();
        let answer = |(question, node): (Arc<Question>, Arc<Node>)| match &question.prepared {
            Prepared::Run(action, _) => {
                let body = halite::nothing(action, Some(jid), RpcError(5, why.to_owned()));
                Some(due(question, node, body))
            }
            _ => None,
        };
        left.filter_map(answer).collect()
    }

    /// Handles timeouts: publishes collected jobs; for overdue jobs queries the job cache once, then gives up.
    pub fn tick(&mut self, now: Instant) -> (Vec<Act>, Vec<Due>) {
        let mut acts = Vec::new();
        let (ready, rest) = std::mem::take(&mut self.gathering)
            .into_iter()
            .partition(|one| now >= one.due);
        self.gathering = rest;
        let ready: Vec<Gathering> = ready;
        for one in ready {
            acts.push(self.publish(one.order, one.wanted));
        }
        let mut over = Vec::new();
        for (jid, running) in &mut self.running {
            if now < running.until {
                continue;
            }
            if running.looked {
                over.push(jid.clone());
            } else {
                running.looked = true;
                running.until = now + LOOK;
                acts.push(Act::Do(Task::Look(jid.clone())));
            }
        }
        let due = over.iter().flat_map(|jid| self.looked(jid)).collect();
        (acts, due)
    }
}

fn due(question: Arc<Question>, node: Arc<Node>, body: Body) -> Due {
    Due {
        question,
        node,
        body: Some(body),
    }
}
