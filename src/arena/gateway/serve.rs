//! The loop that decides everything: it hears the broker, the bus and the clock, asks the fleet and the jobs, and does what they
//! say.

use super::admission::Door;
use super::events;
use super::fleet::{Act, Fleet, FleetEvent};
use super::grains::grains;
use super::jobs::{Desk, Jobs, Step, described_fault};
use super::keeper;
use super::output::Output;
use crate::mqtt::{Heard, Mqtt, Publication, Unsent};
use crate::registry::{Change, KeptRuntime};
use crate::wire::Fault;
use crossbeam_channel::{Receiver, Sender, select};
use halite_gateway::clock::Clock;
use halite_gateway::news::News;
use halite_gateway::writer::{Task, Telling, give};
use halite_master::roles::{RoleError, exit_if_oversized};
use halite_master::score::Score;
use halite_sys::signals::StopFlag;
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// How often the clock is looked at.
const TURN: Duration = Duration::from_millis(100);
/// How often what modules wrote becomes events.
const BATCHES: Duration = Duration::from_millis(250);
/// How often output of modules that are forgotten is thrown away.
const PRUNE: Duration = Duration::from_secs(10);
/// How often keys are looked at of which nothing was heard.
const RECHECK: Duration = Duration::from_secs(60);
/// Messages that are taken before something else gets its turn.
const BATCH: usize = 256;
/// How long the last messages may take at the end.
const GOODBYE: Duration = Duration::from_secs(2);

/// What the loop is connected to.
pub(super) struct Links {
    /// The broker.
    pub mqtt: Mqtt,
    /// What it tells.
    pub heard: Receiver<Heard>,
    /// What the bus tells.
    pub news: Receiver<News>,
    /// Who writes.
    pub clerk: Sender<Task>,
    /// Who keeps the fleet.
    pub keeper: Sender<Change>,
}

/// What decides.
pub(super) struct Parts {
    /// Runtimes and modules.
    pub fleet: Fleet,
    /// Who may be a runtime.
    pub door: Door,
    /// What the master asks.
    pub jobs: Jobs,
    /// What modules write.
    pub output: Output,
    /// The realm, as grains tell it.
    pub realm: String,
}

/// The gateway at work.
pub(super) struct Server {
    links: Links,
    parts: Parts,
    up: bool,
    telling: Telling,
    looked: Instant,
    batched: Instant,
    pruned: Instant,
    rechecked: Instant,
    faults: u64,
    unsent: u64,
    /// Messages that the broker had and that found no room here, when that was looked at last.
    dropped: u64,
}

impl Server {
    /// The gateway; nothing is subscribed yet.
    pub fn new(links: Links, parts: Parts) -> Server {
        let now = Instant::now();
        Server {
            links,
            parts,
            up: false,
            telling: Telling::default(),
            looked: now,
            batched: now,
            pruned: now,
            rechecked: now,
            faults: 0,
            unsent: 0,
            dropped: 0,
        }
    }

    /// Serves until the role is told to stop, or another thread has ended.
    ///
    /// # Errors
    /// A thread has ended, or too much memory is used.
    pub fn run(mut self, stop: &StopFlag, alive: &dyn Fn() -> bool) -> Result<(), RoleError> {
        let mut score = Score::inherited(super::ROLE);
        let heard = self.links.heard.clone();
        let news = self.links.news.clone();
        self.recheck(Clock::now());
        while !stop.is_set() {
            select! {
                recv(heard) -> item => self.heard(item.map_err(|_| ended())?),
                recv(news) -> item => self.news(item.map_err(|_| ended())?),
                default(TURN) => {}
            }
            for _ in 0..BATCH {
                let Ok(item) = heard.try_recv() else { break };
                self.heard(item);
            }
            self.tick()?;
            score.tick(|| self.counters());
            if !(stop.is_set() || alive()) {
                return Err(ended());
            }
        }
        // The list must not outlive the gateway.
        give(&self.links.clerk, Task::Connected(Default::default()));
        self.links.mqtt.close(GOODBYE);
        Ok(())
    }

    fn counters(&self) -> Map {
        let mut out = self.parts.fleet.counters();
        let own = halite_wire::map! {
            "up" => i64::from(self.up), "unsent" => self.unsent, "dropped" => self.links.mqtt.dropped(),
            "refused" => self.links.mqtt.refused(),
            "jobs" => self.parts.jobs.count(), "full" => self.parts.door.full,
            "lines_dropped" => self.parts.output.dropped,
        };
        out.0.extend(own.0);
        out
    }

    fn heard(&mut self, heard: Heard) {
        let now = Clock::now();
        let acts = match heard {
            Heard::Message(message) => self.parts.fleet.hear(&message, &mut self.parts.door, now),
            Heard::Up(server) => {
                log::info!("runtimes of ARENA are reached through {server}");
                self.up = true;
                self.telling.changed = true;
                self.parts.fleet.connected(true, now)
            }
            Heard::Down(why) => {
                log::warn!("the broker of ARENA cannot be reached: {why}; trying again");
                self.up = false;
                self.telling.changed = true;
                self.parts.fleet.connected(false, now)
            }
            Heard::Denied(filter, why) => {
                log::error!(
                    "the broker of ARENA does not let {filter:?} be heard: {why}; allow this master to read it"
                );
                Vec::new()
            }
        };
        self.perform(acts);
    }

    fn news(&mut self, news: News) {
        let now = Clock::now();
        match news {
            News::Job(order) => {
                let mut desk = Desk {
                    fleet: &mut self.parts.fleet,
                    output: &self.parts.output,
                    up: self.up,
                    now,
                };
                let steps = self.parts.jobs.order(&order, &mut desk);
                self.follow(steps);
            }
            News::Key { id, .. } => self.judge(&id, now),
        }
    }

    /// The key of an id has changed, or is gone.
    fn judge(&mut self, id: &str, now: Clock) {
        if let Ok(id) = id.parse::<MinionId>() {
            self.parts.door.forget(&id);
        }
        let acts = self.parts.fleet.decided(id, &mut self.parts.door, now);
        self.parts.door.unbar();
        self.perform(acts);
    }

    /// Keys can change while nobody hears of it: without a gateway, or in the directory itself.
    fn recheck(&mut self, now: Clock) {
        let mut out = Vec::new();
        for kept in self.parts.fleet.alive() {
            if !self.parts.door.keeps(&kept.runtime.uuid, &kept.id) {
                out.push(kept.id.clone());
            }
        }
        for id in out {
            self.judge(&id, now);
        }
    }

    fn tick(&mut self) -> Result<(), RoleError> {
        let now = Clock::now();
        if !now.is_past(self.looked, TURN) {
            return Ok(());
        }
        self.looked = now.at;
        let dropped = self.links.mqtt.dropped();
        if dropped != self.dropped {
            self.dropped = dropped;
            self.parts.fleet.deaf(now);
        }
        let acts = self.parts.fleet.tick(&mut self.parts.door, now);
        self.perform(acts);
        let steps = self.parts.jobs.tick(&self.parts.fleet, now);
        self.follow(steps);
        if now.is_past(self.batched, BATCHES) {
            self.batched = now.at;
            self.written(now);
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
        self.tell(now)
    }

    /// Says who is connected, for `manage.*` and presence events.
    fn tell(&mut self, now: Clock) -> Result<(), RoleError> {
        if !self.telling.is_due(now.at) {
            return Ok(());
        }
        // Where a runtime is nobody knows: the broker is between.
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let alive = if self.up {
            self.parts.fleet.alive()
        } else {
            Vec::new()
        };
        let alive = alive.into_iter();
        let who = alive.filter_map(|kept| Some((kept.id.parse().ok()?, unknown)));
        give(&self.links.clerk, Task::Connected(who.collect()));
        exit_if_oversized()
    }

    /// Does what jobs ask for.
    fn follow(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Act(act) => self.perform(vec![act]),
                Step::Input(input) => {
                    let mut input = *input;
                    let publications = std::mem::take(&mut input.publications);
                    let sent = publications.into_iter().try_for_each(|one| self.send(one));
                    let step = input.returned(sent.err().map(|e| format!("{e:?}")));
                    self.follow(vec![step]);
                }
                Step::Return(id, jid, load) => {
                    give(&self.links.clerk, Task::Return(id, jid, load));
                }
                Step::Grains(id, grains) => give(&self.links.clerk, Task::Grains(id, grains)),
            }
        }
    }

    /// Does what the fleet has decided. What jobs make of it follows after it.
    fn perform(&mut self, acts: Vec<Act>) {
        let mut acts = VecDeque::from(acts);
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Publish(publication) => acts.extend(self.publish(publication)),
                Act::Keep(change) => keeper::give(&self.links.keeper, change),
                Act::Tell(happening) => {
                    for step in self.happened(happening) {
                        match step {
                            Step::Act(act) => acts.push_back(act),
                            other => self.follow(vec![other]),
                        }
                    }
                }
            }
        }
    }

    /// Publishes a message: what follows if it never can be. Where only too much waits already, keepalives tell later what is missing.
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
                    "a message for {topic:.80?} is not sent: {e:?}; {} so far",
                    self.unsent
                );
            }
        }
        sent
    }

    /// Something has happened: events, grains, presence, and what jobs make of it.
    fn happened(&mut self, happening: FleetEvent) -> Vec<Step> {
        let now = Instant::now();
        let id = |kept: &KeptRuntime| kept.id.parse::<MinionId>().ok();
        match &happening {
            FleetEvent::Arrived(kept) => {
                self.telling.changed = true;
                self.keep(kept);
                log::info!("the runtime {} of ARENA is here", kept.id);
                for (tag, data) in id(kept).iter().flat_map(events::came) {
                    self.fire(tag, data);
                }
            }
            FleetEvent::Changed(kept) => {
                self.telling.changed = true;
                self.keep(kept);
            }
            FleetEvent::Left(kept, why) => {
                self.telling.changed = true;
                log::info!(
                    "the runtime {} of ARENA is gone: {}",
                    kept.id,
                    super::jobs::gone_words(*why)
                );
            }
            FleetEvent::Sent(kept) => self.parts.output.sent(&kept.module.uuid),
            FleetEvent::Ended(kept, _) | FleetEvent::Lost(kept, _) => {
                self.parts.output.ended(&kept.module.uuid, now);
            }
            FleetEvent::Output(uuid, stream, octets) => {
                self.parts.output.heard(uuid, *stream, octets, now);
            }
            FleetEvent::Fault(fault) => self.fault(fault),
            _ => {}
        }
        if let FleetEvent::Ended(..) | FleetEvent::Lost(..) = &happening {
            // What it wrote comes before its end.
            self.written(Clock::now());
        }
        if let Some((tag, data)) = events::of(&happening, &self.parts.fleet) {
            self.fire(tag, data);
        }
        self.parts.jobs.happened(&happening, &self.parts.fleet)
    }

    /// What modules wrote becomes events.
    fn written(&mut self, now: Clock) {
        for batch in self.parts.output.take(now.at) {
            if let Some(kept) = self.parts.fleet.module(&batch.uuid) {
                let (tag, data) = events::output(batch, kept, &self.parts.fleet);
                self.fire(tag, data);
            }
        }
    }

    fn keep(&self, kept: &KeptRuntime) {
        if let Ok(id) = kept.id.parse() {
            let grains = grains(kept, &self.parts.realm);
            give(&self.links.clerk, Task::Grains(id, grains));
        }
    }

    fn fire(&self, tag: String, data: Map) {
        give(&self.links.clerk, Task::Fire(tag, data));
    }

    fn fault(&mut self, fault: &Fault) {
        self.faults += 1;
        let text = described_fault(fault);
        // A flood is told a few times, not a million.
        if self.faults.is_power_of_two() {
            log::warn!(
                "a message in the realm {} cannot be followed: {text:.200}; {} so far",
                self.parts.realm,
                self.faults
            );
        } else {
            log::debug!("a message cannot be followed: {text:.200}");
        }
    }
}

fn ended() -> RoleError {
    RoleError::new(1, "a thread of the gateway has ended")
}
