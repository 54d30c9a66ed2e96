//! Jobs of the master on sysinspect minions: what a function asks of the minion, and what ends it. Decides without IO.
//!
//! A job's cycle id is made of its jid, so that whatever a minion says about the cycle leads back to the job, also
//! after a restart of the minion. The seed's `rsp` names no cycle; then it answers the oldest command.

use super::grains::{find, grains};
use super::words::{Heard, NO_CYCLE, Say};
use crate::crypto::HashType;
use crate::wire::ids::Jid;
use crate::wire::msgpack::{self, Profile};
use crate::wire::sysinspect::{Code, Dialect, MachineId, uuid};
use crate::wire::{Map, Value, pytext};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Jobs that may run on one minion; further ones are refused.
const RUNNING: usize = 256;
/// Results of actions that are kept of one job, and their octets; further ones are counted.
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

/// A published job (`salt/job/<jid>/new`).
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Its jid.
    pub jid: Jid,
    /// Who is expected to answer.
    pub ids: Vec<String>,
    /// `fun`, `arg`, `tgt`, `tgt_type`, `user`; shared by all minions that it runs on.
    pub load: Arc<Map>,
}

impl Order {
    /// Reads the event.
    pub fn of(event: &Map) -> Option<Order> {
        let mut load = Map::new();
        for key in ["fun", "arg", "tgt", "tgt_type", "user"] {
            if let Some(value) = event.get(key) {
                load.set(key, value.clone());
            }
        }
        Some(Order {
            jid: event.str("jid")?.parse().ok()?,
            ids: event.get("minions")?.str_list(),
            load: Arc::new(load),
        })
    }
}

/// What is to be done for a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Say something to a minion, as part of this cycle.
    Say(MachineId, String, Say),
    /// Hand in a return.
    Return(MachineId, Jid, Map),
    /// Delete the minion's key, end its session, then hand in this return.
    Unregister(MachineId, Jid, Map),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ping,
    Traits,
    Push,
    Call,
}

#[derive(Debug)]
struct Running {
    jid: Jid,
    cycle: String,
    kind: Kind,
    due: Instant,
    load: Arc<Map>,
    actions: Vec<Value>,
    size: usize,
    dropped: usize,
}

/// What a function has come to.
struct Outcome {
    value: Value,
    retcode: i64,
}

impl Outcome {
    fn good(value: impl Into<Value>) -> Outcome {
        let value = value.into();
        Outcome { value, retcode: 0 }
    }

    fn bad(text: impl Into<String>, retcode: i64) -> Outcome {
        let value = Value::Str(text.into());
        Outcome { value, retcode }
    }
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
            "test.ping" => self.run(order, id, Kind::Ping, Say::Ping, now),
            "grains.get" | "grains.item" | "grains.items" | "grains.ls" | "sysinspect.traits"
                if dialect == Dialect::E1 =>
            {
                Err(Outcome::bad(format!("{silent} tell their traits"), 1))
            }
            "grains.get" if args.words.is_empty() => {
                Err(Outcome::bad("grains.get takes the name of a grain", 1))
            }
            "grains.get" | "grains.item" | "grains.items" | "grains.ls" => {
                self.run(order, id, Kind::Traits, Say::AskTraits, now)
            }
            "sysinspect.traits" if args.named.is_empty() => {
                self.run(order, id, Kind::Traits, Say::AskTraits, now)
            }
            "sysinspect.traits" => {
                let traits = args.named.clone();
                self.run(order, id, Kind::Push, Say::PushTraits(traits), now)
            }
            "sysinspect.call" => {
                let say = args.command().ok_or_else(|| {
                    Outcome::bad(
                        "sysinspect.call takes model/entity/state, cmd://... or a command, then context as key=value",
                        1,
                    )
                })?;
                self.run(order, id, Kind::Call, say, now)
            }
            "sysinspect.unregister" => {
                let cycle = cycle(&order.jid);
                let mut steps = vec![Step::Say(id.clone(), cycle.clone(), Say::Remove)];
                if dialect == Dialect::Modern {
                    let say = Say::Command {
                        scheme: REMOVE.to_owned(),
                        words: Vec::new(),
                        context: Vec::new(),
                    };
                    steps.push(Step::Say(id.clone(), cycle, say));
                }
                let load = load(id, &order.jid, &order.load, Outcome::good(true));
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
        say: Say,
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
        Ok(vec![Step::Say(id.clone(), cycle, say)])
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

impl Running {
    fn keep(&mut self, action: Value) {
        let size = msgpack::encode(&action, Profile::Local).len();
        if self.actions.len() >= ACTIONS || self.size + size > ACTIONS_SIZE {
            self.dropped += 1;
            return;
        }
        self.size += size;
        self.actions.push(action);
    }

    fn end(self, id: &MachineId, outcome: Outcome) -> Step {
        returned(id, &self.jid, &self.load, outcome)
    }

    fn timed_out(self, id: &MachineId, timeout: Duration) -> Step {
        let text = format!("no answer within {} s", timeout.as_secs());
        let outcome = match self.actions.is_empty() {
            true => Outcome::bad(text, TIMED_OUT),
            false => {
                let mut outcome = self.results(None);
                if let Value::Map(map) = &mut outcome.value {
                    map.set("error", text);
                }
                outcome.retcode = TIMED_OUT;
                outcome
            }
        };
        self.end(id, outcome)
    }

    /// What the actions came to, with what was said of the model.
    fn results(&self, model: Option<Value>) -> Outcome {
        let mut value = crate::map! {"actions" => self.actions.clone()};
        if self.dropped > 0 {
            value.set("dropped", self.dropped);
        }
        let all = self.actions.iter().chain(&model);
        let retcode = all.filter_map(action_code).find(|c| *c != 0);
        if let Some(model) = model.filter(|m| !m.is_nil() && !m.is_str("")) {
            value.set("model", model);
        }
        Outcome {
            value: value.into(),
            retcode: retcode.unwrap_or(0),
        }
    }
}

/// `response.retcode` of an event.
fn action_code(event: &Value) -> Option<i64> {
    event.as_map()?.get("response")?.as_map()?.int("retcode")
}

fn retcode(code: Code) -> i64 {
    match code {
        Code::Undef | Code::Success => 0,
        // "Equal to 1 of POSIX", says the seed.
        Code::GeneralFailure => 1,
        other => i64::try_from(other.number()).unwrap_or(i64::MAX),
    }
}

fn take(jobs: &mut VecDeque<Running>, which: impl Fn(&Running) -> bool) -> Vec<Running> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < jobs.len() {
        match which(&jobs[at]) {
            true => out.extend(jobs.remove(at)),
            false => at += 1,
        }
    }
    out
}

/// The job of that cycle; where none is named, the oldest.
fn position(
    jobs: &VecDeque<Running>,
    cycle: Option<&str>,
    which: impl Fn(&Running) -> bool,
) -> Option<usize> {
    let named = cycle.filter(|c| !c.is_empty() && *c != NO_CYCLE);
    jobs.iter()
        .position(|job| which(job) && named.is_none_or(|cycle| cycle == job.cycle))
}

fn pick(
    jobs: &mut VecDeque<Running>,
    cycle: Option<&str>,
    which: impl Fn(&Running) -> bool,
) -> Option<Running> {
    let at = position(jobs, cycle, which)?;
    jobs.remove(at)
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

/// A job as `saltutil.find_job` of a minion describes it.
fn described(job: &Running) -> Map {
    let mut out = crate::map! {
        "jid" => job.jid.as_str(), "cycle" => job.cycle.as_str(), "pid" => std::process::id(),
    };
    out.0.extend(job.load.0.iter().cloned());
    out
}

fn returned(id: &MachineId, jid: &Jid, order: &Map, outcome: Outcome) -> Step {
    let load = load(id, jid, order, outcome);
    Step::Return(id.clone(), jid.clone(), load)
}

/// The `_return` load as Salt minions send it.
fn load(id: &MachineId, jid: &Jid, order: &Map, outcome: Outcome) -> Map {
    let copy = |key: &str| order.get(key).cloned().unwrap_or_default();
    let mut load = crate::map! {
        "cmd" => "_return", "id" => id.as_str(), "success" => outcome.retcode == 0,
        "return" => outcome.value, "retcode" => outcome.retcode, "jid" => jid.as_str(),
        "fun" => copy("fun"), "fun_args" => copy("arg"),
    };
    if let Some(user) = order.get("user") {
        load.set("user", user.clone());
    }
    load
}

/// What a function returns of the grains (`salt/modules/grains.py`).
fn told(order: &Map, grains: Map) -> Value {
    let args = Args::of(order);
    match order.str("fun") {
        Some("grains.ls") => {
            let mut names: Vec<String> = grains.iter().map(|(k, _)| text(k)).collect();
            names.sort();
            names.into()
        }
        Some("grains.get") => {
            let mut words = args.words.iter();
            let found = words.next().and_then(|path| find(&grains, path));
            let default = words.next().map_or("", String::as_str);
            found.cloned().unwrap_or_else(|| default.into())
        }
        Some("grains.item") => {
            let mut out = Map::new();
            for name in &args.words {
                let found = find(&grains, name).cloned();
                out.set(name, found.unwrap_or_else(|| "".into()));
            }
            out.into()
        }
        _ => grains.into(),
    }
}

fn text(value: &Value) -> String {
    pytext::str(value).into_owned()
}

/// Arguments of a job.
struct Args {
    words: Vec<String>,
    named: Map,
}

impl Args {
    fn of(load: &Map) -> Args {
        let mut out = Args {
            words: Vec::new(),
            named: Map::new(),
        };
        for arg in load
            .get("arg")
            .and_then(Value::as_array)
            .unwrap_or_default()
        {
            match arg {
                Value::Map(map) if map.get("__kwarg__").is_some_and(Value::truthy) => {
                    let pairs = map.iter().filter(|(key, _)| !key.is_str("__kwarg__"));
                    for (key, value) in pairs {
                        if let Some(key) = key.as_str() {
                            out.named.set(key, value.clone());
                        }
                    }
                }
                value => out.words.push(text(value)),
            }
        }
        out
    }

    /// The command of `sysinspect.call`.
    fn command(self) -> Option<Say> {
        let mut words = self.words.into_iter();
        let scheme = words.next().filter(|s| !s.trim().is_empty())?;
        let context = self
            .named
            .iter()
            .map(|(key, value)| (text(key), text(value)));
        Some(Say::Command {
            scheme,
            words: words.collect(),
            context: context.collect(),
        })
    }
}

#[cfg(test)]
#[path = "tests/jobs.rs"]
mod tests;
