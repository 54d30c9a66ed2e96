//! Jobs of the master on runtimes: what a function does with the fleet, and what completes it. Does no IO.
//!
//! Most functions are answered at once from what is known. `arena.create` waits for the runtime's confirmation if it
//! sends one, `arena.delete` for the end of the module; both watch the events of the fleet.

mod call;
mod wait;

pub(super) use wait::{gone_reason, lost_reason};

use super::fleet::{Act, Fleet, FleetEvent};
use super::grains::grains;
use super::output::Output;
use crate::mqtt::{Publication, Qos};
use crate::registry::{KeptModule, KeptRuntime, state_word};
use crate::wire::{
    Fault, Json, ModuleExit, ModuleRequest, Parent, Place, RuntimeState, State, Stream, Topics,
    Uuid,
};
use call::{Call, FUNCTIONS};
use halite_config::ArenaGateway;
use halite_gateway::answer::{self, FunctionResult};
use halite_gateway::clock::Clock;
use halite_gateway::master_events::Order;
use halite_wire::ids::{Jid, MinionId};
use halite_wire::{Map, Value};
use std::time::Duration;
use wait::{Goal, Waits};

/// A step to take for a job.
#[derive(Debug)]
pub(super) enum JobStep {
    /// Carry out what the fleet has decided.
    Act(Act),
    /// Store a return.
    Return(MinionId, Jid, Map),
    /// Store the grains of a runtime.
    Grains(MinionId, Map),
    /// Publish input for a module, and return whether it could be sent.
    Input(Box<Input>),
}

/// Input for a module, sent by a job.
#[derive(Debug)]
pub(super) struct Input {
    id: MinionId,
    order: Order,
    /// The messages to publish.
    pub publications: Vec<Publication>,
}

impl Input {
    /// The return: success if everything was sent, else the reason.
    pub fn returned(self, unsent: Option<String>) -> JobStep {
        let outcome = match unsent {
            None => FunctionResult::success(true),
            Some(why) => FunctionResult::failure(format!("arena.send: cannot be sent: {why}"), 1),
        };
        returned(&self.id, &self.order.jid, &self.order.load, outcome)
    }
}

/// What jobs read and change.
pub(super) struct JobContext<'a> {
    /// Runtimes and modules.
    pub fleet: &'a mut Fleet,
    /// Output of modules.
    pub output: &'a Output,
    /// Whether the broker is connected.
    pub up: bool,
    /// The current time.
    pub now: Clock,
}

/// The jobs that wait.
pub(super) struct Jobs {
    realm: String,
    topics: Topics,
    create_timeout: Duration,
    delete_timeout: Duration,
    waits: Waits,
}

impl Jobs {
    /// No jobs yet.
    pub fn new(settings: &ArenaGateway, topics: Topics) -> Jobs {
        Jobs {
            realm: settings.realm.clone(),
            topics,
            create_timeout: settings.create_timeout,
            delete_timeout: settings.delete_timeout,
            waits: Waits::default(),
        }
    }

    /// How many jobs wait.
    pub fn count(&self) -> usize {
        self.waits.count()
    }

    /// Runs a published job. Ids that are no runtimes of this gateway are skipped. A disconnected or unreachable
    /// runtime only runs functions about its record.
    pub fn run_job(&mut self, order: &Order, desk: &mut JobContext) -> Vec<JobStep> {
        let mut steps = Vec::new();
        let mine: Vec<KeptRuntime> = order
            .ids
            .iter()
            .filter_map(|id| desk.fleet.by_id(id).cloned())
            .collect();
        if mine.is_empty() {
            return steps;
        }
        let call = Call::of(&order.load);
        for runtime in mine {
            let Ok(id) = runtime.id.parse::<MinionId>() else {
                continue;
            };
            let away = !desk.up || runtime.runtime.state == RuntimeState::Dead;
            let kept = order
                .load
                .str("fun")
                .is_some_and(|f| f.starts_with("arena."));
            if away && !kept {
                continue;
            }
            // A job published again under the same jid is the same job.
            if self.waits.has(&id, &order.jid) {
                continue;
            }
            let outcome = match &call {
                Ok(call) => self.run(call, order, &id, &runtime, desk, &mut steps),
                Err(outcome) => Some(outcome.clone()),
            };
            if let Some(outcome) = outcome {
                steps.push(returned(&id, &order.jid, &order.load, outcome));
            }
        }
        steps
    }

    /// Runs a function on one runtime; `None` if the result is still to come.
    fn run(
        &mut self,
        call: &Call,
        order: &Order,
        id: &MinionId,
        runtime: &KeptRuntime,
        desk: &mut JobContext,
        steps: &mut Vec<JobStep>,
    ) -> Option<FunctionResult> {
        let uuid = &runtime.runtime.uuid;
        Some(match call {
            Call::Create { .. } | Call::Delete(_) | Call::Send(..) if !desk.up => {
                FunctionResult::failure(
                    "the broker of ARENA cannot be reached; nothing was sent",
                    1,
                )
            }
            Call::Ping => FunctionResult::success(true),
            Call::Grains => FunctionResult::success(answer::grains_result(
                &order.load,
                grains(runtime, &self.realm),
            )),
            Call::Refresh => {
                steps.push(JobStep::Grains(id.clone(), grains(runtime, &self.realm)));
                FunctionResult::success(true)
            }
            Call::FindJob(jid) => FunctionResult::success(self.waits.find(id, jid)),
            Call::Running => FunctionResult::success(self.waits.of(id)),
            Call::Functions => {
                let names: Vec<Value> = FUNCTIONS.iter().map(|name| Value::from(*name)).collect();
                FunctionResult::success(names)
            }
            Call::Create { request, scheduled } => {
                let mut request = request.clone();
                request.parent = (!scheduled).then(|| Parent(uuid.to_string()));
                return self.create(*request, order, id, desk, steps);
            }
            Call::Delete(module) => return self.delete(module, order, id, uuid, desk, steps),
            Call::Modules => {
                let modules = desk.fleet.modules_of(uuid).into_iter();
                let all: Vec<Value> = modules
                    .map(|module| {
                        let mut out = module.brief(Some(runtime));
                        add_usage(&mut out, desk, &module.module.uuid);
                        out.into()
                    })
                    .collect();
                FunctionResult::success(all)
            }
            Call::Module(module) => match find_any(desk.fleet, uuid, module) {
                Ok(found) => {
                    let mut out = found.full(Some(runtime));
                    add_usage(&mut out, desk, &found.module.uuid);
                    FunctionResult::success(out)
                }
                Err(outcome) => outcome,
            },
            Call::Logs(module, lines) => match find_any(desk.fleet, uuid, module) {
                Ok(found) => FunctionResult::success(desk.output.tail(&found.module.uuid, *lines)),
                Err(outcome) => outcome,
            },
            Call::Send(module, data) => match find(desk.fleet, uuid, module) {
                Ok(found) => match self.input(runtime, found, data) {
                    Ok(publications) => {
                        let input = Input {
                            id: id.clone(),
                            order: order.clone(),
                            publications,
                        };
                        steps.push(JobStep::Input(Box::new(input)));
                        return None;
                    }
                    Err(outcome) => outcome,
                },
                Err(outcome) => outcome,
            },
            Call::Runtime => {
                let mut out = runtime.summary();
                out.set("modules", desk.fleet.modules_of(uuid).len());
                FunctionResult::success(out)
            }
        })
    }

    fn create(
        &mut self,
        request: ModuleRequest,
        order: &Order,
        id: &MinionId,
        desk: &mut JobContext,
        steps: &mut Vec<JobStep>,
    ) -> Option<FunctionResult> {
        let (kept, acts) = match desk.fleet.create(request, desk.now) {
            Ok(created) => created,
            Err(fault) => return Some(refused("arena.create", &fault)),
        };
        let place = desk.fleet.place_of(&kept);
        let answers = kept.module.state == State::Alive && place.is_some_and(confirms);
        let told = FunctionResult::success(kept.started(place));
        // The acts that follow may already contain the answer.
        let waits = answers
            && self.waits.add(
                Goal::Start,
                &kept.module.uuid,
                id,
                order,
                desk.now.at + self.create_timeout,
            );
        steps.extend(acts.into_iter().map(JobStep::Act));
        (!waits).then_some(told)
    }

    fn delete(
        &mut self,
        module: &str,
        order: &Order,
        id: &MinionId,
        runtime: &Uuid,
        desk: &mut JobContext,
        steps: &mut Vec<JobStep>,
    ) -> Option<FunctionResult> {
        // A module that waits for any runtime belongs to none yet; a disconnected runtime cannot be asked about its
        // own.
        let named = module.parse::<Uuid>().ok();
        let named = named.and_then(|uuid| desk.fleet.module(&uuid));
        let nobodys = |kept: &KeptModule| {
            let place = desk.fleet.place_of(kept);
            place.is_none_or(|kept| kept.runtime.state == RuntimeState::Dead)
        };
        let of = if named.is_some_and(nobodys) {
            None
        } else {
            Some(runtime)
        };
        let (kept, acts) = match desk.fleet.delete(module, of, desk.now) {
            Ok(deleted) => deleted,
            Err(fault) => return Some(refused("arena.delete", &fault)),
        };
        let waits = kept.module.state == State::Exiting
            && self.waits.add(
                Goal::End,
                &kept.module.uuid,
                id,
                order,
                desk.now.at + self.delete_timeout,
            );
        steps.extend(acts.into_iter().map(JobStep::Act));
        let place = desk.fleet.runtime(runtime);
        (!waits).then(|| FunctionResult::success(kept.brief(place)))
    }

    /// The messages that a module reads as its input. The topic where its runtime listens depends on the
    /// implementation, and one that is not ours uses one of two (reference, section 3).
    fn input(
        &self,
        runtime: &KeptRuntime,
        kept: &KeptModule,
        data: &[u8],
    ) -> Result<Vec<Publication>, FunctionResult> {
        let module = &kept.module;
        let bad = |text: String| FunctionResult::failure(format!("arena.send: {text}"), 1);
        if module.state != State::Alive {
            let state = state_word(module.state);
            return Err(bad(format!("{} is {state}", module.uuid)));
        }
        if confirms(runtime) && !module.apis.iter().any(|api| api == "stdio:in") {
            return Err(bad(format!(
                "{} does not read its input: \"stdio:in\" is not among its apis",
                module.uuid
            )));
        }
        let streams: &[Stream] = if confirms(runtime) {
            &[Stream::Stdin]
        } else {
            &[Stream::Stdin, Stream::Both]
        };
        let publication = |stream: &Stream| Publication {
            topic: self
                .topics
                .topic(&Place::Stdio(module.uuid.clone(), *stream))
                .to_string(),
            payload: data.to_vec(),
            qos: Qos::Two,
            properties: Vec::new(),
        };
        Ok(streams.iter().map(publication).collect())
    }

    /// Handles an event of the fleet: returns the results that it completes.
    pub fn happened(&mut self, happening: &FleetEvent, fleet: &Fleet) -> Vec<JobStep> {
        let (uuid, outcome) = match happening {
            FleetEvent::Started(kept) => (&kept.module.uuid, wait::started(kept, fleet)),
            FleetEvent::Queued(kept) => (&kept.module.uuid, wait::started(kept, fleet)),
            // It was moved to a runtime that sends no confirmation.
            FleetEvent::Sent(kept) if fleet.place_of(kept).is_some_and(|to| !confirms(to)) => {
                (&kept.module.uuid, wait::started(kept, fleet))
            }
            FleetEvent::Refused(kept, why) => (&kept.module.uuid, wait::refused(kept, why, fleet)),
            FleetEvent::Ended(kept, exit) => (&kept.module.uuid, wait::ended(kept, exit, fleet)),
            FleetEvent::Lost(kept, why) => (&kept.module.uuid, wait::lost(kept, *why, fleet)),
            _ => return Vec::new(),
        };
        let done = self.waits.take(uuid, |goal| outcome.of(goal).is_some());
        done.into_iter()
            .filter_map(|wait| {
                let outcome = outcome.of(wait.goal)?.clone();
                Some(returned(&wait.id, &wait.jid, &wait.load, outcome))
            })
            .collect()
    }

    /// Returns the results of jobs that have timed out.
    pub fn tick(&mut self, fleet: &Fleet, now: Clock) -> Vec<JobStep> {
        let late = self.waits.late(now.at);
        let step = |wait: wait::Wait| {
            let time = match wait.goal {
                Goal::Start => self.create_timeout,
                Goal::End => self.delete_timeout,
            };
            let outcome = wait::timed_out(&wait, time, fleet);
            returned(&wait.id, &wait.jid, &wait.load, outcome)
        };
        late.into_iter().map(step).collect()
    }
}

/// Whether a runtime confirms requests: those of halite do, and are recognised by their metadata.
fn confirms(runtime: &KeptRuntime) -> bool {
    runtime.runtime.metadata.get("halite").is_some()
}

/// Finds a module of this runtime, by uuid or unique name.
fn find<'a>(
    fleet: &'a Fleet,
    runtime: &Uuid,
    module: &str,
) -> Result<&'a KeptModule, FunctionResult> {
    let found = module.parse::<Uuid>().ok();
    let found = found.and_then(|uuid| fleet.module(&uuid));
    if let Some(found) = found.filter(|found| found.module.runtime.as_ref() == Some(runtime)) {
        return Ok(found);
    }
    let modules = fleet.modules_of(runtime);
    let mut named = modules
        .into_iter()
        .filter(|kept| kept.module.name == module);
    match (named.next(), named.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(FunctionResult::failure(
            format!("several modules of this runtime have the name {module:?}; use a uuid"),
            1,
        )),
        (None, _) => Err(FunctionResult::failure(
            format!("this runtime has no module {module:?}"),
            1,
        )),
    }
}

/// Like [`find`]; if no module with that name runs, the one that ended last.
fn find_any<'a>(
    fleet: &'a Fleet,
    runtime: &Uuid,
    module: &str,
) -> Result<&'a KeptModule, FunctionResult> {
    find(fleet, runtime, module).or_else(|problem| fleet.last_ended(runtime, module).ok_or(problem))
}

/// Adds the resources that a module uses, as last reported by its runtime, and how often it was restarted.
fn add_usage(out: &mut Map, desk: &JobContext, uuid: &Uuid) {
    if let Some(child) = desk.fleet.usage(uuid) {
        out.set("cpu_percent", Value::Float(child.cpu_percent));
        out.set("memory", child.memory);
        let active = child.active.as_deref();
        out.set("active", active.map_or(Value::Nil, Value::from));
    }
    out.set("restarts", desk.output.restarts(uuid));
}

/// A fault in one line.
pub(super) fn describe_fault(fault: &Fault) -> String {
    let desc = fault.trouble.desc();
    match &fault.data {
        Json::Null => desc.to_owned(),
        Json::String(text) => format!("{desc}: {text}"),
        other => format!("{desc}: {other}"),
    }
}

/// How a module ended.
pub(super) fn describe_exit(exit: &ModuleExit) -> Map {
    let mut out = halite_wire::map! {"status" => exit.status.word()};
    if let Some(code) = exit.code {
        out.set("exit_code", code);
    }
    if let Some(reason) = &exit.reason {
        out.set("reason", reason.as_str());
    }
    out
}

fn refused(fun: &str, fault: &Fault) -> FunctionResult {
    FunctionResult::failure(format!("{fun}: {}", describe_fault(fault)), 1)
}

fn returned(id: &MinionId, jid: &Jid, order: &Map, outcome: FunctionResult) -> JobStep {
    let load = answer::return_load(id.as_str(), jid, order, outcome);
    JobStep::Return(id.clone(), jid.clone(), load)
}

#[cfg(test)]
mod tests;
