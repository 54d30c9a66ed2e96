//! Jobs of the master on sysinspect minions: what a function sends to the minion, and what completes it. Does no IO.
//!
//! A job's cycle id is derived from its jid, so that a minion's messages about the cycle lead back to the job, even
//! after the minion restarted. The seed's `rsp` names no cycle; it is taken as the answer to the oldest command.

mod running;

use super::dialect::{Inbound, Outbound};
use super::grains::grains;
use crate::wire::{Code, Dialect, MachineId};
use halite_crypto::HashType;
use halite_gateway::answer::{Args, FunctionResult, argument, grains_result, return_load, text};
use halite_gateway::master_events::Order;
use halite_wire::ids::{Jid, uuid};
use halite_wire::{Map, Value};
use running::{JobKind, Running, describe, drain_matching, position, remove_job};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Jobs that may run on one minion; more are refused.
const MAX_JOBS: usize = 256;
/// Results of actions stored per job, and their size in bytes; more are only counted.
const MAX_ACTIONS: usize = 1000;
const MAX_ACTIONS_SIZE: usize = 4 << 20;
/// `retcode` of a command that timed out, as in timeout(1).
const TIMED_OUT: i64 = 124;
/// The command that removes an E2 or E3 minion.
const REMOVE_COMMAND: &str = "cmd://cluster/minion/remove";
/// The command that sets traits of an E3 minion: its context is a request in JSON.
const TRAITS_COMMAND: &str = "cmd://cluster/traits/update";

/// Functions of sysinspect minions, sorted.
const FUNCTIONS: &[&str] = &[
    "grains.get",
    "grains.item",
    "grains.items",
    "grains.ls",
    "saltutil.find_job",
    "saltutil.running",
    "sys.list_functions",
    "sysinspect.call",
    "sysinspect.traits",
    "sysinspect.unregister",
    "test.ping",
];

/// A step to take for a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Send a message to a minion, as part of this cycle.
    Send(MachineId, String, Outbound),
    /// Store a return.
    Return(MachineId, Jid, Map),
    /// Delete the minion's key, end its session, then store this return.
    Unregister(MachineId, Jid, Map),
}

/// The running jobs.
pub(super) struct Jobs {
    timeout: Duration,
    running: HashMap<MachineId, VecDeque<Running>>,
}

impl Jobs {
    /// No jobs yet; a command may run for `timeout`.
    pub fn new(timeout: Duration) -> Jobs {
        Jobs {
            timeout,
            running: HashMap::new(),
        }
    }

    /// The number of running jobs.
    pub fn count(&self) -> usize {
        self.running.values().map(VecDeque::len).sum()
    }

    /// Starts a job on a connected minion.
    pub fn start(
        &mut self,
        order: &Order,
        id: &MachineId,
        dialect: Dialect,
        now: Instant,
    ) -> Vec<Step> {
        let outcome = match order.load.get("fun") {
            Some(Value::Str(fun)) => match self.call(order, fun, id, dialect, now) {
                Ok(steps) => return steps,
                Err(outcome) => outcome,
            },
            _ => FunctionResult::failure(
                "sysinspect minions run one function per job; send a job for each",
                1,
            ),
        };
        vec![return_step(id, &order.jid, &order.load, outcome)]
    }

    /// Runs a function; `Err` is a result that needs no message to the minion.
    fn call(
        &mut self,
        order: &Order,
        fun: &str,
        id: &MachineId,
        dialect: Dialect,
        now: Instant,
    ) -> Result<Vec<Step>, FunctionResult> {
        let args = Args::of(&order.load);
        let silent = "this minion speaks the protocol of 2024-11 (E1), in which minions cannot";
        match fun {
            "test.ping" => self.run(order, id, JobKind::Ping, Outbound::Ping, now),
            "sysinspect.traits" if dialect == Dialect::E1 => Err(FunctionResult::failure(
                format!("{silent} send or change their traits"),
                1,
            )),
            "grains.get" if args.positional.is_empty() => Err(FunctionResult::failure(
                "grains.get takes the name of a grain",
                1,
            )),
            "grains.get" | "grains.item" | "grains.items" | "grains.ls"
                if dialect == Dialect::E1 =>
            {
                let grains = grains(id.as_str(), &Map::new());
                Err(FunctionResult::success(grains_result(&order.load, grains)))
            }
            "grains.get" | "grains.item" | "grains.items" | "grains.ls" => {
                self.run(order, id, JobKind::Traits, Outbound::AskTraits, now)
            }
            "sysinspect.traits" if args.named.is_empty() => {
                self.run(order, id, JobKind::Traits, Outbound::AskTraits, now)
            }
            "sysinspect.traits" => {
                let traits = args.named.clone();
                let updates = match dialect {
                    Dialect::Modern => trait_updates(&traits),
                    Dialect::Seed | Dialect::E1 => Vec::new(),
                };
                let push = Outbound::PushTraits(traits);
                let mut steps = self.run(order, id, JobKind::Push, push, now)?;
                if !steps.is_empty() {
                    // The last message is answered with all traits, which show whether they were set.
                    let cycle = cycle(&order.jid);
                    let send = |message| Step::Send(id.clone(), cycle.clone(), message);
                    steps.splice(0..0, updates.into_iter().map(send));
                }
                Ok(steps)
            }
            "sysinspect.call" => {
                let message = command(args).ok_or_else(|| {
                    FunctionResult::failure(
                        "sysinspect.call takes model/entity/state, cmd://... or a command, then context as key=value",
                        1,
                    )
                })?;
                self.run(order, id, JobKind::Call, message, now)
            }
            "sysinspect.unregister" => {
                let cycle = cycle(&order.jid);
                let mut steps = vec![Step::Send(id.clone(), cycle.clone(), Outbound::Remove)];
                if dialect == Dialect::Modern {
                    let message = Outbound::Command {
                        scheme: REMOVE_COMMAND.to_owned(),
                        words: Vec::new(),
                        context: Vec::new(),
                    };
                    steps.push(Step::Send(id.clone(), cycle, message));
                }
                let load = return_load(
                    id.as_str(),
                    &order.jid,
                    &order.load,
                    FunctionResult::success(true),
                );
                steps.push(Step::Unregister(id.clone(), order.jid.clone(), load));
                Ok(steps)
            }
            "saltutil.find_job" => {
                let wanted = args.positional.first().cloned().unwrap_or_default();
                let found = self.of(id).find(|job| job.jid.as_str() == wanted);
                Err(FunctionResult::success(
                    found.map(describe).unwrap_or_default(),
                ))
            }
            "saltutil.running" => {
                let all: Vec<Value> = self.of(id).map(|j| describe(j).into()).collect();
                Err(FunctionResult::success(all))
            }
            "sys.list_functions" => {
                let names: Vec<Value> = FUNCTIONS.iter().map(|f| Value::from(*f)).collect();
                Err(FunctionResult::success(names))
            }
            other => Err(FunctionResult::failure(
                format!("'{other}' is not available."),
                1,
            )),
        }
    }

    fn of(&self, id: &MachineId) -> impl Iterator<Item = &Running> {
        self.running.get(id).into_iter().flatten()
    }

    fn run(
        &mut self,
        order: &Order,
        id: &MachineId,
        kind: JobKind,
        message: Outbound,
        now: Instant,
    ) -> Result<Vec<Step>, FunctionResult> {
        let jobs = self.running.entry(id.clone()).or_default();
        if jobs.len() >= MAX_JOBS {
            return Err(FunctionResult::failure(
                format!("{MAX_JOBS} jobs are already running on this minion"),
                1,
            ));
        }
        let cycle = cycle(&order.jid);
        // A job published again under the same jid is the same job.
        if jobs.iter().any(|job| job.jid == order.jid) {
            return Ok(Vec::new());
        }
        jobs.push_back(Running {
            jid: order.jid.clone(),
            cycle: cycle.clone(),
            kind,
            due: now + self.timeout,
            load: order.load.clone(),
            actions: Vec::new(),
            size: 0,
            dropped: 0,
        });
        Ok(vec![Step::Send(id.clone(), cycle, message)])
    }

    /// Handles a message from a minion.
    pub fn receive(&mut self, id: &MachineId, heard: Inbound) -> Vec<Step> {
        let Some(jobs) = self.running.get_mut(id) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        match heard {
            Inbound::Pong(finished) => {
                for job in drain_matching(jobs, |job| job.kind == JobKind::Ping) {
                    out.push(job.finish(id, FunctionResult::success(true)));
                }
                let done =
                    |job: &Running| job.kind == JobKind::Call && finished.contains(&job.cycle);
                for job in drain_matching(jobs, done) {
                    let outcome = job.results(None);
                    out.push(job.finish(id, outcome));
                }
            }
            Inbound::Traits(traits) => {
                // While others wait for traits, these may be an answer from before the change.
                let asked = jobs.iter().any(|job| job.kind == JobKind::Traits);
                for job in drain_matching(jobs, |job| match job.kind {
                    JobKind::Traits => true,
                    JobKind::Push => !asked || job.unset(&traits).is_empty(),
                    _ => false,
                }) {
                    let outcome = match job.kind {
                        JobKind::Push => pushed(&job.unset(&traits)),
                        _ => FunctionResult::success(grains_result(
                            &job.load,
                            grains(id.as_str(), &traits),
                        )),
                    };
                    out.push(job.finish(id, outcome));
                }
            }
            Inbound::Response { cycle, code, value } => {
                let kinds = |job: &Running| matches!(job.kind, JobKind::Call | JobKind::Push);
                if let Some(job) = remove_job(jobs, cycle.as_deref(), kinds) {
                    let outcome = match value {
                        // Results of actions may have come before.
                        Value::Nil if !job.actions.is_empty() => job.results(None),
                        value => FunctionResult {
                            value,
                            retcode: retcode(code),
                        },
                    };
                    out.push(job.finish(id, outcome));
                }
            }
            Inbound::Action { cycle, value } => {
                let at = position(jobs, cycle.as_deref(), |job| job.kind == JobKind::Call);
                if let Some(job) = at.and_then(|at| jobs.get_mut(at)) {
                    job.add_action(value);
                }
            }
            Inbound::Model { cycle, value } => {
                let call = |job: &Running| job.kind == JobKind::Call;
                if let Some(job) = remove_job(jobs, cycle.as_deref(), call) {
                    let outcome = job.results(Some(value));
                    out.push(job.finish(id, outcome));
                }
            }
            _ => {}
        }
        self.remove_if_idle(id);
        out
    }

    fn remove_if_idle(&mut self, id: &MachineId) {
        if self.running.get(id).is_some_and(VecDeque::is_empty) {
            self.running.remove(id);
        }
    }

    /// A minion has disconnected. Commands may still finish after it has reconnected; other jobs are dropped, and the
    /// minion counts as not connected.
    pub fn disconnected(&mut self, id: &MachineId) {
        if let Some(jobs) = self.running.get_mut(id) {
            jobs.retain(|job| job.kind == JobKind::Call);
            self.remove_if_idle(id);
        }
    }

    /// Ends the jobs that have timed out.
    pub fn tick(&mut self, now: Instant) -> Vec<Step> {
        let mut out = Vec::new();
        for (id, jobs) in &mut self.running {
            for job in drain_matching(jobs, |job| job.due <= now) {
                out.push(job.timed_out(id, self.timeout));
            }
        }
        self.running.retain(|_, jobs| !jobs.is_empty());
        out
    }
}

/// The commands that set traits of an E3 minion and remove those without a value.
fn trait_updates(traits: &Map) -> Vec<Outbound> {
    let (gone, set): (Vec<_>, Vec<_>) = traits.iter().partition(|(_, value)| value.is_nil());
    let update = |(op, pairs): (&str, Vec<&(Value, Value)>)| {
        let traits: Map = pairs
            .into_iter()
            .map(|(k, v)| (text(k), v.clone()))
            .collect();
        let request = halite_wire::map! {"op" => op, "traits" => traits};
        Outbound::Command {
            scheme: TRAITS_COMMAND.to_owned(),
            words: vec![serde_json::to_string(&request).unwrap_or_default()],
            context: Vec::new(),
        }
    };
    let both = [("set", set), ("unset", gone)].into_iter();
    both.filter(|(_, pairs)| !pairs.is_empty())
        .map(update)
        .collect()
}

/// The result of setting traits; `unset` are those that the minion still has otherwise.
fn pushed(unset: &[String]) -> FunctionResult {
    if unset.is_empty() {
        return FunctionResult::success(true);
    }
    let text = format!(
        "the minion has not changed {}; minions before 2026-03 cannot",
        unset.join(", ")
    );
    FunctionResult::failure(text, 1)
}

fn retcode(code: Code) -> i64 {
    match code {
        Code::Undef | Code::Success => 0,
        // "Equal to 1 of POSIX", according to the seed.
        Code::GeneralFailure => 1,
        other => i64::try_from(other.number()).unwrap_or(i64::MAX),
    }
}

pub(super) fn return_step(id: &MachineId, jid: &Jid, order: &Map, outcome: FunctionResult) -> Step {
    let load = return_load(id.as_str(), jid, order, outcome);
    Step::Return(id.clone(), jid.clone(), load)
}

/// The command of `sysinspect.call`.
fn command(args: Args) -> Option<Outbound> {
    let mut words = args.positional.into_iter();
    let scheme = words.next().filter(|s| !s.trim().is_empty())?;
    let context = args.named.iter();
    let context = context.map(|(key, value)| (text(key), argument(value)));
    Some(Outbound::Command {
        scheme,
        words: words.collect(),
        context: context.collect(),
    })
}

/// The cycle of a job: a UUID derived from the jid.
pub(super) fn cycle(jid: &Jid) -> String {
    let hex = HashType::Sha256.hex(format!("halite/{jid}").as_bytes());
    let mut bytes = [0; 16];
    for (n, byte) in bytes.iter_mut().enumerate() {
        let pair = hex.get(2 * n..2 * n + 2).unwrap_or_default();
        *byte = u8::from_str_radix(pair, 16).unwrap_or(0);
    }
    uuid(bytes)
}

#[cfg(test)]
mod tests;
