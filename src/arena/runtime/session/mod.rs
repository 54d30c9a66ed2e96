//! A runtime's side of the protocol with an orchestrator: registration, keepalives, creation and deletion of modules,
//! exits (seed 003; reference, section 4). Does no IO: messages, news of modules and the time are passed in, and it
//! returns acts to carry out.
//!
//! A session is one connection: of one runtime, or of a manager with several runtimes.

mod keepalive;
mod modules;
mod register;

#[cfg(test)]
mod tests;

use super::engine::{Figures, Limits, Spec};
use super::files::{Address, Sources};
use crate::mqtt::{Incoming, Publication, Qos};
use crate::wire::{Body, Dialect, Json, Message, Place, Topics, Uuid};
use modules::Module;
use register::Registration;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The manager, or a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registrant {
    /// Its id.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
}

/// A runtime offered by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The runtime.
    pub who: Registrant,
    /// How many modules it accepts; 0 is no limit.
    pub max_modules: u32,
    /// The apis that it offers.
    pub apis: Vec<String>,
    /// Resource limits of each module.
    pub limits: Limits,
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub(super) struct SessionConfig {
    /// The topics.
    pub topics: Topics,
    /// Whether an orchestrator answers registrations; with the topics of scenes it never does.
    pub confirmed: bool,
    /// The manager, if there are several runtimes.
    pub manager: Option<Registrant>,
    /// The runtimes.
    pub offers: Vec<Offer>,
    /// Interval between keepalives, if it overrides the orchestrator's.
    pub keepalive: Option<Duration>,
    /// `runtime_type`.
    pub kind: String,
    /// `platform`.
    pub platform: Json,
    /// `metadata`.
    pub metadata: Json,
    /// Where files of modules may come from.
    pub sources: Sources,
    /// Memory for all modules together, in bytes; 0 is no limit.
    pub memory: u64,
    /// How long modules may take to end when the program stops.
    pub patience: Duration,
}

/// A module to fetch and start.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    /// Distinguishes launches with the same uuid.
    pub serial: u64,
    /// The address of its file.
    pub address: Address,
    /// The module, without its code.
    pub spec: Spec,
}

/// Something to carry out, in the order in which it was decided.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Publish a message. It must not be lost.
    Publish(Publication),
    /// Subscribe to a filter before the next message is published.
    Subscribe(String),
    /// Fetch a module and start it, then call [`Session::launched`].
    Launch(Box<Launch>),
    /// Cancel a launch. If it has not started yet, [`Session::launched`] is called at once with an error.
    Cancel(Uuid, u64),
    /// End a module; [`Session::ended`] is called when it has.
    Stop(Uuid),
    /// Nothing is left to do: send what is queued, and exit.
    End,
}

/// A runtime and its state.
#[derive(Debug)]
struct Runtime {
    offer: Offer,
    registration: Registration,
    /// The words of the orchestrator that confirmed its registration last.
    dialect: Dialect,
    /// Whether that one hears registrations on the bare topic only (reference, T16).
    bare: bool,
    /// When the next keepalive is due.
    beat: Option<Instant>,
    /// Its interval between keepalives; zero turns them off.
    interval: Duration,
    /// Whether it is shutting down.
    leaving: bool,
}

/// The state of one connection to a broker.
pub(super) struct Session {
    config: SessionConfig,
    ids: Box<dyn FnMut() -> String + Send>,
    manager: Option<(Registrant, Registration)>,
    runtimes: Vec<Runtime>,
    modules: BTreeMap<Uuid, Module>,
    serial: u64,
    up: bool,
    /// When waiting for modules to end stops.
    ending: Option<Instant>,
    /// Whether everything shuts down, not only some runtimes.
    closing: bool,
    over: bool,
    faults: u64,
    /// Modules that were refused or could not be started.
    failures: u64,
}

impl Session {
    /// A session without a connection. `ids` returns unique ids for messages and modules.
    pub fn new(mut config: SessionConfig, ids: Box<dyn FnMut() -> String + Send>) -> Session {
        let offers = std::mem::take(&mut config.offers);
        let runtime = |offer| Runtime {
            offer,
            registration: Registration::Away,
            dialect: Dialect::Draft,
            bare: false,
            beat: None,
            interval: Duration::ZERO,
            leaving: false,
        };
        Session {
            manager: config.manager.clone().map(|who| (who, Registration::Away)),
            runtimes: offers.into_iter().map(runtime).collect(),
            modules: BTreeMap::new(),
            serial: 0,
            up: false,
            ending: None,
            closing: false,
            over: false,
            faults: 0,
            failures: 0,
            config,
            ids,
        }
    }

    /// The filters to subscribe to first.
    pub fn filters(&self) -> Vec<String> {
        let topics = &self.config.topics;
        let mut filters = Vec::new();
        if let Some((who, _)) = &self.manager {
            filters.push(
                topics
                    .topic(&Place::Reg(Some(who.uuid.clone())))
                    .to_string(),
            );
        }
        for runtime in &self.runtimes {
            filters.extend(topics.runtime_filters(&runtime.offer.who.uuid));
        }
        filters
    }

    /// The last will: that the manager, or the only runtime, is gone.
    pub fn will(&mut self) -> Option<Publication> {
        match (&self.manager, self.runtimes.first()) {
            (Some((who, _)), _) => {
                let who = who.clone();
                Some(self.manager_goodbye(&who))
            }
            (None, Some(_)) => self.goodbye(0),
            (None, None) => None,
        }
    }

    /// Handles an incoming message.
    pub fn handle_message(&mut self, incoming: &Incoming, now: Instant) -> Vec<Act> {
        let Some(place) = self.config.topics.place(&incoming.topic) else {
            return Vec::new();
        };
        let uuid = match &place {
            Place::Control(Some(uuid)) | Place::Reg(Some(uuid)) => uuid,
            Place::Reg(None) if !incoming.retained => return self.heard_on_bare(incoming, now),
            _ => return Vec::new(),
        };
        if incoming.retained {
            // A retained message was meant for somebody else, or is old.
            log::debug!("ignored a retained message on {}", incoming.topic);
            return Vec::new();
        }
        let message = match Message::parse(&incoming.payload) {
            Ok(message) => message,
            Err(fault) => {
                self.faults += 1;
                if self.faults.is_power_of_two() {
                    log::warn!(
                        "cannot process a message on {}: {fault} (message {} of this kind)",
                        incoming.topic,
                        self.faults
                    );
                }
                let control = matches!(place, Place::Control(_));
                let here = self.place_of(uuid).filter(|_| control);
                return match (&fault.request, here) {
                    (Some(request), Some(at)) => {
                        let asked = (request.clone(), fault.dialect);
                        vec![self.refusal(at, &asked, "create", None, &fault)]
                    }
                    _ => Vec::new(),
                };
            }
        };
        if let Body::Answer(answer) = &message.body {
            return self.answered(uuid, &message, answer, now);
        }
        match (&place, self.place_of(uuid)) {
            (Place::Control(_), Some(at)) => self.handle_request(at, message, now),
            _ => Vec::new(),
        }
    }

    /// Handles a request on the control topic of a runtime.
    fn handle_request(&mut self, at: usize, message: Message, now: Instant) -> Vec<Act> {
        let asked = (message.object_id, message.dialect);
        match message.body {
            Body::Create(request) => self.create(at, *request, asked, now),
            Body::CreateBatch(_, requests) => requests
                .into_iter()
                .flat_map(|request| self.create(at, request, asked.clone(), now))
                .collect(),
            Body::Delete(module, _) => self.delete(at, &module, &asked),
            Body::Unregister(uuid, _) => match self.runtimes.get(at) {
                // In the older dialect this tells a runtime to shut down (reference, section 4.1).
                Some(runtime) if asked.1 == Dialect::Older && runtime.offer.who.uuid == uuid => {
                    log::info!("{} was told to end", runtime.offer.who.name);
                    let mut acts = self.leave(at, now);
                    acts.extend(self.finish(now));
                    acts
                }
                _ => Vec::new(),
            },
            // Others use the topic too: for example, programs that announce exits there.
            _ => Vec::new(),
        }
    }

    /// Handles everything due by the clock; `figures` returns the resources that a module has used so far.
    pub fn tick(&mut self, now: Instant, figures: &dyn Fn(&Uuid) -> Option<Figures>) -> Vec<Act> {
        if self.over {
            return Vec::new();
        }
        let mut acts = self.ask_again(now);
        acts.extend(self.send_keepalives(now, figures));
        acts.extend(self.finish(now));
        acts
    }

    /// When [`Session::tick`] must be called next.
    pub fn due(&self) -> Option<Instant> {
        let manager = self.manager.iter().map(|(_, registration)| registration);
        // A runtime that shuts down needs no timers.
        let staying = || self.runtimes.iter().filter(|runtime| !runtime.leaving);
        let runtimes = staying().map(|runtime| &runtime.registration);
        let asking = manager.chain(runtimes).filter_map(Registration::due);
        let beats = staying().filter_map(|runtime| runtime.beat);
        let both = asking.chain(beats).filter(|_| self.up);
        both.chain(self.ending).min()
    }

    /// Ends all modules, then all runtimes; the last act is [`Act::End`].
    ///
    /// Modules that end because of this are not announced one by one: when their runtime is gone they wait for its
    /// return, or move, as their requests say; an exit would end them for good.
    pub fn end(&mut self, now: Instant) -> Vec<Act> {
        if std::mem::replace(&mut self.closing, true) {
            return Vec::new();
        }
        let mut acts = Vec::new();
        for at in 0..self.runtimes.len() {
            acts.extend(self.leave(at, now));
        }
        acts.extend(self.finish(now));
        acts
    }

    /// Shuts down a runtime: first ends its modules.
    fn leave(&mut self, at: usize, now: Instant) -> Vec<Act> {
        let Some(runtime) = self.runtimes.get_mut(at).filter(|runtime| !runtime.leaving) else {
            return Vec::new();
        };
        runtime.leaving = true;
        runtime.beat = None;
        let until = now + self.config.patience;
        self.ending = Some(self.ending.map_or(until, |before| before.max(until)));
        let mut acts = Vec::new();
        for (uuid, module) in &mut self.modules {
            if module.runtime == at {
                acts.extend(module.stop(uuid));
            }
        }
        acts
    }

    /// Unregisters runtimes that shut down and have no modules left, or have run out of time.
    fn finish(&mut self, now: Instant) -> Vec<Act> {
        let Some(until) = self.ending.filter(|_| !self.over) else {
            return Vec::new();
        };
        let waits = |at: usize| now < until && self.modules.values().any(|m| m.runtime == at);
        let leaves = |(at, runtime): &(usize, &Runtime)| {
            runtime.leaving && runtime.registration != Registration::Gone && !waits(*at)
        };
        let runtimes = self.runtimes.iter().enumerate();
        let ready: Vec<usize> = runtimes.filter(leaves).map(|(at, _)| at).collect();
        let mut gone = Vec::new();
        for at in ready {
            if let Some(runtime) = self.runtimes.get_mut(at) {
                runtime.registration = Registration::Gone;
                runtime.beat = None;
                gone.push(at);
            }
        }
        let is_gone = |runtime: &Runtime| runtime.registration == Registration::Gone;
        let over = self.runtimes.iter().all(is_gone);
        if over || self.runtimes.iter().all(|r| !r.leaving || is_gone(r)) {
            self.ending = None;
        }
        // A manager does it for all at once, like others do (reference, section 4.2).
        let all_at_once = over && self.manager.is_some();
        let mut acts = Vec::new();
        for at in gone.into_iter().filter(|_| !all_at_once) {
            acts.extend(self.goodbye(at).map(Act::Publish));
        }
        if over {
            if let Some((who, _)) = self.manager.take() {
                acts.push(Act::Publish(self.manager_goodbye(&who)));
            }
            self.over = true;
            acts.push(Act::End);
        }
        acts
    }

    /// The index of a runtime, unless it is gone.
    fn place_of(&self, uuid: &Uuid) -> Option<usize> {
        let ours = |runtime: &Runtime| {
            runtime.offer.who.uuid == *uuid && runtime.registration != Registration::Gone
        };
        self.runtimes.iter().position(ours)
    }

    /// The message that a runtime is gone.
    fn goodbye(&mut self, at: usize) -> Option<Publication> {
        let runtime = self.runtimes.get(at)?;
        let (who, dialect) = (runtime.offer.who.clone(), runtime.dialect);
        let place = Place::Reg((!runtime.bare).then(|| who.uuid.clone()));
        let body = Body::Unregister(who.uuid, Some(who.name));
        Some(self.publication(place, dialect, body, None))
    }

    /// The message that the manager is gone, and all its runtimes.
    fn manager_goodbye(&mut self, who: &Registrant) -> Publication {
        let body = Body::UnregisterManager(who.uuid.clone(), Some(who.name.clone()));
        let place = Place::Reg(Some(who.uuid.clone()));
        self.publication(place, Dialect::Draft, body, None)
    }

    /// A message with an id of our own.
    fn publication(
        &mut self,
        place: Place,
        dialect: Dialect,
        body: Body,
        from: Option<&Uuid>,
    ) -> Publication {
        let mut message = Message::new((self.ids)(), dialect, body);
        message.from = from.map(Uuid::to_string);
        self.post(&place, &message)
    }

    fn post(&self, place: &Place, message: &Message) -> Publication {
        Publication {
            topic: self.config.topics.topic(place).to_string(),
            payload: message.to_json(),
            qos: Qos::Two,
            properties: Vec::new(),
        }
    }
}
