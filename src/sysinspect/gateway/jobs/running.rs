//! A job that runs on a minion.

use super::super::dialect::NO_CYCLE;
use super::{MAX_ACTIONS, MAX_ACTIONS_SIZE, Step, TIMED_OUT, return_step};
use crate::wire::MachineId;
use halite_gateway::answer::{Args, FunctionResult, text};
use halite_wire::ids::Jid;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    Ping,
    Traits,
    Push,
    Call,
}

#[derive(Debug)]
pub(super) struct Running {
    pub jid: Jid,
    pub cycle: String,
    pub kind: JobKind,
    pub due: Instant,
    pub load: Arc<Map>,
    pub actions: Vec<Value>,
    pub size: usize,
    pub dropped: usize,
}

impl Running {
    pub fn add_action(&mut self, action: Value) {
        let size = msgpack::encode(&action, Profile::Local).len();
        if self.actions.len() >= MAX_ACTIONS || self.size + size > MAX_ACTIONS_SIZE {
            self.dropped += 1;
            return;
        }
        self.size += size;
        self.actions.push(action);
    }

    pub fn finish(self, id: &MachineId, outcome: FunctionResult) -> Step {
        return_step(id, &self.jid, &self.load, outcome)
    }

    pub fn timed_out(self, id: &MachineId, timeout: Duration) -> Step {
        let text = format!("no answer within {} s", timeout.as_secs());
        let outcome = if self.actions.is_empty() {
            FunctionResult::failure(text, TIMED_OUT)
        } else {
            let mut outcome = self.results(None);
            if let Value::Map(map) = &mut outcome.value {
                map.set("error", text);
            }
            outcome.retcode = TIMED_OUT;
            outcome
        };
        self.finish(id, outcome)
    }

    /// Traits that it should have changed, according to these, but has not.
    pub fn unset(&self, traits: &Map) -> Vec<String> {
        let wanted = Args::of(&self.load).named;
        let differs = |(key, value): &&(Value, Value)| {
            let found = key.as_str().and_then(|key| traits.get(key));
            match found {
                None => !value.is_nil(),
                Some(found) => value.is_nil() || text(found) != text(value),
            }
        };
        wanted
            .iter()
            .filter(differs)
            .map(|(key, _)| text(key))
            .collect()
    }

    /// The results of the actions, and the event of the model if there is one.
    pub fn results(&self, model: Option<Value>) -> FunctionResult {
        let mut value = halite_wire::map! {"actions" => self.actions.clone()};
        if self.dropped > 0 {
            value.set("dropped", self.dropped);
        }
        let all = self.actions.iter().chain(&model);
        let retcode = all.filter_map(action_code).find(|c| *c != 0);
        let mut retcode = retcode.unwrap_or(0);
        if let Some(model) = model.filter(|m| !m.is_nil() && !m.is_str("")) {
            value.set("model", model);
        }
        // A minion without the model, or with a broken one, says that it has finished and nothing else.
        let words = Args::of(&self.load).positional;
        let command = words.first().is_some_and(|word| word.starts_with("cmd://"));
        if self.actions.is_empty() && !command {
            value.set(
                "error",
                "the minion ran no action; the model may be missing there, or broken: see its log",
            );
            retcode = retcode.max(1);
        }
        FunctionResult {
            value: value.into(),
            retcode,
        }
    }
}

/// `response.retcode` of an event.
pub(super) fn action_code(event: &Value) -> Option<i64> {
    event.as_map()?.get("response")?.as_map()?.int("retcode")
}

pub(super) fn drain_matching(
    jobs: &mut VecDeque<Running>,
    which: impl Fn(&Running) -> bool,
) -> Vec<Running> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < jobs.len() {
        if which(&jobs[at]) {
            out.extend(jobs.remove(at))
        } else {
            at += 1
        }
    }
    out
}

/// The job of a cycle; if no cycle is named, the oldest job.
pub(super) fn position(
    jobs: &VecDeque<Running>,
    cycle: Option<&str>,
    which: impl Fn(&Running) -> bool,
) -> Option<usize> {
    let named = cycle.filter(|c| !c.is_empty() && *c != NO_CYCLE);
    jobs.iter()
        .position(|job| which(job) && named.is_none_or(|cycle| cycle == job.cycle))
}

pub(super) fn remove_job(
    jobs: &mut VecDeque<Running>,
    cycle: Option<&str>,
    which: impl Fn(&Running) -> bool,
) -> Option<Running> {
    let at = position(jobs, cycle, which)?;
    jobs.remove(at)
}

/// A job as `saltutil.find_job` of a minion describes it.
pub(super) fn describe(job: &Running) -> Map {
    let mut out = halite_wire::map! {
        "jid" => job.jid.as_str(), "cycle" => job.cycle.as_str(), "pid" => std::process::id(),
    };
    out.0.extend(job.load.0.iter().cloned());
    out
}
