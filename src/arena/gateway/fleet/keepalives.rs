//! Keepalives: which runtimes are connected, what runs there, what is missing (reference, sections 4.3 and 5).

use super::hear::RequestContext;
use super::out::Out;
use super::waiting_room::Wait;
use super::{Admission, Admitted, Fleet, FleetEvent, Lost};
use crate::registry::{Change, KeptModule};
use crate::wire::{
    Body, Child, Dialect, Fault, Json, Keepalive, Message, Module, Object, Place, Policy, Runtime,
    State, Uuid,
};
use halite_gateway::clock::Clock;
use std::collections::HashSet;
use std::time::Duration;

/// Time between two saves of when a runtime was heard and how much memory it uses.
const SAVED: Duration = Duration::from_secs(60);
/// Foreign modules (not requested here) shown per runtime at most.
const MAX_FOREIGN: usize = 256;
/// Keepalives without a module after which it counts as missing.
const MISSES: u8 = 2;
/// How long to wait before telling a runtime again to end a stray module.
pub(super) const STRAY: Duration = Duration::from_secs(30);

impl Fleet {
    /// Handles a keepalive.
    pub(super) fn keepalive(
        &mut self,
        keepalive: Keepalive,
        ask: &RequestContext,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        self.stats.keepalives += 1;
        let uuid = &keepalive.uuid;
        let entry = self.runtimes.get(uuid);
        let alive = entry.is_some_and(|entry| entry.alive());
        if !alive && !self.adopt(&keepalive, ask, admission, now, out)? {
            return Ok(());
        }
        let changed = self.update_runtime(&keepalive, now, out);
        let partial = keepalive.partial;
        let names = keepalive.children.is_some() && !partial;
        let children = keepalive.children.unwrap_or_default();
        let running = self.children(uuid, children, now, out);
        // A runtime that never lists modules tells us nothing about them, nor does one that leaves out some.
        if names {
            // Modules that were told to end and are no longer listed have ended.
            self.end_strays(
                |module, on, _| on == uuid && !running.contains(module),
                now,
                out,
            );
            self.check_missing(uuid, &running, now, out);
        }
        if partial && !alive {
            // Those that it does not name may be the ones that it cannot name; none must run twice.
            for module in self.modules.of(uuid) {
                let entry = self.modules.get(&module);
                if entry.is_some_and(|entry| entry.kept.module.state == State::Killed) {
                    self.mark_running(uuid, &module, now, out);
                }
            }
        }
        if changed || !alive {
            self.start_modules(uuid, alive, &running, now, out);
        }
        Ok(())
    }

    /// Handles a keepalive from a disconnected or unknown runtime; returns whether it is connected now. This way the
    /// registry recovers after a restart, since managers register only once (reference, section 5).
    fn adopt(
        &mut self,
        keepalive: &Keepalive,
        ask: &RequestContext,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) -> Result<bool, Fault> {
        let uuid = &keepalive.uuid;
        if self.waiting_room.record_message(uuid, now) {
            return Ok(false);
        }
        let before = self.runtimes.get(uuid).map(|entry| entry.kept.clone());
        let dialect = before.as_ref().map_or(ask.dialect, |kept| kept.dialect);
        let mut runtime = match before {
            Some(kept) => kept.runtime,
            None => runtime_from(keepalive)?,
        };
        update_facts(&mut runtime, keepalive);
        match admission.check(uuid, &runtime.name) {
            Admitted::Yes(id) => {
                self.room_for(uuid)?;
                self.mark_connected(runtime, id, dialect, now, out);
                Ok(true)
            }
            Admitted::Waiting(id) => {
                self.wait(runtime, id, dialect, None, now, out);
                Ok(false)
            }
            refused @ (Admitted::No(_) | Admitted::Deleted) => {
                // Remember it, so that admission is not checked for each of its keepalives.
                let wait = match refused {
                    Admitted::Deleted => Wait::Registration,
                    _ => Wait::Again,
                };
                self.wait_unseen(runtime, dialect, None, wait, now);
                Ok(false)
            }
            Admitted::Unclear(_) => Ok(false),
        }
    }

    /// Records what a keepalive says about its runtime; returns whether that is new.
    fn update_runtime(&mut self, keepalive: &Keepalive, now: Clock, out: &mut Out) -> bool {
        let uuid = &keepalive.uuid;
        let children = keepalive.children.iter().flatten();
        let memory = children.fold(0u64, |sum, child| sum.saturating_add(child.memory));
        let news = self.runtimes.touch(uuid, |entry| {
            entry.record_message(now);
            entry.kept.memory = memory;
            let first = !std::mem::replace(&mut entry.kept.speaks, true);
            let changed = has_new_facts(&entry.kept.runtime, keepalive);
            (changed, first || now.is_past(entry.saved, SAVED))
        });
        let Some((changed, save)) = news else {
            return false;
        };
        // Most keepalives say nothing new and cost nothing here.
        if changed || save {
            let Some(mut kept) = self.runtimes.get(uuid).map(|entry| entry.kept.clone()) else {
                return false;
            };
            update_facts(&mut kept.runtime, keepalive);
            out.save(Change::Runtime(Box::new(kept.clone())));
            self.runtimes.put(kept.clone(), now);
            if changed {
                out.report(FleetEvent::Changed(Box::new(kept)));
            }
        }
        out.report(FleetEvent::Alive(uuid.clone()));
        changed
    }

    /// Handles all modules listed in a keepalive.
    fn children(
        &mut self,
        runtime: &Uuid,
        children: Vec<Child>,
        now: Clock,
        out: &mut Out,
    ) -> HashSet<Uuid> {
        let mut running = HashSet::with_capacity(children.len());
        for child in children {
            if running.insert(child.uuid.clone()) {
                self.handle_child(runtime, &child, now, out);
                self.record_usage(runtime, child);
            }
        }
        running
    }

    /// Records the resources used by a module on its runtime.
    fn record_usage(&mut self, runtime: &Uuid, mut child: Child) {
        // Other fields of a child are not shown anywhere.
        child.extra = Object::new();
        let uuid = child.uuid.clone();
        self.modules.touch(&uuid, |entry| {
            if entry.kept.module.runtime.as_ref() == Some(runtime) {
                entry.usage = Some(child);
            }
        });
    }

    fn handle_child(&mut self, runtime: &Uuid, child: &Child, now: Clock, out: &mut Out) {
        let uuid = &child.uuid;
        let Some(entry) = self.modules.get(uuid) else {
            return self.add_foreign(runtime, child, now, out);
        };
        let foreign = entry.kept.foreign;
        let module = &entry.kept.module;
        let here = module.runtime.as_ref() == Some(runtime);
        match module.state {
            State::Alive if here => {
                self.modules.touch(uuid, |entry| {
                    entry.missed = 0;
                    entry.again = false;
                });
                self.started(uuid, out);
            }
            State::Exiting if here => self.repeat_deletion(runtime, uuid, now, out),
            // It was taken for dead but runs; or it runs where it has not been sent yet, or not again.
            State::Dead if here && entry.missing => self.mark_running(runtime, uuid, now, out),
            // Unless that is an old copy that must end before the module runs again.
            State::Killed | State::Queued if self.is_stray(runtime, uuid, now) => {}
            State::Killed | State::Queued
                if here || module.scheduled || entry.before.as_ref() == Some(runtime) =>
            {
                self.mark_running(runtime, uuid, now, out);
            }
            // It was not sent there.
            State::Killed | State::Queued => self.end_stray(runtime, uuid, now, out),
            State::Alive | State::Exiting | State::Dead if foreign => {
                self.mark_running(runtime, uuid, now, out);
            }
            // It runs elsewhere by now, or nowhere.
            State::Alive | State::Exiting | State::Dead => self.end_stray(runtime, uuid, now, out),
        }
    }

    /// A module that was told to end still runs. If that was long ago its runtime missed the request: repeat it.
    fn repeat_deletion(&mut self, runtime: &Uuid, uuid: &Uuid, now: Clock, out: &mut Out) {
        let again = self.modules.touch(uuid, |entry| {
            entry.missed = 0;
            let again = entry.told.is_none_or(|told| now.is_past(told, STRAY));
            if again {
                entry.told = Some(now.at);
            }
            again
        });
        if again == Some(true) {
            self.tell_to_end(runtime, uuid, out);
        }
    }

    /// Records that a module runs on a runtime, whatever its state was.
    fn mark_running(&mut self, runtime: &Uuid, uuid: &Uuid, now: Clock, out: &mut Out) {
        let Some(entry) = self.modules.get(uuid) else {
            return;
        };
        let most = self.rules.max_modules;
        let (dead, foreign) = (entry.kept.module.state == State::Dead, entry.kept.foreign);
        let full = if foreign {
            self.foreign_full(runtime)
        } else {
            self.modules.living() >= most
        };
        if dead && full {
            self.stats.ignored += 1;
            return;
        }
        let from = entry.kept.module.runtime.clone();
        self.change_module(uuid, now, out, |module| {
            module.runtime = Some(runtime.clone());
            module.state = State::Alive;
        });
        self.modules.touch(uuid, |entry| {
            entry.started = false;
            entry.missed = 0;
            entry.missing = false;
            entry.again = false;
            entry.before = None;
        });
        self.started(uuid, out);
        if let Some(from) = from.filter(|from| from != runtime) {
            self.fill(&from, now, out);
        }
    }

    /// A module's runtime confirms that it runs.
    pub(super) fn started(&mut self, uuid: &Uuid, out: &mut Out) {
        let first = self.modules.touch(uuid, |entry| {
            let first = !entry.started;
            entry.started = true;
            first.then(|| entry.kept.clone())
        });
        if let Some(kept) = first.flatten() {
            out.report(FleetEvent::Started(Box::new(kept)));
        }
    }

    /// Whether no more foreign modules of a runtime are shown.
    fn foreign_full(&self, runtime: &Uuid) -> bool {
        let (all, of_it) = self.modules.foreign(runtime);
        all >= self.rules.max_modules || of_it >= MAX_FOREIGN
    }

    /// Adds a foreign module: one that was not requested here.
    fn add_foreign(&mut self, runtime: &Uuid, child: &Child, now: Clock, out: &mut Out) {
        // Foreign modules take no room from requested ones.
        if self.foreign_full(runtime) {
            self.stats.ignored += 1;
            return;
        }
        let word = |key| child.extra.get(key).and_then(Json::as_str);
        let kept = KeptModule {
            module: Module {
                uuid: child.uuid.clone(),
                name: word("name").unwrap_or("module").chars().take(255).collect(),
                index: self.next_number(),
                runtime: Some(runtime.clone()),
                scheduled: false,
                // Records need a file, but nobody says which it is.
                file: "-".into(),
                filetype: None,
                apis: Vec::new(),
                argv: Vec::new(),
                env: Vec::new(),
                args: Object::new(),
                listed: false,
                channels: Vec::new(),
                policy: Policy::Drop,
                state: State::Alive,
                extra: Object::new(),
            },
            created: u64::try_from(now.unix).unwrap_or(0),
            foreign: true,
        };
        self.add_module(kept.clone(), now, out);
        self.modules
            .touch(&child.uuid, |entry| entry.started = true);
        out.report(FleetEvent::Foreign(Box::new(kept)));
    }

    /// A module runs on a runtime where it must not: it was moved away, or deleted while the runtime was disconnected.
    fn end_stray(&mut self, runtime: &Uuid, uuid: &Uuid, now: Clock, out: &mut Out) {
        if self.is_stray(runtime, uuid, now) {
            return;
        }
        self.note_stray(uuid, runtime, now, out);
        self.tell_to_end(runtime, uuid, out);
    }

    /// Whether a runtime was told recently to end a stray module.
    fn is_stray(&self, runtime: &Uuid, uuid: &Uuid, now: Clock) -> bool {
        let told = self.strays.get(uuid);
        told.is_some_and(|(on, at)| on == runtime && !now.is_past(*at, STRAY))
    }

    /// Tells a runtime to end a module.
    pub(super) fn tell_to_end(&mut self, runtime: &Uuid, module: &Uuid, out: &mut Out) {
        let entry = self.runtimes.get(runtime);
        let dialect = entry.map_or(Dialect::Draft, |entry| entry.kept.dialect);
        let body = Body::Delete(module.to_string(), None);
        let message = Message::new(self.ids.next(), dialect, body);
        let topic = self
            .rules
            .topics
            .topic(&Place::Control(Some(runtime.clone())));
        out.publish(topic.as_str(), &message);
    }

    /// Handles the modules of a runtime that its keepalive did not list.
    fn check_missing(
        &mut self,
        runtime: &Uuid,
        running: &HashSet<Uuid>,
        now: Clock,
        out: &mut Out,
    ) {
        // A module that was just sent may not have run yet when the keepalive was written; if many were sent it may
        // not even have been delivered: brokers pass on few publications at a time.
        let grace = self.runtimes.get(runtime).and_then(|entry| entry.pace());
        let grace = grace.unwrap_or_default();
        for uuid in self.modules.of(runtime) {
            if running.contains(&uuid) {
                continue;
            }
            let missed = self.modules.touch(&uuid, |entry| {
                entry.missed = entry.missed.saturating_add(1);
                let grace = if entry.started { grace } else { grace * 3 };
                let fresh = entry.sent.is_some_and(|sent| !now.is_past(sent, grace));
                (entry.kept.module.state, entry.missed >= MISSES && !fresh)
            });
            match missed {
                Some((State::Alive, true)) => self.handle_missing(runtime, &uuid, now, out),
                Some((State::Exiting, true)) => {
                    self.end_deleted(&uuid, Some("its runtime no longer reports it"), now, out);
                }
                _ => {}
            }
        }
    }

    /// Handles a missing module according to its policy. With `wait`, a module that its runtime has never reported as
    /// running is sent once more: the request was lost. A module that ran has ended while nobody listened (reference,
    /// section 5).
    fn handle_missing(&mut self, runtime: &Uuid, uuid: &Uuid, now: Clock, out: &mut Out) {
        let Some(entry) = self.modules.get(uuid) else {
            return;
        };
        let foreign = entry.kept.foreign;
        let arrived = entry.started || entry.again;
        let lost = Lost::Missing;
        match entry.kept.module.policy {
            Policy::Wait if !foreign && !arrived => {
                self.stats.lost += 1;
                out.report(FleetEvent::Lost(Box::new(entry.kept.clone()), lost));
                self.send(uuid, now, out);
                self.modules.touch(uuid, |entry| entry.again = true);
            }
            Policy::Move if !foreign => self.relocate(uuid, lost, now, out),
            Policy::Wait | Policy::Move | Policy::Drop => self.lose(uuid, lost, now, out),
        }
        self.fill(runtime, now, out);
    }
}

/// The runtime as described by its keepalive; some repeat the fields of the registration (reference, section 4.3).
fn runtime_from(keepalive: &Keepalive) -> Result<Runtime, Fault> {
    let mut data = keepalive.extra.clone();
    for own in ["status", "ka_interval_sec"] {
        data.remove(own);
    }
    data.insert("uuid".into(), keepalive.uuid.as_str().into());
    // Names become minion ids, so a missing name must not be the same for all.
    let name = keepalive.name.as_deref().unwrap_or(keepalive.uuid.as_str());
    data.insert("name".into(), name.into());
    if let Some(apis) = &keepalive.apis {
        let apis: Vec<Json> = apis.iter().map(|api| api.as_str().into()).collect();
        data.insert("apis".into(), apis.into());
    }
    Runtime::from_json(data.into()).map_err(|fault| *fault)
}

/// Whether a keepalive contains facts that differ from the known ones.
fn has_new_facts(runtime: &Runtime, keepalive: &Keepalive) -> bool {
    let name = keepalive
        .name
        .as_ref()
        .is_some_and(|name| *name != runtime.name);
    let apis = keepalive
        .apis
        .as_ref()
        .is_some_and(|apis| *apis != runtime.apis);
    name || apis
}

/// Takes over the facts in a keepalive.
fn update_facts(runtime: &mut Runtime, keepalive: &Keepalive) {
    if let Some(name) = &keepalive.name {
        runtime.name.clone_from(name);
    }
    if let Some(apis) = &keepalive.apis {
        runtime.apis.clone_from(apis);
    }
}
