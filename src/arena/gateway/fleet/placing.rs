//! Placing modules on runtimes: requests, the choice of a runtime, queues (reference, sections 4.4 and 5).

use super::hear::RequestContext;
use super::out::Out;
use super::{Fleet, FleetEvent, Lost};
use crate::choice::{Candidate, Choice, choose, lacks, suits};
use crate::registry::{Change, KeptModule};
use crate::wire::{
    Answer, Body, Fault, Json, Message, Module, ModuleRequest, Object, Parent, Place, RuntimeState,
    State, Trouble, Uuid, Verdict,
};
use halite_gateway::clock::Clock;
use std::collections::{HashMap, HashSet};

/// For how many runtimes an error says why they cannot take a module.
const REASONS: usize = 20;

impl Fleet {
    /// Handles a request for a module.
    pub(super) fn handle_create(
        &mut self,
        request: ModuleRequest,
        ask: &RequestContext,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        if let (true, Some(runtime)) = (ask.direct, &ask.runtime) {
            return self.sent_by_others(request, runtime, ask, now, out);
        }
        let uuid = self.place(request, now, out)?;
        if let Some(entry) = self.modules.get(&uuid) {
            let answer = Answer::module(&entry.kept.module);
            self.reply(ask, answer, out);
        }
        Ok(())
    }

    /// Handles a request that its runtime has received as well. It is recorded, but neither forwarded nor answered,
    /// since that is up to the runtime. A module without a uuid gets one from the runtime, whose keepalives will
    /// report it.
    fn sent_by_others(
        &mut self,
        request: ModuleRequest,
        runtime: &Uuid,
        ask: &RequestContext,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        let entry = self.runtimes.get(runtime);
        let entry = entry.ok_or_else(|| Fault::new(Trouble::UnknownRuntime, runtime.as_str()))?;
        if !entry.alive() {
            return Err(Fault::new(Trouble::DeadRuntime, runtime.as_str()));
        }
        let Some(uuid) = request.uuid.clone() else {
            return Ok(());
        };
        self.free_uuid(&uuid)?;
        self.room_for_modules(1, request.byte_len(), now, out)?;
        let mut module = request.into_module(uuid.clone(), self.next_number(), self.rules.policy);
        module.runtime = Some(runtime.clone());
        module.scheduled = false;
        module.state = State::Alive;
        let kept = self.replace(module, now, out);
        self.note_request(&uuid, ask.object_id.clone(), now);
        out.report(FleetEvent::Sent(Box::new(kept)));
        Ok(())
    }

    /// Handles a request for several modules on one runtime: all or none.
    pub(super) fn handle_batch(
        &mut self,
        parent: &Parent,
        requests: Vec<ModuleRequest>,
        ask: &RequestContext,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        let runtime = self.runtime_for(parent)?;
        let bytes = requests.iter().map(ModuleRequest::byte_len).sum();
        self.room_for_modules(requests.len(), bytes, now, out)?;
        let mut seen = HashSet::new();
        for uuid in requests.iter().filter_map(|request| request.uuid.as_ref()) {
            self.free_uuid(uuid)?;
            if !seen.insert(uuid) {
                return Err(Fault::new(Trouble::DuplicateModule, uuid.as_str()));
            }
        }
        let mut records = Vec::with_capacity(requests.len());
        for request in requests {
            let request = ModuleRequest {
                parent: Some(parent.clone()),
                ..request
            };
            let uuid = self.put_on(request, Some(&runtime), now, out)?;
            let entry = self.modules.get(&uuid);
            records.extend(entry.map(|entry| entry.kept.module.to_json()));
        }
        let mut details = Object::new();
        details.insert("parent".into(), runtime.as_str().into());
        details.insert("modules".into(), records.into());
        let mut data = Object::new();
        data.insert("result".into(), "ok".into());
        data.insert("details".into(), details.into());
        let answer = Answer {
            action: Some("create_batch".into()),
            verdict: Verdict::Ok,
            data,
        };
        self.reply(ask, answer, out);
        Ok(())
    }

    /// Places or queues a module; returns its uuid. Nothing is changed if it is refused.
    pub(super) fn place(
        &mut self,
        request: ModuleRequest,
        now: Clock,
        out: &mut Out,
    ) -> Result<Uuid, Fault> {
        if let Some(uuid) = &request.uuid {
            self.free_uuid(uuid)?;
        }
        self.room_for_modules(1, request.byte_len(), now, out)?;
        let runtime = match &request.parent {
            Some(parent) => Some(self.runtime_for(parent)?),
            None => self.scheduled(&request.apis)?,
        };
        self.put_on(request, runtime.as_ref(), now, out)
    }

    /// Chooses the runtime for a module that names none; `None` if it must wait for one.
    fn scheduled(&self, apis: &[String]) -> Result<Option<Uuid>, Fault> {
        let (chosen, choice) = self.choice(apis, &[]);
        if chosen.is_some() || choice.later {
            return Ok(chosen);
        }
        let mut judged: Vec<_> = self.runtimes.iter().zip(&choice.fits).collect();
        judged.sort_by_key(|(entry, _)| &entry.kept.runtime.uuid);
        let reasons = judged
            .iter()
            .map(|(entry, fit)| Json::from(format!("{} {fit}", entry.kept.runtime.name)));
        let mut reasons: Vec<Json> = reasons.take(REASONS).collect();
        if reasons.is_empty() {
            reasons.push("there are no runtimes".into());
        }
        Err(Fault::new(Trouble::NoRuntime, reasons))
    }

    /// Starts a module on a runtime if it has a free place, else queues it there; without a runtime, queues it for
    /// any.
    fn put_on(
        &mut self,
        request: ModuleRequest,
        runtime: Option<&Uuid>,
        now: Clock,
        out: &mut Out,
    ) -> Result<Uuid, Fault> {
        let uuid = match request.uuid.clone() {
            Some(uuid) => uuid,
            None => {
                let random = halite_crypto::random_uuid().parse();
                random.map_err(|_| Fault::new(Trouble::MissingField, "data/uuid"))?
            }
        };
        let mut module = request.into_module(uuid.clone(), self.next_number(), self.rules.policy);
        module.runtime = runtime.cloned();
        let kept = self.replace(module, now, out);
        match runtime {
            Some(runtime) if self.free_place(runtime) => self.start(&uuid, runtime, now, out),
            _ => out.report(FleetEvent::Queued(Box::new(kept))),
        }
        Ok(uuid)
    }

    /// Inserts a module, in place of one that is no longer wanted.
    fn replace(&mut self, module: Module, now: Clock, out: &mut Out) -> KeptModule {
        let uuid = module.uuid.clone();
        if let Some(before) = self.modules.get(&uuid) {
            let module = &before.kept.module;
            // The old one's exit is still to come, and must not be taken for that of the new one.
            if let (State::Exiting, Some(runtime)) = (module.state, module.runtime.clone()) {
                self.note_stray(&uuid, &runtime, now, out);
            }
        }
        let kept = KeptModule {
            module,
            created: u64::try_from(now.unix).unwrap_or(0),
            foreign: false,
        };
        self.forget_request(&uuid);
        self.add_module(kept.clone(), now, out);
        kept
    }

    /// Starts a module on a runtime.
    pub(super) fn start(&mut self, uuid: &Uuid, runtime: &Uuid, now: Clock, out: &mut Out) {
        self.change_module(uuid, now, out, |module| {
            module.runtime = Some(runtime.clone());
            module.state = State::Alive;
        });
        let before = self.modules.touch(uuid, |entry| {
            entry.again = false;
            let kept = entry.kept.clone();
            entry.before.take().map(|before| (kept, before))
        });
        if let Some((kept, before)) = before.flatten()
            && before != *runtime
        {
            self.stats.moved += 1;
            out.report(FleetEvent::Moved(Box::new(kept), before));
        }
        self.send(uuid, now, out);
    }

    /// Sends a module to its runtime, in a request of our own (reference, section 4.4).
    pub(super) fn send(&mut self, uuid: &Uuid, now: Clock, out: &mut Out) {
        let Some(entry) = self.modules.get(uuid) else {
            return;
        };
        let kept = entry.kept.clone();
        let runtime = kept.module.runtime.as_ref();
        let Some(host) = runtime.and_then(|runtime| self.runtimes.get(runtime)) else {
            return;
        };
        let place = Place::Control(kept.module.runtime.clone());
        let topic = self.rules.topics.topic(&place);
        let dialect = host.kept.dialect;
        let id = self.ids.next();
        let request = kept.module.request().suited_to(&host.kept.runtime.kind);
        let body = Body::Create(Box::new(request));
        out.publish(topic.as_str(), &Message::new(id.clone(), dialect, body));
        self.note_request(uuid, id, now);
        self.stats.sent += 1;
        out.report(FleetEvent::Sent(Box::new(kept)));
    }

    /// Remembers the id of the request for a module, which its runtime may answer.
    fn note_request(&mut self, uuid: &Uuid, id: String, now: Clock) {
        self.forget_request(uuid);
        self.asks.insert(id.clone(), uuid.clone());
        self.modules.touch(uuid, |entry| {
            entry.asked = Some(id);
            entry.sent = Some(now.at);
            entry.started = false;
            entry.missed = 0;
            entry.usage = None;
        });
    }

    /// No longer expects an answer.
    pub(super) fn forget_request(&mut self, uuid: &Uuid) {
        let asked = self.modules.touch(uuid, |entry| entry.asked.take());
        if let Some(id) = asked.flatten()
            && self.asks.get(&id) == Some(uuid)
        {
            self.asks.remove(&id);
        }
    }

    /// Moves a module off a runtime that has disconnected or lost it: starts it on another, or queues it for one.
    pub(super) fn relocate(&mut self, uuid: &Uuid, why: Lost, now: Clock, out: &mut Out) {
        self.stats.lost += 1;
        self.forget_request(uuid);
        let left = self.modules.touch(uuid, |entry| {
            let from = entry.kept.module.runtime.clone();
            if entry.kept.module.state == State::Alive {
                entry.before = from.clone();
            }
            if why == Lost::Missing {
                let arrival = from.as_ref().map_or(0, |from| self.runtimes.arrival(from));
                entry
                    .refused_by
                    .extend(from.clone().map(|from| (from, arrival)));
            }
            (
                entry.kept.module.apis.clone(),
                entry.refused_by.clone(),
                from,
            )
        });
        let Some((apis, refused_by, from)) = left else {
            return;
        };
        let (chosen, _) = self.choice(&apis, &refused_by);
        let kept = self.change_module(uuid, now, out, |module| {
            module.runtime = chosen.clone();
            module.state = match chosen {
                Some(_) => State::Alive,
                None => State::Queued,
            };
        });
        let Some(kept) = kept else {
            return;
        };
        // Its new state, and the runtime that has lost it.
        let mut lost = kept.clone();
        lost.module.runtime = from;
        out.report(FleetEvent::Lost(lost, why));
        match &chosen {
            Some(runtime) => self.start(uuid, runtime, now, out),
            None => out.report(FleetEvent::Queued(kept)),
        }
    }

    /// Chooses a runtime for a module with these apis, except those given; also returns the verdict on each, in
    /// iteration order.
    pub(super) fn choice(
        &self,
        apis: &[String],
        without: &[(Uuid, u64)],
    ) -> (Option<Uuid>, Choice) {
        let mut strays: HashMap<&Uuid, usize> = HashMap::new();
        for (on, _) in self.strays.values() {
            *strays.entry(on).or_default() += 1;
        }
        let candidates: Vec<Candidate> = self
            .runtimes
            .iter()
            .map(|entry| {
                let kept = &entry.kept;
                let uuid = &kept.runtime.uuid;
                let strays = strays.get(uuid).copied().unwrap_or_default();
                Candidate {
                    uuid,
                    name: &kept.runtime.name,
                    id: &kept.id,
                    kind: &kept.runtime.kind,
                    apis: &kept.runtime.apis,
                    max_modules: kept.runtime.max_modules,
                    modules: u32::try_from(self.modules.count(uuid) + strays).unwrap_or(u32::MAX),
                    memory: kept.memory,
                    alive: kept.runtime.state == RuntimeState::Alive
                        && !self.has_refused(without, uuid),
                }
            })
            .collect();
        let choice = choose(apis, &candidates);
        let chosen = choice.chosen.and_then(|place| candidates.get(place));
        (chosen.map(|candidate| candidate.uuid.clone()), choice)
    }

    /// Whether a runtime is in this list and has not arrived anew since.
    pub(super) fn has_refused(&self, refused_by: &[(Uuid, u64)], runtime: &Uuid) -> bool {
        let arrival = self.runtimes.arrival(runtime);
        let same = |(uuid, at): &(Uuid, u64)| uuid == runtime && *at == arrival;
        refused_by.iter().any(same)
    }

    /// Whether a runtime has a free place.
    pub(super) fn free_place(&self, runtime: &Uuid) -> bool {
        let Some(entry) = self.runtimes.get(runtime).filter(|entry| entry.alive()) else {
            return false;
        };
        let most = entry.kept.runtime.max_modules;
        let runs = !entry.kept.runtime.apis.is_empty();
        let taken = self.modules.taken(runtime) + self.strays_on(runtime);
        runs && (most == 0 || taken < most as usize)
    }

    /// How many strays have not ended on a runtime yet.
    fn strays_on(&self, runtime: &Uuid) -> usize {
        self.strays.values().filter(|(on, _)| on == runtime).count()
    }

    /// Starts modules that wait for places on a runtime: first its own queue, then those that any runtime may take, in
    /// their order.
    pub(super) fn fill(&mut self, runtime: &Uuid, now: Clock, out: &mut Out) {
        while self.free_place(runtime)
            && let Some(uuid) = self.modules.first_queued(runtime)
        {
            self.start(&uuid, runtime, now, out);
        }
        if !self.free_place(runtime) || !self.modules.any_unplaced() {
            return;
        }
        for uuid in self.modules.unplaced() {
            if !self.free_place(runtime) {
                return;
            }
            let host = self.runtimes.get(runtime).map(|entry| &entry.kept.runtime);
            let fits = self.modules.get(&uuid).is_some_and(|entry| {
                let apis = &entry.kept.module.apis;
                host.is_some_and(|host| {
                    lacks(apis, &host.apis).is_empty() && suits(apis, &host.kind)
                }) && !self.has_refused(&entry.refused_by, runtime)
            });
            if fits {
                self.start(&uuid, runtime, now, out);
            }
        }
    }

    /// The runtime that a request names, by uuid or name, if it can take modules. If several have the name, connected
    /// ones come first.
    fn runtime_for(&self, parent: &Parent) -> Result<Uuid, Fault> {
        let Parent(text) = parent;
        let by_uuid = text.parse().ok().and_then(|uuid| self.runtimes.get(&uuid));
        let entry = match by_uuid {
            Some(entry) => entry,
            None => {
                let (alive, dead): (Vec<_>, Vec<_>) =
                    self.runtimes.named(text).partition(|entry| entry.alive());
                let named = if alive.is_empty() { dead } else { alive };
                match named.as_slice() {
                    [] => return Err(Fault::new(Trouble::UnknownRuntime, text.as_str())),
                    [one] => *one,
                    _ => return Err(Fault::new(Trouble::Ambiguous, text.as_str())),
                }
            }
        };
        if !entry.alive() {
            return Err(Fault::new(Trouble::DeadRuntime, text.as_str()));
        }
        if entry.kept.runtime.apis.is_empty() {
            let why = format!("{} runs no modules", entry.kept.runtime.name);
            return Err(Fault::new(Trouble::NoRuntime, vec![Json::from(why)]));
        }
        Ok(entry.kept.runtime.uuid.clone())
    }

    /// Checks that no running module has this uuid.
    fn free_uuid(&self, uuid: &Uuid) -> Result<(), Fault> {
        match self.modules.get(uuid) {
            Some(entry) if entry.kept.module.state == State::Alive => {
                Err(Fault::new(Trouble::DuplicateModule, uuid.as_str()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that there is room for `more` modules with records of this size. Removes records of ended modules if
    /// needed.
    fn room_for_modules(
        &mut self,
        more: usize,
        bytes: usize,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        let too_many = |what| Err(Fault::new(Trouble::TooMany, what));
        let (most, max_bytes) = (self.rules.max_modules, self.rules.max_bytes);
        if self.modules.living() + more > most {
            return too_many(format!("modules: {most} at most"));
        }
        while self.modules.byte_len() + bytes > max_bytes {
            let Some(oldest) = self.modules.oldest_ended(None, 0) else {
                return too_many(format!("modules: {max_bytes} bytes of records at most"));
            };
            self.forget_module(&oldest, now, out);
        }
        Ok(())
    }

    /// The next running number.
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_index += 1;
        self.next_index - 1
    }

    /// Adds a new module.
    pub(super) fn add_module(&mut self, kept: KeptModule, now: Clock, out: &mut Out) {
        out.save(Change::Module(Box::new(kept.clone())));
        self.modules.insert(kept, now);
    }

    /// Changes a module and saves the change; returns its record afterwards.
    pub(super) fn change_module(
        &mut self,
        uuid: &Uuid,
        now: Clock,
        out: &mut Out,
        change: impl FnOnce(&mut Module),
    ) -> Option<Box<KeptModule>> {
        let kept = Box::new(self.modules.change(uuid, now, change)?);
        out.save(Change::Module(kept.clone()));
        Some(kept)
    }
}
