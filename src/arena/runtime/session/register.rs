//! Registration: repeated until it is confirmed, and again with each connection (reference, sections 4.1 and 4.2).

use super::{Act, Registrant, Runtime, Session};
use crate::mqtt::{Incoming, Publication};
use crate::wire::{
    Answer, Body, Dialect, KEEPALIVE, Manager, Message, Object, Place, Runtime as Record,
    RuntimeState, Uuid, Verdict,
};
use std::time::{Duration, Instant};

/// The first wait for an answer; each further one is twice as long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest wait for an answer; also the wait after a refusal.
const LONGEST: Duration = Duration::from_secs(60);
/// Longest interval between keepalives that an orchestrator may set, in seconds.
const SLOWEST: u64 = 86_400;
/// Requests whose answers are still accepted.
const REQUESTS: usize = 4;

/// State of a registration.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Registration {
    /// Not connected.
    Away,
    /// A request was sent.
    Asking {
        /// Ids of the latest requests.
        ids: Vec<String>,
        /// When to send the next one.
        next: Instant,
        /// The wait after that.
        wait: Duration,
        /// Whether it was refused; that is logged once.
        refused: bool,
        /// How many requests were sent.
        tries: u32,
    },
    /// Registered.
    Confirmed,
    /// Unregistered.
    Gone,
}

impl Registration {
    /// When to send the next request.
    pub fn due(&self) -> Option<Instant> {
        match self {
            Registration::Asking { next, .. } => Some(*next),
            _ => None,
        }
    }

    /// Records a request with this id.
    fn asked(&mut self, id: String, now: Instant, confirmed: bool) {
        if !confirmed {
            *self = Registration::Confirmed;
            return;
        }
        let (mut ids, wait, refused, tries) = match std::mem::replace(self, Registration::Away) {
            Registration::Asking {
                ids,
                wait,
                refused,
                tries,
                ..
            } => (ids, wait, refused, tries),
            _ => (Vec::new(), PATIENCE, false, 0),
        };
        if ids.len() >= REQUESTS {
            ids.remove(0);
        }
        ids.push(id);
        *self = Registration::Asking {
            ids,
            next: now + wait,
            wait: (wait * 2).min(LONGEST),
            refused,
            tries: tries.saturating_add(1),
        };
    }

    /// Whether the next request goes elsewhere than the first one: every other one does, until somebody answers.
    fn elsewhere(&self) -> bool {
        matches!(self, Registration::Asking { tries, refused: false, .. } if tries % 2 == 1)
    }

    /// Whether an answer is to one of its requests.
    fn waits_for(&self, id: &str) -> bool {
        matches!(self, Registration::Asking { ids, .. } if ids.iter().any(|own| own == id))
    }
}

impl Session {
    /// The connection is up, and the filters are subscribed to.
    pub fn up(&mut self, now: Instant) -> Vec<Act> {
        self.up = true;
        let mut acts = Vec::new();
        if !self.over && self.manager.is_some() {
            acts.extend(self.register_manager(now));
        }
        for at in 0..self.runtimes.len() {
            acts.extend(self.register(at, now));
        }
        acts
    }

    /// The connection is lost.
    pub fn down(&mut self) {
        self.up = false;
        let runtimes = self
            .runtimes
            .iter_mut()
            .map(|r| (&mut r.registration, &mut r.beat));
        for (registration, beat) in runtimes {
            *beat = None;
            if *registration != Registration::Gone {
                *registration = Registration::Away;
            }
        }
        if let Some((_, registration)) = &mut self.manager {
            *registration = Registration::Away;
        }
    }

    /// Repeats unanswered requests.
    pub(super) fn ask_again(&mut self, now: Instant) -> Vec<Act> {
        if !self.up {
            return Vec::new();
        }
        let is_due = |registration: &Registration| registration.due().is_some_and(|due| due <= now);
        let mut acts = Vec::new();
        if self
            .manager
            .as_ref()
            .is_some_and(|(_, registration)| is_due(registration))
        {
            acts.extend(self.register_manager(now));
        }
        for at in 0..self.runtimes.len() {
            if self
                .runtimes
                .get(at)
                .is_some_and(|r| is_due(&r.registration))
            {
                acts.extend(self.register(at, now));
            }
        }
        acts
    }

    fn register_manager(&mut self, now: Instant) -> Option<Act> {
        let (who, _) = self.manager.clone()?;
        let body = Body::RegisterManager(Manager {
            uuid: who.uuid.clone(),
            name: who.name.clone(),
            state: RuntimeState::Alive,
        });
        let place = Place::Reg(Some(who.uuid.clone()));
        let (id, publication) = self.request(&who, place, Dialect::Draft, body);
        let confirmed = self.config.confirmed;
        if let Some((_, registration)) = &mut self.manager {
            registration.asked(id, now, confirmed);
        }
        Some(Act::Publish(publication))
    }

    fn register(&mut self, at: usize, now: Instant) -> Vec<Act> {
        let Some(runtime) = self.runtimes.get(at).filter(|runtime| !runtime.leaving) else {
            return Vec::new();
        };
        let (who, body) = (runtime.offer.who.clone(), self.record(runtime));
        // The orchestrators before 2023 hear the bare topic only, and answer there.
        let bare = runtime.bare != runtime.registration.elsewhere();
        let dialect = runtime.dialect;
        let place = Place::Reg((!bare).then(|| who.uuid.clone()));
        let filter = bare.then(|| self.config.topics.topic(&place).to_string());
        let body = Body::Register(Box::new(body));
        let (id, publication) = self.request(&who, place, dialect, body);
        let confirmed = self.config.confirmed;
        if let Some(runtime) = self.runtimes.get_mut(at) {
            runtime.registration.asked(id, now, confirmed);
            if !confirmed {
                self.mark_registered(at, Duration::from_secs(KEEPALIVE), now);
            }
        }
        let mut acts: Vec<Act> = filter.map(Act::Subscribe).into_iter().collect();
        acts.push(Act::Publish(publication));
        acts
    }

    /// The record with which a runtime registers.
    pub(super) fn record(&self, runtime: &Runtime) -> Record {
        let offer = &runtime.offer;
        Record {
            uuid: offer.who.uuid.clone(),
            name: offer.who.name.clone(),
            kind: self.config.kind.clone(),
            max_modules: offer.max_modules,
            apis: offer.apis.clone(),
            platform: self.config.platform.clone(),
            metadata: self.config.metadata.clone(),
            keepalive: 0,
            manager: self.manager.as_ref().map(|(who, _)| who.uuid.clone()),
            state: RuntimeState::Alive,
            extra: Object::new(),
        }
    }

    fn request(
        &mut self,
        who: &Registrant,
        place: Place,
        dialect: Dialect,
        body: Body,
    ) -> (String, Publication) {
        let mut message = Message::new((self.ids)(), dialect, body);
        message.from = Some(who.uuid.to_string());
        let publication = self.post(&place, &message);
        (message.object_id, publication)
    }

    /// Handles a message on the topic that all runtimes of an older orchestrator share. Only answers to our own
    /// registrations matter there.
    pub(super) fn heard_on_bare(&mut self, incoming: &Incoming, now: Instant) -> Vec<Act> {
        let Ok(message) = Message::parse(&incoming.payload) else {
            return Vec::new();
        };
        let Body::Answer(answer) = &message.body else {
            return Vec::new();
        };
        let asked = |runtime: &&Runtime| runtime.registration.waits_for(&message.object_id);
        let Some(runtime) = self.runtimes.iter().find(asked) else {
            return Vec::new();
        };
        let uuid = runtime.offer.who.uuid.clone();
        let acts = self.answered(&uuid, &message, answer, now);
        self.note_orchestrator(&uuid, message.dialect, true);
        acts
    }

    /// Whether a filter is only subscribed to in case that the orchestrator is an older one.
    pub fn is_fallback(&self, filter: &str) -> bool {
        self.config.topics.topic(&Place::Reg(None)).as_str() == filter
    }

    /// Records how the orchestrator that confirmed a registration speaks, and where it hears.
    fn note_orchestrator(&mut self, uuid: &Uuid, dialect: Dialect, bare: bool) {
        let at = self.place_of(uuid);
        if let Some(runtime) = at.and_then(|at| self.runtimes.get_mut(at))
            && runtime.registration == Registration::Confirmed
        {
            (runtime.dialect, runtime.bare) = (dialect, bare);
        }
    }

    /// Handles an answer on a topic of `uuid`. Only answers to registrations matter here.
    pub(super) fn answered(
        &mut self,
        uuid: &Uuid,
        message: &Message,
        answer: &Answer,
        now: Instant,
    ) -> Vec<Act> {
        let id = message.object_id.as_str();
        if let Some((who, registration)) = &mut self.manager
            && who.uuid == *uuid
        {
            if registration.waits_for(id) || confirms(answer, uuid) {
                handle_confirmation(registration, &who.name, answer, now);
            }
            return Vec::new();
        }
        let Some(at) = self.place_of(uuid) else {
            return Vec::new();
        };
        let Some(runtime) = self.runtimes.get_mut(at).filter(|_| self.up) else {
            return Vec::new();
        };
        let meant = runtime.registration.waits_for(id) || confirms(answer, uuid);
        if !meant || runtime.leaving {
            return Vec::new();
        }
        if handle_confirmation(
            &mut runtime.registration,
            &runtime.offer.who.name,
            answer,
            now,
        ) {
            let said = Duration::from_secs(answer.keepalive().min(SLOWEST));
            self.mark_registered(at, said, now);
            self.note_orchestrator(uuid, message.dialect, false);
        }
        Vec::new()
    }

    /// Marks a runtime as registered: starts its keepalives, the first at once, since it lists the running modules.
    fn mark_registered(&mut self, at: usize, said: Duration, now: Instant) {
        let interval = self.config.keepalive.unwrap_or(said);
        if let Some(runtime) = self.runtimes.get_mut(at) {
            runtime.interval = interval;
            runtime.beat = (!interval.is_zero()).then_some(now);
        }
    }
}

/// Handles the answer to a registration; returns whether it is a confirmation.
fn handle_confirmation(
    registration: &mut Registration,
    name: &str,
    answer: &Answer,
    now: Instant,
) -> bool {
    if answer.verdict == Verdict::Ok {
        if *registration != Registration::Confirmed {
            log::info!("{name} is registered");
        }
        *registration = Registration::Confirmed;
        return true;
    }
    if let Registration::Asking {
        next,
        wait,
        refused,
        ..
    } = registration
    {
        if !*refused {
            log::warn!(
                "the orchestrator does not accept {name}: {}; if it is a halite master, look at its keys with 'halite-key -L' \
                 and accept this one with 'halite-key -a {name}'; until then it is asked again from time to time",
                answer.why()
            );
        }
        (*refused, *wait, *next) = (true, LONGEST, now + LONGEST);
    }
    false
}

/// Whether an unrequested answer confirms the registration of `uuid`: its record says that it is alive. Some
/// orchestrators confirm later than they answer, with an id of their own; others answer the goodbye of an earlier
/// connection (reference, T16).
fn confirms(answer: &Answer, uuid: &Uuid) -> bool {
    let status = answer.data.get("details").and_then(|d| d.get("status"));
    let alive = status.is_none_or(|status| status == RuntimeState::Alive.word());
    alive && answer.verdict == Verdict::Ok && answer.uuid() == Some(uuid.as_str())
}
