//! The orchestrator: managers, runtimes and modules, and what happens with them. Decides without IO: messages come in with the
//! time, what is to be done goes out as acts.
//!
//! Who may be a runtime is asked for through [`Admission`]. What happened is told as [`FleetEvent`]s, from which the gateway makes
//! events, grains, presence and returns of jobs.

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
    /// `ka_interval_sec` that runtimes are told; 0 is none, and then none is missed.
    pub keepalive: Duration,
    /// What becomes of modules whose request does not say it.
    pub policy: Policy,
    /// Managers that are known at most.
    pub max_managers: usize,
    /// Runtimes that are known at most.
    pub max_runtimes: usize,
    /// Runtimes that wait for the operator, at most.
    pub max_waiting: usize,
    /// Modules that have not ended, at most.
    pub max_modules: usize,
    /// Bytes that records of modules take at most, those that have ended included.
    pub max_octets: usize,
    /// How long the record of a module that has ended is kept, and that of a runtime that is gone with nothing to come back for.
    pub forget_after: Duration,
}

/// Whether a runtime may take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// It may: its minion id.
    Yes(String),
    /// The operator has not decided yet: its minion id.
    Waiting(String),
    /// It may not: why.
    No(String),
    /// That cannot be told now: why. Who is in stays, who is not is not let in.
    Unclear(String),
}

/// Who may be a runtime.
pub(super) trait Admission: Send {
    /// Whether this runtime, with this name, may take part. Registers it if nobody knows it.
    fn admit(&mut self, uuid: &Uuid, name: &str) -> Admitted;
}

/// Something to be done, in the order in which it was decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// Publish a message.
    Publish(Publication),
    /// Keep a change over restarts.
    Keep(Change),
    /// Tell whom it concerns.
    Tell(FleetEvent),
}

/// Why a runtime is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It said so itself, or the broker did for it (its last will).
    Deleted,
    /// Its manager is gone.
    Manager,
    /// It has sent no keepalive for three intervals.
    Silent,
    /// The operator has deleted or rejected its key.
    Refused,
}

/// Why a module is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Its runtime is gone.
    Runtime(Gone),
    /// Two keepalives of its runtime did not name it.
    Missing,
}

/// Something that happened. Records are those after it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FleetEvent {
    /// A runtime is there that was not: registered, returned, or found again by its keepalive.
    Arrived(Box<KeptRuntime>),
    /// A runtime that is there told other facts of itself.
    Changed(Box<KeptRuntime>),
    /// A runtime waits for the operator.
    Waiting(Box<KeptRuntime>),
    /// A runtime's keepalive is late (1.5 intervals).
    Late(Uuid),
    /// A runtime has sent its keepalive.
    Alive(Uuid),
    /// A runtime is gone.
    Left(Box<KeptRuntime>, Gone),
    /// A module waits for a free place.
    Queued(Box<KeptModule>),
    /// A module was sent to its runtime.
    Sent(Box<KeptModule>),
    /// Its runtime says that it runs: an answer, or a keepalive that names it for the first time.
    Started(Box<KeptModule>),
    /// Its runtime does not take it: why. It is dead, unless it was moved on.
    Refused(Box<KeptModule>, String),
    /// A module was told to end.
    Stopping(Box<KeptModule>),
    /// A module has ended.
    Ended(Box<KeptModule>, ModuleExit),
    /// A module is lost. What becomes of it says its state: killed (comes back), queued or alive (moved), dead.
    Lost(Box<KeptModule>, Lost),
    /// A module is on another runtime than before, which was this.
    Moved(Box<KeptModule>, Uuid),
    /// A runtime runs a module that nobody asked for here.
    Foreign(Box<KeptModule>),
    /// A module wrote something.
    Output(Uuid, Stream, bytes::Bytes),
    /// A message could not be followed.
    Fault(Fault),
}

/// What is counted; names are those of metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    /// Messages that were read.
    pub messages: u64,
    /// Messages that could not be followed.
    pub faults: u64,
    /// Those of them that nobody was told of, since there were too many.
    pub muted: u64,
    /// Messages that concern nobody here, or that came twice.
    pub ignored: u64,
    /// Keepalives.
    pub keepalives: u64,
    /// Modules that were sent to runtimes.
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
    /// Managers, and since when each is there or gone.
    managers: HashMap<Uuid, (Manager, Instant)>,
    runtimes: Runtimes,
    modules: Modules,
    waiting_room: WaitingRoom,
    /// Modules by the `object_id` that their runtimes may answer.
    asks: HashMap<String, Uuid>,
    /// Modules that a runtime was told to end although they are to run elsewhere, or are to run there again.
    strays: HashMap<Uuid, (Uuid, Instant)>,
    next_index: u64,
}

impl Fleet {
    /// The fleet as it was kept. Runtimes that were there have three intervals to be heard.
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
            // That it runs was told before.
            fleet.modules.touch(&uuid, |piece| piece.started = true);
        }
        fleet
    }

    /// A message came in.
    pub fn hear(
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

    /// The broker is connected, or no longer. Nobody is late while it is not, and then all have three intervals again.
    pub fn connected(&mut self, up: bool, now: Clock) -> Vec<Act> {
        let mut out = Out::default();
        if up && !self.up {
            self.runtimes.excuse(now);
            self.mend(now, &mut out);
        }
        self.up = up;
        out.done()
    }

    /// A message can never be sent: why. A module that was asked for with it is dead.
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

    /// Messages were lost on their way here: silence since then means nothing.
    pub fn deaf(&mut self, now: Clock) {
        self.runtimes.excuse(now);
        self.modules.excuse();
    }

    /// Time has passed: silence, queues, what is to be forgotten.
    pub fn tick(&mut self, admission: &mut dyn Admission, now: Clock) -> Vec<Act> {
        let mut out = Out::default();
        self.pass(admission, now, &mut out);
        out.done()
    }

    /// The operator has decided about a key: whoever waited with this id is let in and gets its confirmation, whoever was let in is gone.
    pub fn decided(&mut self, id: &str, admission: &mut dyn Admission, now: Clock) -> Vec<Act> {
        let mut out = Out::default();
        self.judge(id, admission, now, &mut out);
        out.done()
    }

    /// Somebody at the master asks for a module: its record, placed or queued.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed.
    pub fn create(
        &mut self,
        request: ModuleRequest,
        now: Clock,
    ) -> Result<(KeptModule, Vec<Act>), Fault> {
        let mut out = Out::default();
        let uuid = self.place(request, now, &mut out)?;
        let piece = self.modules.get(&uuid);
        let piece = piece.ok_or_else(|| Fault::new(Trouble::UnknownModule, uuid.as_str()))?;
        Ok((piece.kept.clone(), out.done()))
    }

    /// Somebody at the master wants a module to end: by uuid or unique name, of this runtime if one is given.
    ///
    /// # Errors
    /// There is none, or several.
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
        self.runtimes.by_id(id).map(|unit| &unit.kept)
    }

    /// A runtime.
    pub fn runtime(&self, uuid: &Uuid) -> Option<&KeptRuntime> {
        self.runtimes.get(uuid).map(|unit| &unit.kept)
    }

    /// The runtime that a module is on.
    pub fn place_of(&self, kept: &KeptModule) -> Option<&KeptRuntime> {
        self.runtime(kept.module.runtime.as_ref()?)
    }

    /// A module.
    pub fn module(&self, uuid: &Uuid) -> Option<&KeptModule> {
        self.modules.get(uuid).map(|piece| &piece.kept)
    }

    /// Of the modules of a runtime with this name, the one that ended last.
    pub fn last_ended(&self, runtime: &Uuid, name: &str) -> Option<&KeptModule> {
        let piece = self.modules.last_ended(runtime, name);
        piece.map(|piece| &piece.kept)
    }

    /// Modules of a runtime that have not ended, oldest first.
    pub fn modules_of(&self, runtime: &Uuid) -> Vec<&KeptModule> {
        let uuids = self.modules.of(runtime);
        let pieces = uuids.iter().filter_map(|uuid| self.modules.get(uuid));
        pieces.map(|piece| &piece.kept).collect()
    }

    /// All runtimes, in the order of their uuids.
    #[cfg(test)]
    pub fn runtimes(&self) -> Vec<&KeptRuntime> {
        let mut all: Vec<_> = self.runtimes.iter().map(|unit| &unit.kept).collect();
        all.sort_by(|a, b| a.runtime.uuid.cmp(&b.runtime.uuid));
        all
    }

    /// What a module uses, as the last keepalive of its runtime told.
    pub fn usage(&self, uuid: &Uuid) -> Option<&Child> {
        self.modules.get(uuid)?.usage.as_ref()
    }

    /// Runtimes that are there.
    pub fn alive(&self) -> Vec<&KeptRuntime> {
        let alive = self.runtimes.iter().filter(|unit| unit.alive());
        alive.map(|unit| &unit.kept).collect()
    }

    /// What metrics tell: [`Stats`], and how many runtimes and modules there are in each state.
    pub fn counters(&self) -> Map {
        let stats = self.stats;
        let (runtimes, alive) = self.runtimes.counts();
        let mut states = [0u64; 5];
        for piece in self.modules.iter() {
            let state = match piece.kept.module.state {
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
