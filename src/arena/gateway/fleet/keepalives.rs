//! Keepalives: who is there, what runs there, what is missing (reference, sections 4.3 and 5).

use super::hear::Ask;
use super::out::Out;
use super::{Admission, Admitted, Fleet, FleetEvent, Lost};
use crate::registry::{Change, KeptModule};
use crate::wire::{
    Body, Child, Dialect, Fault, Json, Keepalive, Message, Module, Object, Place, Policy, Runtime,
    State, Uuid,
};
use halite_gateway::clock::Clock;
use std::collections::HashSet;
use std::time::Duration;

/// Time between two records of when a runtime was heard and how much memory it uses.
const SAVED: Duration = Duration::from_secs(60);
/// Modules of one runtime that nobody asked for here and that are shown all the same, at most.
const MAX_FOREIGN: usize = 256;
/// Keepalives without a module after which it is missing.
const MISSES: u8 = 2;
/// Time for which a module that was told to end, because it is not to run where it does, is not told so again.
pub(super) const STRAY: Duration = Duration::from_secs(30);

impl Fleet {
    /// A keepalive.
    pub(super) fn keepalive(
        &mut self,
        keepalive: Keepalive,
        ask: &Ask,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        self.stats.keepalives += 1;
        let uuid = &keepalive.uuid;
        let unit = self.runtimes.get(uuid);
        let alive = unit.is_some_and(|unit| unit.alive());
        if !alive && !self.adopt(&keepalive, ask, admission, now, out)? {
            return Ok(());
        }
        let changed = self.heard(&keepalive, now, out);
        let names = keepalive.children.is_some();
        let children = keepalive.children.unwrap_or_default();
        let running = self.children(uuid, children, now, out);
        // From a runtime that names no modules at all nothing is to be learned of them.
        if names {
            // What is no longer named has ended, if it was to end.
            self.end_strays(
                |module, on, _| on == uuid && !running.contains(module),
                now,
                out,
            );
            self.missing(uuid, &running, now, out);
        }
        if changed || !alive {
            self.settle(uuid, alive, &running, now, out);
        }
        Ok(())
    }

    /// A runtime that is gone or not known sends keepalives: whether it is there now. So the registry heals after a restart, since
    /// managers register once only (reference, section 5).
    fn adopt(
        &mut self,
        keepalive: &Keepalive,
        ask: &Ask,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) -> Result<bool, Fault> {
        let uuid = &keepalive.uuid;
        if self.waiting_room.hear(uuid, now) {
            return Ok(false);
        }
        let before = self.runtimes.get(uuid).map(|unit| unit.kept.clone());
        let dialect = before.as_ref().map_or(ask.dialect, |kept| kept.dialect);
        let mut runtime = match before {
            Some(kept) => kept.runtime,
            None => described(keepalive)?,
        };
        tell_anew(&mut runtime, keepalive);
        match admission.admit(uuid, &runtime.name) {
            Admitted::Yes(id) => {
                self.room_for(uuid)?;
                self.join(runtime, id, dialect, now, out);
                Ok(true)
            }
            Admitted::Waiting(id) => {
                self.wait(runtime, id, dialect, None, now, out);
                Ok(false)
            }
            Admitted::No(_) => {
                // Remembered, so that it is not asked about with each of its keepalives.
                self.wait_unseen(runtime, dialect, None, now);
                Ok(false)
            }
            Admitted::Unclear(_) => Ok(false),
        }
    }

    /// What a keepalive says of its runtime: whether that is new.
    fn heard(&mut self, keepalive: &Keepalive, now: Clock, out: &mut Out) -> bool {
        let uuid = &keepalive.uuid;
        let children = keepalive.children.iter().flatten();
        let memory = children.fold(0u64, |sum, child| sum.saturating_add(child.memory));
        let news = self.runtimes.touch(uuid, |unit| {
            unit.hear(now);
            unit.kept.memory = memory;
            let first = !std::mem::replace(&mut unit.kept.speaks, true);
            let changed = says_more(&unit.kept.runtime, keepalive);
            (changed, first || now.is_past(unit.saved, SAVED))
        });
        let Some((changed, save)) = news else {
            return false;
        };
        // Most keepalives say nothing new, and cost nothing here.
        if changed || save {
            let Some(mut kept) = self.runtimes.get(uuid).map(|unit| unit.kept.clone()) else {
                return false;
            };
            tell_anew(&mut kept.runtime, keepalive);
            out.keep(Change::Runtime(Box::new(kept.clone())));
            self.runtimes.put(kept.clone(), now);
            if changed {
                out.tell(FleetEvent::Changed(Box::new(kept)));
            }
        }
        out.tell(FleetEvent::Alive(uuid.clone()));
        changed
    }

    /// Modules that a keepalive names: all of them.
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
                self.child(runtime, &child, now, out);
                self.used(runtime, child);
            }
        }
        running
    }

    /// What a module of this runtime uses.
    fn used(&mut self, runtime: &Uuid, mut child: Child) {
        // What else a child tells is not shown anywhere.
        child.extra = Object::new();
        let uuid = child.uuid.clone();
        self.modules.touch(&uuid, |piece| {
            if piece.kept.module.runtime.as_ref() == Some(runtime) {
                piece.usage = Some(child);
            }
        });
    }

    fn child(&mut self, runtime: &Uuid, child: &Child, now: Clock, out: &mut Out) {
        let uuid = &child.uuid;
        let Some(piece) = self.modules.get(uuid) else {
            return self.foreign(runtime, child, now, out);
        };
        let foreign = piece.kept.foreign;
        let module = &piece.kept.module;
        let here = module.runtime.as_ref() == Some(runtime);
        match module.state {
            State::Alive if here => {
                self.modules.touch(uuid, |piece| {
                    piece.missed = 0;
                    piece.again = false;
                });
                self.started(uuid, out);
            }
            State::Exiting if here => self.ends(runtime, uuid, now, out),
            // It ended as far as anybody knew, and does not; or it runs where it was not sent yet, or again.
            State::Dead if here && piece.missing => self.found(runtime, uuid, now, out),
            // Unless that is what was to end, before it is to run again.
            State::Killed | State::Queued if self.is_stray(runtime, uuid, now) => {}
            State::Killed | State::Queued
                if here || module.scheduled || piece.before.as_ref() == Some(runtime) =>
            {
                self.found(runtime, uuid, now, out);
            }
            // Nobody sent it there.
            State::Killed | State::Queued => self.stray(runtime, uuid, now, out),
            State::Alive | State::Exiting | State::Dead if foreign => {
                self.found(runtime, uuid, now, out);
            }
            // It runs elsewhere by now, or nowhere.
            State::Alive | State::Exiting | State::Dead => self.stray(runtime, uuid, now, out),
        }
    }

    /// A module that was told to end still runs. If that is long ago its runtime has not heard it.
    fn ends(&mut self, runtime: &Uuid, uuid: &Uuid, now: Clock, out: &mut Out) {
        let again = self.modules.touch(uuid, |piece| {
            piece.missed = 0;
            let again = piece.told.is_none_or(|told| now.is_past(told, STRAY));
            if again {
                piece.told = Some(now.at);
            }
            again
        });
        if again == Some(true) {
            self.tell_to_end(runtime, uuid, out);
        }
    }

    /// A module runs on a runtime, whatever was known of it.
    fn found(&mut self, runtime: &Uuid, uuid: &Uuid, now: Clock, out: &mut Out) {
        let Some(piece) = self.modules.get(uuid) else {
            return;
        };
        let most = self.rules.max_modules;
        let (dead, foreign) = (piece.kept.module.state == State::Dead, piece.kept.foreign);
        let full = if foreign {
            self.foreign_full(runtime)
        } else {
            self.modules.living() >= most
        };
        if dead && full {
            self.stats.ignored += 1;
            return;
        }
        let from = piece.kept.module.runtime.clone();
        self.alter(uuid, now, out, |module| {
            module.runtime = Some(runtime.clone());
            module.state = State::Alive;
        });
        self.modules.touch(uuid, |piece| {
            piece.started = false;
            piece.missed = 0;
            piece.missing = false;
            piece.again = false;
            piece.before = None;
        });
        self.started(uuid, out);
        if let Some(from) = from.filter(|from| from != runtime) {
            self.fill(&from, now, out);
        }
    }

    /// A module's runtime says that it runs.
    pub(super) fn started(&mut self, uuid: &Uuid, out: &mut Out) {
        let first = self.modules.touch(uuid, |piece| {
            let first = !piece.started;
            piece.started = true;
            first.then(|| piece.kept.clone())
        });
        if let Some(kept) = first.flatten() {
            out.tell(FleetEvent::Started(Box::new(kept)));
        }
    }

    /// Whether no more modules of a runtime are shown that nobody asked for here.
    fn foreign_full(&self, runtime: &Uuid) -> bool {
        let (all, of_it) = self.modules.foreign(runtime);
        all >= self.rules.max_modules || of_it >= MAX_FOREIGN
    }

    /// A module that nobody asked for here.
    fn foreign(&mut self, runtime: &Uuid, child: &Child, now: Clock, out: &mut Out) {
        // They take no room from those that were asked for.
        if self.foreign_full(runtime) {
            self.stats.ignored += 1;
            return;
        }
        let word = |key| child.extra.get(key).and_then(Json::as_str);
        let kept = KeptModule {
            module: Module {
                uuid: child.uuid.clone(),
                name: word("name").unwrap_or("module").chars().take(255).collect(),
                index: self.number(),
                runtime: Some(runtime.clone()),
                scheduled: false,
                // Records have a file; which it is nobody says.
                file: "-".into(),
                filetype: None,
                apis: Vec::new(),
                argv: Vec::new(),
                env: Vec::new(),
                args: Object::new(),
                channels: Vec::new(),
                policy: Policy::Drop,
                state: State::Alive,
                extra: Object::new(),
            },
            created: u64::try_from(now.unix).unwrap_or(0),
            foreign: true,
        };
        self.enter(kept.clone(), now, out);
        self.modules
            .touch(&child.uuid, |piece| piece.started = true);
        out.tell(FleetEvent::Foreign(Box::new(kept)));
    }

    /// A module runs on a runtime that is not to have it: it was moved away, or deleted while the runtime was gone.
    fn stray(&mut self, runtime: &Uuid, uuid: &Uuid, now: Clock, out: &mut Out) {
        if self.is_stray(runtime, uuid, now) {
            return;
        }
        self.note_stray(uuid, runtime, now, out);
        self.tell_to_end(runtime, uuid, out);
    }

    /// Whether a module was told not long ago to end on a runtime where it is not to run.
    fn is_stray(&self, runtime: &Uuid, uuid: &Uuid, now: Clock) -> bool {
        let told = self.strays.get(uuid);
        told.is_some_and(|(on, at)| on == runtime && !now.is_past(*at, STRAY))
    }

    /// Tells a runtime to end a module.
    pub(super) fn tell_to_end(&mut self, runtime: &Uuid, module: &Uuid, out: &mut Out) {
        let unit = self.runtimes.get(runtime);
        let dialect = unit.map_or(Dialect::Draft, |unit| unit.kept.dialect);
        let body = Body::Delete(module.to_string(), None);
        let message = Message::new(self.ids.next(), dialect, body);
        let topic = self
            .rules
            .topics
            .topic(&Place::Control(Some(runtime.clone())));
        out.publish(topic.as_str(), &message);
    }

    /// Modules of a runtime that its keepalive did not name.
    fn missing(&mut self, runtime: &Uuid, running: &HashSet<Uuid>, now: Clock, out: &mut Out) {
        // One that was just sent may not have been there yet when the keepalive was written; with many at once, it may
        // not even have left: brokers take few publications at a time.
        let grace = self.runtimes.get(runtime).and_then(|unit| unit.pace());
        let grace = grace.unwrap_or_default();
        for uuid in self.modules.of(runtime) {
            if running.contains(&uuid) {
                continue;
            }
            let missed = self.modules.touch(&uuid, |piece| {
                piece.missed = piece.missed.saturating_add(1);
                let grace = if piece.started { grace } else { grace * 3 };
                let fresh = piece.sent.is_some_and(|sent| !now.is_past(sent, grace));
                (piece.kept.module.state, piece.missed >= MISSES && !fresh)
            });
            match missed {
                Some((State::Alive, true)) => self.miss(runtime, &uuid, now, out),
                Some((State::Exiting, true)) => {
                    self.end_deleted(&uuid, Some("its runtime no longer names it"), now, out);
                }
                _ => {}
            }
        }
    }

    /// A module is missing: what becomes of it says its policy. With `wait` it is sent to its runtime again, once, if that has never
    /// said that it runs: then the request was lost. One that ran has ended while nobody listened (reference, section 5).
    fn miss(&mut self, runtime: &Uuid, uuid: &Uuid, now: Clock, out: &mut Out) {
        let Some(piece) = self.modules.get(uuid) else {
            return;
        };
        let foreign = piece.kept.foreign;
        let arrived = piece.started || piece.again;
        let lost = Lost::Missing;
        match piece.kept.module.policy {
            Policy::Wait if !foreign && !arrived => {
                self.stats.lost += 1;
                out.tell(FleetEvent::Lost(Box::new(piece.kept.clone()), lost));
                self.send(uuid, now, out);
                self.modules.touch(uuid, |piece| piece.again = true);
            }
            Policy::Move if !foreign => self.relocate(uuid, lost, now, out),
            Policy::Wait | Policy::Move | Policy::Drop => self.lose(uuid, lost, now, out),
        }
        self.fill(runtime, now, out);
    }
}

/// A runtime, as its keepalive tells of it; some repeat what they registered with (reference, section 4.3).
fn described(keepalive: &Keepalive) -> Result<Runtime, Fault> {
    let mut data = keepalive.extra.clone();
    for own in ["status", "ka_interval_sec"] {
        data.remove(own);
    }
    data.insert("uuid".into(), keepalive.uuid.as_str().into());
    // Names make minion ids, so one that is missing must not be everybody's.
    let name = keepalive.name.as_deref().unwrap_or(keepalive.uuid.as_str());
    data.insert("name".into(), name.into());
    if let Some(apis) = &keepalive.apis {
        let apis: Vec<Json> = apis.iter().map(|api| api.as_str().into()).collect();
        data.insert("apis".into(), apis.into());
    }
    Runtime::from_json(data.into()).map_err(|fault| *fault)
}

/// Whether a keepalive tells facts that are not those that are known.
fn says_more(runtime: &Runtime, keepalive: &Keepalive) -> bool {
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

/// Takes over the facts that a keepalive tells.
fn tell_anew(runtime: &mut Runtime, keepalive: &Keepalive) {
    if let Some(name) = &keepalive.name {
        runtime.name.clone_from(name);
    }
    if let Some(apis) = &keepalive.apis {
        runtime.apis.clone_from(apis);
    }
}
