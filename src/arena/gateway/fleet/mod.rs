//! The orchestrator: managers, runtimes and modules, and what happens to them. Does no IO: messages and the time are
//! passed in, and it returns acts to carry out.
//!
//! It asks [`Admission`] whether a runtime is admitted. Changes are reported as [`FleetEvent`]s, which the gateway
//! turns into events, grains, presence and returns of jobs.

mod ending;
mod hear;
mod keepalives;
mod modules;
mod out;
mod placing;
mod registering;
mod runtimes;
mod silence;
mod waiting_room;

use crate::mqtt::{Incoming, Publication};
use crate::registry::{Change, KeptModule, KeptRuntime, Snapshot};
use crate::wire::{
    Body, Child, Fault, Manager, Message, ModuleExit, ModuleRequest, Policy, State, Stream, Topics,
    Trouble, Uuid,
};
use halite_gateway::clock::Clock;
use halite_wire::Map;
use modules::Modules;
use out::{Bucket, Out, OwnIds};
use runtimes::Runtimes;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use waiting_room::WaitingRoom;

/// What the settings say about the fleet.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// The topics.
    pub topics: Topics,
    /// `ka_interval_sec` sent to runtimes. 0 turns keepalives off, and none is ever missed.
    pub keepalive: Duration,
    /// The policy for modules whose request names none.
    pub policy: Policy,
    /// How many managers are remembered.
    pub max_managers: usize,
    /// How many runtimes are remembered.
    pub max_runtimes: usize,
    /// How many runtimes may wait for the operator.
    pub max_waiting: usize,
    /// How many modules may be running or queued.
    pub max_modules: usize,
    /// Size limit of all records of modules, dead ones included, in bytes.
    pub max_bytes: usize,
    /// How long to keep the record of a dead module, and of a disconnected runtime that no module
    /// names.
    pub forget_after: Duration,
}

/// Whether a runtime is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// Yes; its minion id.
    Yes(String),
    /// The operator has not decided yet; its minion id.
    Waiting(String),
    /// No, with the reason.
    No(String),
    /// No: the operator has deleted its key. It is asked about again only when it registers again.
    Deleted,
    /// Unknown for now, with the reason. An admitted runtime stays; another one is not admitted.
    Unclear(String),
}

/// Decides which runtimes are admitted.
pub(super) trait Admission: Send {
    /// Whether this runtime, with this name, is admitted. Registers it if it is unknown.
    fn admit(&mut self, uuid: &Uuid, name: &str) -> Admitted;

    /// The same for a runtime that was asked about before: if its key was deleted since, it is not registered again.
    fn check(&mut self, uuid: &Uuid, name: &str) -> Admitted;
}

/// Something to carry out, in the order in which it was decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// Publish a message.
    Publish(Publication),
    /// Save a change, so that it survives a restart.
    Save(Change),
    /// Report an event.
    Report(FleetEvent),
}

/// Why a runtime has disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It said so itself, or the broker sent its last will.
    Deleted,
    /// Its manager has disconnected.
    Manager,
    /// It has sent no keepalive for three intervals.
    Silent,
    /// The operator has deleted or rejected its key.
    Refused,
}

/// Why a module is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Its runtime has disconnected.
    Runtime(Gone),
    /// Two keepalives of its runtime did not name it.
    Missing,
}

/// Something that happened. Records are as of after the event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FleetEvent {
    /// A runtime has connected: registered, returned, or was found by its keepalive.
    Arrived(Box<KeptRuntime>),
    /// A connected runtime has changed facts about itself.
    Changed(Box<KeptRuntime>),
    /// A runtime waits for the operator.
    Waiting(Box<KeptRuntime>),
    /// A runtime's keepalive is late (1.5 intervals).
    Late(Uuid),
    /// A runtime has sent its keepalive.
    Alive(Uuid),
    /// A runtime has disconnected.
    Left(Box<KeptRuntime>, Gone),
    /// A module waits for a free place.
    Queued(Box<KeptModule>),
    /// A module was sent to its runtime.
    Sent(Box<KeptModule>),
    /// Its runtime confirmed that it runs: by an answer, or by the first keepalive that lists it.
    Started(Box<KeptModule>),
    /// Its runtime refused it, with the reason. It is dead unless it was moved to another.
    Refused(Box<KeptModule>, String),
    /// A module was told to end.
    Stopping(Box<KeptModule>),
    /// A module has ended.
    Ended(Box<KeptModule>, ModuleExit),
    /// A module is lost. Its state tells what happens to it: killed (comes back), queued or alive (moved), dead.
    Lost(Box<KeptModule>, Lost),
    /// A module was moved; the uuid is that of its previous runtime.
    Moved(Box<KeptModule>, Uuid),
    /// A runtime runs a module that was not requested here.
    Foreign(Box<KeptModule>),
    /// A module wrote output.
    Output(Uuid, Stream, bytes::Bytes),
    /// A message could not be processed.
    Fault(Fault),
}

/// Counters; the names are those of metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    /// Messages parsed.
    pub messages: u64,
    /// Messages that could not be processed.
    pub faults: u64,
    /// Those of them that were not reported, because there were too many.
    pub muted: u64,
    /// Messages that concern nobody here, or were repeated.
    pub ignored: u64,
    /// Keepalives.
    pub keepalives: u64,
    /// Modules sent to runtimes.
    pub sent: u64,
    /// Modules that ended.
    pub ended: u64,
    /// Modules that were lost.
    pub lost: u64,
    /// Modules that were moved.
    pub moved: u64,
}

/// The fleet.
pub(super) struct Fleet {
    rules: Rules,
    stats: Stats,
    /// Whether the broker is connected.
    up: bool,
    ids: OwnIds,
    bucket: Bucket,
    /// Managers, each with the time since when it is connected or disconnected.
    managers: HashMap<Uuid, (Manager, Instant)>,
    runtimes: Runtimes,
    modules: Modules,
    waiting_room: WaitingRoom,
    /// Modules by the `object_id` of the request that their runtimes may answer.
    asks: HashMap<String, Uuid>,
    /// Strays: modules that a runtime was told to end because they belong elsewhere, or must start there anew.
    strays: HashMap<Uuid, (Uuid, Instant)>,
    next_index: u64,
}

impl Fleet {
    /// Restores the saved fleet. Runtimes that were connected have three intervals to send a keepalive.
    pub fn new(rules: Rules, kept: Snapshot, now: Clock) -> Fleet {
        let mut fleet = Fleet {
            rules,
            stats: Stats::default(),
            up: false,
            ids: OwnIds::new(&halite_crypto::random_uuid()),
            bucket: Bucket::new(now),
            managers: HashMap::new(),
            runtimes: Runtimes::default(),
            modules: Modules::default(),
            waiting_room: WaitingRoom::default(),
            asks: HashMap::new(),
            strays: HashMap::new(),
            next_index: kept.next_index,
        };
        for manager in kept.managers {
            fleet
                .managers
                .insert(manager.uuid.clone(), (manager, now.at));
        }
        for runtime in kept.runtimes {
            fleet.runtimes.put(runtime, now);
        }
        for module in kept.modules {
            fleet.next_index = fleet.next_index.max(module.module.index.saturating_add(1));
            let uuid = module.module.uuid.clone();
            fleet.modules.insert(module, now);
            // It has already been reported as started.
            fleet.modules.touch(&uuid, |entry| entry.started = true);
        }
        fleet
    }

    /// Handles an incoming message.
    pub fn handle_message(
        &mut self,
        message: &Incoming,
        admission: &mut dyn Admission,
        now: Clock,
    ) -> Vec<Act> {
        self.stats.messages += 1;
        let mut out = Out::default();
        self.receive(message, admission, now, &mut out);
        out.done()
    }

    /// The broker is connected, or no longer. While it is not, no runtime is late; afterwards each has three intervals
    /// again.
    pub fn connected(&mut self, up: bool, now: Clock) -> Vec<Act> {
        let mut out = Out::default();
        if up && !self.up {
            self.runtimes.restart_wait(now);
            self.repair(now, &mut out);
        }
        self.up = up;
        out.done()
    }

    /// A message can never be sent, with the reason. If it requested a module, that module is dead.
    pub fn unsendable(&mut self, payload: &[u8], why: &str, now: Clock) -> Vec<Act> {
        let mut out = Out::default();
        let message = Message::parse(payload).ok();
        let create = message.filter(|message| matches!(message.body, Body::Create(_)));
        let uuid = create.and_then(|message| self.asks.get(&message.object_id).cloned());
        if let Some(uuid) = uuid {
            self.fail(&uuid, why, now, &mut out);
        }
        out.done()
    }

    /// Incoming messages were lost, so silence until now means nothing.
    pub fn messages_lost(&mut self, now: Clock) {
        self.runtimes.restart_wait(now);
        self.modules.reset_missed();
    }

    /// Handles everything due by the clock: silence, queues, records to forget.
    pub fn tick(&mut self, admission: &mut dyn Admission, now: Clock) -> Vec<Act> {
        let mut out = Out::default();
        self.handle_timeouts(admission, now, &mut out);
        out.done()
    }

    /// The operator has decided about a key. A runtime that waits under this id is admitted and its registration
    /// confirmed; an admitted one may be disconnected.
    pub fn key_decided(&mut self, id: &str, admission: &mut dyn Admission, now: Clock) -> Vec<Act> {
        let mut out = Out::default();
        self.apply_decision(id, admission, now, &mut out);
        out.done()
    }

    /// Creates a module for a job of the master: its record, placed or queued.
    ///
    /// # Errors
    /// What is wrong with the request; nothing was changed.
    pub fn create(
        &mut self,
        request: ModuleRequest,
        now: Clock,
    ) -> Result<(KeptModule, Vec<Act>), Fault> {
        let mut out = Out::default();
        let uuid = self.place(request, now, &mut out)?;
        let entry = self.modules.get(&uuid);
        let entry = entry.ok_or_else(|| Fault::new(Trouble::UnknownModule, uuid.as_str()))?;
        Ok((entry.kept.clone(), out.done()))
    }

    /// Ends a module for a job of the master: by uuid or unique name, on `runtime` if one is given.
    ///
    /// # Errors
    /// There is no such module, or there are several.
    pub fn delete(
        &mut self,
        module: &str,
        runtime: Option<&Uuid>,
        now: Clock,
    ) -> Result<(KeptModule, Vec<Act>), Fault> {
        let mut out = Out::default();
        let uuid = self.module_for(module, runtime)?;
        let kept = self.stop(&uuid, now, &mut out);
        let kept = kept.ok_or_else(|| Fault::new(Trouble::UnknownModule, module))?;
        Ok((*kept, out.done()))
    }

    /// The runtime with this minion id.
    pub fn by_id(&self, id: &str) -> Option<&KeptRuntime> {
        self.runtimes.by_id(id).map(|entry| &entry.kept)
    }

    /// A runtime.
    pub fn runtime(&self, uuid: &Uuid) -> Option<&KeptRuntime> {
        self.runtimes.get(uuid).map(|entry| &entry.kept)
    }

    /// The runtime that a module is placed on.
    pub fn place_of(&self, kept: &KeptModule) -> Option<&KeptRuntime> {
        self.runtime(kept.module.runtime.as_ref()?)
    }

    /// A module.
    pub fn module(&self, uuid: &Uuid) -> Option<&KeptModule> {
        self.modules.get(uuid).map(|entry| &entry.kept)
    }

    /// Of the modules of a runtime with this name, the one that ended last.
    pub fn last_ended(&self, runtime: &Uuid, name: &str) -> Option<&KeptModule> {
        let entry = self.modules.last_ended(runtime, name);
        entry.map(|entry| &entry.kept)
    }

    /// Modules of a runtime that have not ended, oldest first.
    pub fn modules_of(&self, runtime: &Uuid) -> Vec<&KeptModule> {
        let uuids = self.modules.of(runtime);
        let pieces = uuids.iter().filter_map(|uuid| self.modules.get(uuid));
        pieces.map(|entry| &entry.kept).collect()
    }

    /// All runtimes, in the order of their uuids.
    #[cfg(test)]
    pub fn runtimes(&self) -> Vec<&KeptRuntime> {
        let mut all: Vec<_> = self.runtimes.iter().map(|entry| &entry.kept).collect();
        all.sort_by(|a, b| a.runtime.uuid.cmp(&b.runtime.uuid));
        all
    }

    /// The resources used by a module, as of the last keepalive of its runtime.
    pub fn usage(&self, uuid: &Uuid) -> Option<&Child> {
        self.modules.get(uuid)?.usage.as_ref()
    }

    /// The connected runtimes.
    pub fn alive(&self) -> Vec<&KeptRuntime> {
        let alive = self.runtimes.iter().filter(|entry| entry.alive());
        alive.map(|entry| &entry.kept).collect()
    }

    /// Counters for metrics: [`Stats`], and how many runtimes and modules are in each state.
    pub fn counters(&self) -> Map {
        let stats = self.stats;
        let (runtimes, alive) = self.runtimes.counts();
        let mut states = [0u64; 5];
        for entry in self.modules.iter() {
            let state = match entry.kept.module.state {
                State::Alive => 0,
                State::Exiting => 1,
                State::Killed => 2,
                State::Queued => 3,
                State::Dead => 4,
            };
            if let Some(count) = states.get_mut(state) {
                *count += 1;
            }
        }
        let [running, exiting, killed, queued, dead] = states;
        halite_wire::map! {
            "messages" => stats.messages,
            "faults" => stats.faults,
            "muted" => stats.muted,
            "ignored" => stats.ignored,
            "keepalives" => stats.keepalives,
            "sent" => stats.sent,
            "ended" => stats.ended,
            "lost" => stats.lost,
            "moved" => stats.moved,
            "managers" => self.managers.len() as u64,
            "runtimes_alive" => alive as u64,
            "runtimes_dead" => (runtimes - alive) as u64,
            "runtimes_waiting" => self.waiting_room.len() as u64,
            "modules_alive" => running,
            "modules_exiting" => exiting,
            "modules_killed" => killed,
            "modules_queued" => queued,
            "modules_dead" => dead,
        }
    }
}

#[cfg(test)]
mod tests;
