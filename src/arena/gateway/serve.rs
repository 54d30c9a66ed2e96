//! Runs the gateway in its loop: passes messages from the broker, jobs and the time to the fleet and the jobs, and
//! carries out what they decide.

use super::admission::KeyAdmission;
use super::events;
use super::fleet::{Act, Fleet, FleetEvent};
use super::grains::grains;
use super::jobs::{JobContext, JobStep, Jobs, describe_fault};
use super::keeper;
use super::output::Output;
use crate::mqtt::{Mqtt, MqttEvent, Publication, Unsent};
use crate::registry::{Change, KeptRuntime};
use crate::wire::Fault;
use crossbeam_channel::{Receiver, Select, Sender, TryRecvError};
use halite_gateway::clock::Clock;
use halite_gateway::frame::{BATCH, Protocol, thread_ended};
use halite_gateway::master_events::{MasterEvent, MasterEvents};
use halite_gateway::writer::{Task, WriteQueue};
use halite_sys::excerpt::excerpt;
use halite_sys::exit::ExitError;
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Time between two output events of the same module.
const OUTPUT: Duration = Duration::from_millis(250);
/// How often output of forgotten modules is dropped.
const PRUNE: Duration = Duration::from_secs(10);
/// How often all keys are checked for changes made without an event.
const RECHECK: Duration = Duration::from_secs(60);
/// How long sending the last messages may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// The connections of the loop.
pub(super) struct Links<'scope> {
    /// The connection to the broker.
    pub mqtt: Mqtt,
    /// Messages from the broker.
    pub heard: Receiver<MqttEvent>,
    /// Returns, grains and events to write.
    pub writer: WriteQueue,
    /// Changes of the fleet to save.
    pub keeper: Sender<Change>,
    /// The thread that saves them.
    pub keeping: ScopedJoinHandle<'scope, ()>,
}

/// The parts that make decisions.
pub(super) struct Parts {
    /// Runtimes and modules.
    pub fleet: Fleet,
    /// Admission of runtimes.
    pub admission: KeyAdmission,
    /// Jobs of the master.
    pub jobs: Jobs,
    /// Output of modules.
    pub output: Output,
    /// The realm, for grains.
    pub realm: String,
}

/// The running gateway.
pub(super) struct Server<'scope> {
    links: Links<'scope>,
    parts: Parts,
    up: bool,
    presence_changed: bool,
    wrote_output: Instant,
    pruned: Instant,
    rechecked: Instant,
    faults: u64,
    unsent: u64,
    /// Messages from the broker dropped because the queue was full, as of the last tick.
    dropped: u64,
}

impl Protocol for Server<'_> {
    fn wait(&mut self, events: &MasterEvents, limit: Duration) -> Result<(), ExitError> {
        let mut select = Select::new();
        select.recv(&self.links.heard);
        select.recv(events.receiver());
        // The only possible error is a timeout.
        let _ = select.ready_timeout(limit);
        Ok(())
    }

    fn receive(&mut self) -> Result<bool, ExitError> {
        for _ in 0..BATCH {
            match self.links.heard.try_recv() {
                Ok(item) => self.handle_mqtt(item),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(thread_ended()),
            }
        }
        Ok(false)
    }

    fn master_event(&mut self, event: MasterEvent, now: Clock) {
        match event {
            MasterEvent::Job(order) => {
                let mut desk = JobContext {
                    fleet: &mut self.parts.fleet,
                    output: &self.parts.output,
                    up: self.up,
                    now,
                };
                let steps = self.parts.jobs.run_job(&order, &mut desk);
                self.run_steps(steps);
            }
            MasterEvent::Key { id, .. } => self.key_changed(&id, now),
        }
    }

    fn tick(&mut self, now: Clock) {
        let dropped = self.links.mqtt.dropped();
        if dropped != self.dropped {
            self.dropped = dropped;
            self.parts.fleet.messages_lost(now);
        }
        let acts = self.parts.fleet.tick(&mut self.parts.admission, now);
        self.perform(acts);
        let steps = self.parts.jobs.tick(&self.parts.fleet, now);
        self.run_steps(steps);
        if now.is_past(self.wrote_output, OUTPUT) {
            self.wrote_output = now.at;
            self.write_output(now);
        }
        if now.is_past(self.pruned, PRUNE) {
            self.pruned = now.at;
            let fleet = &self.parts.fleet;
            self.parts.output.prune(|uuid| fleet.module(uuid).is_some());
        }
        if now.is_past(self.rechecked, RECHECK) {
            self.rechecked = now.at;
            self.recheck(now);
        }
    }

    fn counters(&self) -> Map {
        let mut out = self.parts.fleet.counters();
        let own = halite_wire::map! {
            "up" => i64::from(self.up), "unsent" => self.unsent, "dropped" => self.links.mqtt.dropped(),
            "refused" => self.links.mqtt.refused(),
            "jobs" => self.parts.jobs.count(), "full" => self.parts.admission.full,
            "lines_dropped" => self.parts.output.dropped,
        };
        out.0.extend(own.0);
        out
    }

    fn presence_changed(&mut self) -> bool {
        std::mem::take(&mut self.presence_changed)
    }

    fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
        if !self.up {
            return BTreeMap::new();
        }
        // Runtimes connect through the broker, so their addresses are unknown.
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let alive = self.parts.fleet.alive().into_iter();
        alive
            .filter_map(|kept| Some((kept.id.parse().ok()?, unknown)))
            .collect()
    }

    fn alive(&self) -> bool {
        !self.links.keeping.is_finished()
    }

    fn close(self: Box<Self>) {
        self.links.mqtt.close(GOODBYE);
    }
}

impl<'scope> Server<'scope> {
    /// The gateway, without subscriptions yet.
    pub fn new(links: Links<'scope>, parts: Parts) -> Server<'scope> {
        let now = Clock::now();
        let mut server = Server {
            links,
            parts,
            up: false,
            presence_changed: false,
            wrote_output: now.at,
            pruned: now.at,
            rechecked: now.at,
            faults: 0,
            unsent: 0,
            dropped: 0,
        };
        server.recheck(now);
        server
    }

    fn handle_mqtt(&mut self, heard: MqttEvent) {
        let now = Clock::now();
        let acts = match heard {
            MqttEvent::Message(message) => {
                self.parts
                    .fleet
                    .handle_message(&message, &mut self.parts.admission, now)
            }
            MqttEvent::Up(server) => {
                log::info!("connected to the broker of ARENA, {server}");
                self.up = true;
                self.presence_changed = true;
                self.parts.fleet.connected(true, now)
            }
            MqttEvent::Down(why) => {
                log::warn!("the broker of ARENA cannot be reached: {why}; trying again");
                self.up = false;
                self.presence_changed = true;
                self.parts.fleet.connected(false, now)
            }
            MqttEvent::Denied(filter, why) => {
                log::error!(
                    "the broker of ARENA refuses the subscription {filter:?}: {why}; allow this master to read it"
                );
                Vec::new()
            }
        };
        self.perform(acts);
    }

    /// Handles a key that was changed or deleted.
    fn key_changed(&mut self, id: &str, now: Clock) {
        let acts = self
            .parts
            .fleet
            .key_decided(id, &mut self.parts.admission, now);
        // Also if no runtime of the fleet has it.
        if let Ok(id) = id.parse::<MinionId>() {
            self.parts.admission.forget(&id);
        }
        self.perform(acts);
    }

    /// Checks all keys: they can change without an event, while no gateway runs or in the directory itself.
    fn recheck(&mut self, now: Clock) {
        let mut out = Vec::new();
        for kept in self.parts.fleet.alive() {
            if !self.parts.admission.may_stay(&kept.runtime.uuid, &kept.id) {
                out.push(kept.id.clone());
            }
        }
        for id in out {
            self.key_changed(&id, now);
        }
    }

    /// Carries out the steps of jobs.
    fn run_steps(&mut self, steps: Vec<JobStep>) {
        for step in steps {
            match step {
                JobStep::Act(act) => self.perform(vec![act]),
                JobStep::Input(input) => {
                    let mut input = *input;
                    let publications = std::mem::take(&mut input.publications);
                    let sent = publications.into_iter().try_for_each(|one| self.send(one));
                    let step = input.returned(sent.err().map(|e| format!("{e:?}")));
                    self.run_steps(vec![step]);
                }
                JobStep::Return(id, jid, load) => {
                    self.links.writer.push(Task::Return(id, jid, load));
                }
                JobStep::Grains(id, grains) => self.links.writer.push(Task::Grains(id, grains)),
            }
        }
    }

    /// Carries out what the fleet has decided, and what follows from it.
    fn perform(&mut self, acts: Vec<Act>) {
        let mut acts = VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Publish(publication) => acts.extend(self.publish(publication)),
                Act::Save(change) => keeper::enqueue(&self.links.keeper, change),
                Act::Report(event) => {
                    for step in self.happened(event) {
                        match step {
                            JobStep::Act(act) => acts.push_back(act),
                            other => self.run_steps(vec![other]),
                        }
                    }
                }
            }
        }
    }

    /// Publishes a message; returns what follows if it can never be sent. If only the queue is full, later keepalives
    /// show what is missing.
    fn publish(&mut self, publication: Publication) -> Vec<Act> {
        let payload = publication.payload.clone();
        match self.send(publication) {
            Err(e @ (Unsent::TooLarge(_) | Unsent::BadTopic)) => {
                let why = format!("its request cannot be sent: {e:?}");
                let now = Clock::now();
                self.parts.fleet.unsendable(&payload, &why, now)
            }
            Ok(()) | Err(Unsent::Full) => Vec::new(),
        }
    }

    fn send(&mut self, publication: Publication) -> Result<(), Unsent> {
        let topic = publication.topic.clone();
        let sent = self.links.mqtt.publish(publication);
        if let Err(e) = &sent {
            self.unsent += 1;
            if self.unsent.is_power_of_two() {
                log::warn!(
                    "a message for {} was not sent: {e:?}; {} so far",
                    excerpt(&topic, 80),
                    self.unsent
                );
            }
        }
        sent
    }

    /// Updates events, grains and presence; returns the steps that follow for jobs.
    fn happened(&mut self, event: FleetEvent) -> Vec<JobStep> {
        let now = Instant::now();
        let id = |kept: &KeptRuntime| kept.id.parse::<MinionId>().ok();
        match &event {
            FleetEvent::Arrived(kept) => {
                self.presence_changed = true;
                self.store_grains(kept);
                log::info!("the runtime {} of ARENA is connected", kept.id);
                for (tag, data) in id(kept).iter().flat_map(events::start_events) {
                    self.fire(tag, data);
                }
            }
            FleetEvent::Changed(kept) => {
                self.presence_changed = true;
                self.store_grains(kept);
            }
            FleetEvent::Left(kept, why) => {
                self.presence_changed = true;
                log::info!(
                    "the runtime {} of ARENA has disconnected: {}",
                    kept.id,
                    super::jobs::gone_reason(*why)
                );
            }
            FleetEvent::Sent(kept) => self.parts.output.sent(&kept.module.uuid),
            FleetEvent::Ended(kept, _) | FleetEvent::Lost(kept, _) => {
                self.parts.output.ended(&kept.module.uuid, now);
            }
            FleetEvent::Output(uuid, stream, bytes) => {
                self.parts.output.heard(uuid, *stream, bytes, now);
            }
            FleetEvent::Fault(fault) => self.fault(fault),
            _ => {}
        }
        if let FleetEvent::Ended(..) | FleetEvent::Lost(..) = &event {
            // Output of the module must come before its end.
            self.write_output(Clock::now());
        }
        if let Some((tag, data)) = events::from_fleet_event(&event, &self.parts.fleet) {
            self.fire(tag, data);
        }
        self.parts.jobs.happened(&event, &self.parts.fleet)
    }

    /// Fires output of modules as events.
    fn write_output(&mut self, now: Clock) {
        for batch in self.parts.output.take(now.at) {
            if let Some(kept) = self.parts.fleet.module(&batch.uuid) {
                let (tag, data) = events::output(batch, kept, &self.parts.fleet);
                self.fire(tag, data);
            }
        }
    }

    fn store_grains(&self, kept: &KeptRuntime) {
        if let Ok(id) = kept.id.parse() {
            let grains = grains(kept, &self.parts.realm);
            self.links.writer.push(Task::Grains(id, grains));
        }
    }

    fn fire(&self, tag: String, data: Map) {
        self.links.writer.push(Task::Fire(tag, data));
    }

    fn fault(&mut self, fault: &Fault) {
        self.faults += 1;
        let text = describe_fault(fault);
        // Log a flood a few times, not a million.
        if self.faults.is_power_of_two() {
            log::warn!(
                "a message in the realm {} cannot be processed: {text:.200}; {} so far",
                self.parts.realm,
                self.faults
            );
        } else {
            log::debug!("a message cannot be processed: {text:.200}");
        }
    }
}
