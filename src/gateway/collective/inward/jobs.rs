//! Jobs that run for the collective: which nodes still owe an answer, and until when.

use super::agents::ddl::Wrong;
use super::agents::{Body, Prepared, halite};
use super::nodes::Node;
use super::question::Question;
use super::{Act, Due, Order, Task};
use crate::wire::Map;
use crate::wire::ids::{Jid, MinionId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Jobs that may run at once.
const MOST_JOBS: usize = 1_000;
/// Nodes that may owe an answer at once.
const MOST_NODES: usize = 100_000;
/// How long the job cache may take to be looked into.
const LOOK: Duration = Duration::from_secs(3);

struct Running {
    question: Arc<Question>,
    waiting: BTreeMap<MinionId, Arc<Node>>,
    until: Instant,
    /// Whether the job cache was asked already.
    looked: bool,
    patience: Duration,
}

/// All jobs that run.
#[derive(Default)]
pub(super) struct Jobs {
    running: HashMap<Jid, Running>,
    nodes: usize,
    over: Vec<Jid>,
}

impl Jobs {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// Whether there is room for a job of so many nodes.
    pub fn room(&self, nodes: usize) -> bool {
        self.running.len() < MOST_JOBS && self.nodes.saturating_add(nodes) <= MOST_NODES
    }

    /// Begins a job for the nodes of a question whose answers are awaited.
    pub fn begin(
        &mut self,
        question: Arc<Question>,
        run: &halite::Run,
        jid: Jid,
        nodes: &[Arc<Node>],
        wanted: bool,
        now: Instant,
    ) -> Act {
        let order = Order {
            jid: jid.clone(),
            user: question.caller.to_string(),
            fun: run.fun.clone(),
            arg: run.arg.clone(),
            minions: nodes.iter().map(|node| node.minion.to_string()).collect(),
        };
        if wanted {
            let waiting = nodes.iter().map(|node| (node.minion.clone(), node.clone()));
            self.nodes += nodes.len();
            let running = Running {
                question,
                waiting: waiting.collect(),
                until: now + run.patience,
                looked: false,
                patience: run.patience,
            };
            self.running.insert(jid, running);
        } else {
            self.over.push(jid);
        }
        Act::Do(Task::Publish(order))
    }

    /// A return; the answer if one is owed.
    pub fn returned(&mut self, jid: &Jid, minion: &MinionId, load: &Map) -> Option<Due> {
        let running = self.running.get_mut(jid)?;
        let node = running.waiting.remove(minion)?;
        self.nodes = self.nodes.saturating_sub(1);
        let question = running.question.clone();
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

    /// The job runs, but not on these.
    pub fn missing(&mut self, jid: &Jid, minions: &[String]) -> Vec<Due> {
        let ids = minions.iter().filter_map(|id| id.parse().ok());
        let ids: Vec<MinionId> = ids.collect();
        let why = "its key is not accepted any more".to_owned();
        self.give_up(jid, Some(&ids), &why)
    }

    /// The job does not run.
    pub fn failed(&mut self, jid: &Jid, why: &str) -> Vec<Due> {
        let why = format!("the job could not be published: {why}");
        self.give_up(jid, None, &why)
    }

    /// The job cache was looked into, and what it had was handed in: whoever is left has not returned.
    pub fn looked(&mut self, jid: &Jid) -> Vec<Due> {
        let Some(running) = self.running.get(jid) else {
            return Vec::new();
        };
        let seconds = running.patience.as_secs();
        let why = format!("no return within {seconds} seconds; the function may still run");
        self.give_up(jid, None, &why)
    }

    /// Jobs whose returns nobody waits for any more, since this was last asked.
    pub fn over(&mut self) -> impl Iterator<Item = Act> {
        let over = std::mem::take(&mut self.over).into_iter();
        over.map(|jid| Act::Do(Task::Forget(jid)))
    }

    /// Ends some or all of a job with words.
    fn give_up(&mut self, jid: &Jid, only: Option<&[MinionId]>, why: &str) -> Vec<Due> {
        let Some(running) = self.running.get_mut(jid) else {
            return Vec::new();
        };
        let question = running.question.clone();
        let Prepared::Run(action, _) = &question.prepared else {
            return Vec::new();
        };
        let left: Vec<Arc<Node>> = match only {
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
        let body = || halite::nothing(action, Some(jid), Wrong(5, why.to_owned()));
        let left = left.into_iter();
        left.map(|node| due(question.clone(), node, body()))
            .collect()
    }

    /// Looks at the clock: jobs whose time is over are looked up once, then given up.
    pub fn tick(&mut self, now: Instant) -> (Vec<Act>, Vec<Due>) {
        let mut acts = Vec::new();
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
