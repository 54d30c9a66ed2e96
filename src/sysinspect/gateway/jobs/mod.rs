//! Jobs of the master on sysinspect minions: what a function asks of the minion, and what ends it. Decides without IO.
//!
//! A job's cycle id is made of its jid, so that whatever a minion says about the cycle leads back to the job, also
//! after a restart of the minion. The seed's `rsp` names no cycle; then it answers the oldest command.

mod running;

use super::dialect::{Heard, Outbound};
use super::grains::grains;
use crate::wire::{Code, Dialect, MachineId};
use halite_crypto::HashType;
use halite_gateway::answer::{Args, Outcome, load, text, told};
use halite_gateway::master_events::Order;
use halite_wire::ids::{Jid, uuid};
use halite_wire::{Map, Value};
use running::{Kind, Running, described, pick, position, take};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Jobs that may run on one minion; further ones are refused.
const RUNNING: usize = 256;
/// Results of actions that are kept of one job, and their bytes; further ones are counted.
const ACTIONS: usize = 1000;
const ACTIONS_SIZE: usize = 4 << 20;
/// `retcode` of a command that took too long, as of timeout(1).
const TIMED_OUT: i64 = 124;
/// What E2 and E3 minions take for their removal.
const REMOVE: &str = "cmd://cluster/minion/remove";

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

/// What is to be done for a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Outbound something to a minion, as part of this cycle.
    Outbound(MachineId, String, Outbound),
    /// Hand in a return.
    Return(MachineId, Jid, Map),
    /// Delete the minion's key, end its session, then hand in this return.
    Unregister(MachineId, Jid, Map),
}

/// Jobs that run.
pub(super) struct Jobs {
    timeout: Duration,
    running: HashMap<MachineId, VecDeque<Running>>,
}

impl Jobs {
    /// No jobs yet; a command may take `timeout`.
    pub fn new(timeout: Duration) -> Jobs {
        Jobs {
            timeout,
            running: HashMap::new(),
        }
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.running.values().map(VecDeque::len).sum()
    }

    /// A job for a connected minion.
    pub fn begin(
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
            _ => Outcome::bad(
                "several functions in one job are not for sysinspect minions; send one job each",
                1,
            ),
        };
        vec![returned(id, &order.jid, &order.load, outcome)]
    }

    /// What a function asks for; `Err` where it is answered at once.
    fn call(
        &mut self,
        order: &Order,
        fun: &str,
        id: &MachineId,
        dialect: Dialect,
        now: Instant,
    ) -> Result<Vec<Step>, Outcome> {
        let args = Args::of(&order.load);
        let silent = "this minion speaks the protocol of 2024-11 (E1), in which minions do not";
        match fun {
            "test.ping" => self.run(order, id, Kind::Ping, Outbound::Ping, now),
            "grains.get" | "grains.item" | "grains.items" | "grains.ls" | "sysinspect.traits"
                if dialect == Dialect::E1 =>
            {
                Err(Outcome::bad(format!("{silent} tell their traits"), 1))
            }
            "grains.get" if args.words.is_empty() => {
                Err(Outcome::bad("grains.get takes the name of a grain", 1))
            }
            "grains.get" | "grains.item" | "grains.items" | "grains.ls" => {
                self.run(order, id, Kind::Traits, Outbound::AskTraits, now)
            }
            "sysinspect.traits" if args.named.is_empty() => {
                self.run(order, id, Kind::Traits, Outbound::AskTraits, now)
            }
            "sysinspect.traits" => {
                let traits = args.named.clone();
                self.run(order, id, Kind::Push, Outbound::PushTraits(traits), now)
            }
            "sysinspect.call" => {
                let say = command(args).ok_or_else(|| {
                    Outcome::bad(
                        "sysinspect.call takes model/entity/state, cmd://... or a command, then context as key=value",
                        1,
                    )
                })?;
                self.run(order, id, Kind::Call, say, now)
            }
            "sysinspect.unregister" => {
                let cycle = cycle(&order.jid);
                let mut steps = vec![Step::Outbound(id.clone(), cycle.clone(), Outbound::Remove)];
                if dialect == Dialect::Modern {
                    let say = Outbound::Command {
                        scheme: REMOVE.to_owned(),
                        words: Vec::new(),
                        context: Vec::new(),
                    };
                    steps.push(Step::Outbound(id.clone(), cycle, say));
                }
                let load = load(id.as_str(), &order.jid, &order.load, Outcome::good(true));
                steps.push(Step::Unregister(id.clone(), order.jid.clone(), load));
                Ok(steps)
            }
            "saltutil.find_job" => {
                let wanted = args.words.first().cloned().unwrap_or_default();
                let found = self.of(id).find(|job| job.jid.as_str() == wanted);
                Err(Outcome::good(found.map(described).unwrap_or_default()))
            }
            "saltutil.running" => {
                let all: Vec<Value> = self.of(id).map(|j| described(j).into()).collect();
                Err(Outcome::good(all))
            }
            "sys.list_functions" => {
                let names: Vec<Value> = FUNCTIONS.iter().map(|f| Value::from(*f)).collect();
                Err(Outcome::good(names))
            }
            other => Err(Outcome::bad(format!("'{other}' is not available."), 1)),
        }
    }

    fn of(&self, id: &MachineId) -> impl Iterator<Item = &Running> {
        self.running.get(id).into_iter().flatten()
    }

    fn run(
        &mut self,
        order: &Order,
        id: &MachineId,
        kind: Kind,
        say: Outbound,
        now: Instant,
    ) -> Result<Vec<Step>, Outcome> {
        let jobs = self.running.entry(id.clone()).or_default();
        if jobs.len() >= RUNNING {
            return Err(Outcome::bad(
                format!("{RUNNING} jobs already run on this minion"),
                1,
            ));
        }
        let cycle = cycle(&order.jid);
        // A job that is published again under its jid is the same job.
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
        Ok(vec![Step::Outbound(id.clone(), cycle, say)])
    }

    /// A minion has said something.
    pub fn heard(&mut self, id: &MachineId, heard: Heard) -> Vec<Step> {
        let Some(jobs) = self.running.get_mut(id) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        match heard {
            Heard::Pong(finished) => {
                for job in take(jobs, |job| job.kind == Kind::Ping) {
                    out.push(job.end(id, Outcome::good(true)));
                }
                let done = |job: &Running| job.kind == Kind::Call && finished.contains(&job.cycle);
                for job in take(jobs, done) {
                    let outcome = job.results(None);
                    out.push(job.end(id, outcome));
                }
            }
            Heard::Traits(traits) => {
                for job in take(jobs, |job| matches!(job.kind, Kind::Traits | Kind::Push)) {
                    let outcome = match job.kind {
                        Kind::Push => Outcome::good(true),
                        _ => Outcome::good(told(&job.load, grains(id.as_str(), &traits))),
                    };
                    out.push(job.end(id, outcome));
                }
            }
            Heard::Response { cycle, code, value } => {
                let kinds = |job: &Running| matches!(job.kind, Kind::Call | Kind::Push);
                if let Some(job) = pick(jobs, cycle.as_deref(), kinds) {
                    let outcome = match value {
                        // Actions may have been told before.
                        Value::Nil if !job.actions.is_empty() => job.results(None),
                        value => Outcome {
                            value,
                            retcode: retcode(code),
                        },
                    };
                    out.push(job.end(id, outcome));
                }
            }
            Heard::Action { cycle, value } => {
                let at = position(jobs, cycle.as_deref(), |job| job.kind == Kind::Call);
                if let Some(job) = at.and_then(|at| jobs.get_mut(at)) {
                    job.keep(value);
                }
            }
            Heard::Model { cycle, value } => {
                let call = |job: &Running| job.kind == Kind::Call;
                if let Some(job) = pick(jobs, cycle.as_deref(), call) {
                    let outcome = job.results(Some(value));
                    out.push(job.end(id, outcome));
                }
            }
            _ => {}
        }
        self.tidy(id);
        out
    }

    fn tidy(&mut self, id: &MachineId) {
        if self.running.get(id).is_some_and(VecDeque::is_empty) {
            self.running.remove(id);
        }
    }

    /// A minion is gone. Commands may end after it has come again; what was only asked of it is over, and
    /// the minion counts as not connected.
    pub fn left(&mut self, id: &MachineId) {
        if let Some(jobs) = self.running.get_mut(id) {
            jobs.retain(|job| job.kind == Kind::Call);
            self.tidy(id);
        }
    }

    /// Jobs that have taken too long.
    pub fn tick(&mut self, now: Instant) -> Vec<Step> {
        let mut out = Vec::new();
        for (id, jobs) in &mut self.running {
            for job in take(jobs, |job| job.due <= now) {
                out.push(job.timed_out(id, self.timeout));
            }
        }
        self.running.retain(|_, jobs| !jobs.is_empty());
        out
    }
}

fn retcode(code: Code) -> i64 {
    match code {
        Code::Undef | Code::Success => 0,
        // "Equal to 1 of POSIX", says the seed.
        Code::GeneralFailure => 1,
        other => i64::try_from(other.number()).unwrap_or(i64::MAX),
    }
}

pub(super) fn returned(id: &MachineId, jid: &Jid, order: &Map, outcome: Outcome) -> Step {
    let load = load(id.as_str(), jid, order, outcome);
    Step::Return(id.clone(), jid.clone(), load)
}

/// The command of `sysinspect.call`.
fn command(args: Args) -> Option<Outbound> {
    let mut words = args.words.into_iter();
    let scheme = words.next().filter(|s| !s.trim().is_empty())?;
    let context = args
        .named
        .iter()
        .map(|(key, value)| (text(key), text(value)));
    Some(Outbound::Command {
        scheme,
        words: words.collect(),
        context: context.collect(),
    })
}

/// The cycle of a job: a UUID that follows from the jid.
pub(super) fn cycle(jid: &Jid) -> String {
    let hex = HashType::Sha256.hex(format!("halite/{jid}").as_bytes());
    let mut octets = [0; 16];
    for (n, octet) in octets.iter_mut().enumerate() {
        let pair = hex.get(2 * n..2 * n + 2).unwrap_or_default();
        *octet = u8::from_str_radix(pair, 16).unwrap_or(0);
    }
    uuid(octets)
}

#[cfg(test)]
mod tests;
