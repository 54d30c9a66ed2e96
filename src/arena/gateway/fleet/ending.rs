//! The end of modules: deletion, exit notices, answers of runtimes, and disconnected runtimes (reference, sections 4.5
//! and 5).

use super::hear::RequestContext;
use super::keepalives::STRAY;
use super::out::Out;
use super::{Fleet, FleetEvent, Gone, Lost};
use crate::registry::Change;
use crate::wire::{
    Answer, Body, Dialect, ExitStatus, Fault, Message, ModuleExit, Object, Parent, Place, Policy,
    RuntimeState, State, Trouble, Uuid, Verdict,
};
use halite_gateway::clock::Clock;
use std::time::Instant;

impl Fleet {
    /// Handles a request to end a module.
    pub(super) fn handle_delete(
        &mut self,
        name: &str,
        parent: Option<&Parent>,
        ask: &RequestContext,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        let known = name
            .parse()
            .ok()
            .filter(|uuid| self.modules.get(uuid).is_some());
        if let (Some(uuid), Some(from)) = (&known, &ask.from) {
            let module = self.modules.get(uuid).map(|entry| &entry.kept.module);
            if module.is_some_and(|module| module.runtime.as_ref() == Some(from)) {
                // The request comes from its own runtime: the module has ended by itself (reference, T12).
                return self.handle_exit(by_itself(uuid), ask, now, out);
            }
        }
        let runtime = match &ask.runtime {
            Some(runtime) if ask.direct => Some(runtime.clone()),
            _ => parent.and_then(|Parent(text)| {
                let uuid = text.parse().ok()?;
                self.runtimes.get(&uuid).map(|_| uuid)
            }),
        };
        let uuid = self.module_for(name, runtime.as_ref())?;
        if ask.direct && self.runs(&uuid) {
            // Its runtime has received the request as well.
            self.mark_exiting(&uuid, now, out);
            return Ok(());
        }
        let module = self.stop(&uuid, now, out);
        if let Some(module) = module.filter(|_| !ask.direct) {
            self.reply(ask, Answer::deleted(&module.module), out);
        }
        Ok(())
    }

    /// Finds a module that has not ended, by uuid or unique name; on `runtime` if one is given.
    pub(super) fn module_for(&self, name: &str, runtime: Option<&Uuid>) -> Result<Uuid, Fault> {
        let unknown = || Fault::new(Trouble::UnknownModule, name);
        let of_it = |of: &Option<Uuid>| runtime.is_none() || of.as_ref() == runtime;
        if let Some(entry) = name.parse().ok().and_then(|uuid| self.modules.get(&uuid)) {
            let module = &entry.kept.module;
            return if module.state != State::Dead && of_it(&module.runtime) {
                Ok(module.uuid.clone())
            } else {
                Err(unknown())
            };
        }
        let mut named = self.modules.named(name).map(|entry| &entry.kept.module);
        let mut named = named.by_ref().filter(|module| of_it(&module.runtime));
        match (named.next(), named.next()) {
            (None, _) => Err(unknown()),
            (Some(module), None) => Ok(module.uuid.clone()),
            (Some(_), Some(_)) => Err(Fault::new(Trouble::Ambiguous, name)),
        }
    }

    fn runs(&self, uuid: &Uuid) -> bool {
        let entry = self.modules.get(uuid);
        entry.is_some_and(|p| matches!(p.kept.module.state, State::Alive | State::Exiting))
    }

    /// Ends a module: tells its runtime if it runs, else marks it as dead at once. Returns its record afterwards.
    pub(super) fn stop(
        &mut self,
        uuid: &Uuid,
        now: Clock,
        out: &mut Out,
    ) -> Option<Box<crate::registry::KeptModule>> {
        if self.runs(uuid) {
            let runtime = self.modules.get(uuid)?.kept.module.runtime.clone()?;
            self.mark_exiting(uuid, now, out);
            self.tell_to_end(&runtime, uuid, out);
        } else {
            self.end_deleted(uuid, None, now, out);
        }
        self.modules
            .get(uuid)
            .map(|entry| Box::new(entry.kept.clone()))
    }

    /// Marks a module as told to end.
    fn mark_exiting(&mut self, uuid: &Uuid, now: Clock, out: &mut Out) {
        let exiting = self.modules.get(uuid).map(|entry| entry.kept.module.state);
        if exiting == Some(State::Exiting) {
            return;
        }
        self.modules.touch(uuid, |entry| {
            entry.missed = 0;
            entry.told = Some(now.at);
        });
        if let Some(kept) =
            self.change_module(uuid, now, out, |module| module.state = State::Exiting)
        {
            out.report(FleetEvent::Stopping(kept));
        }
    }

    /// Handles the notice that a module has ended.
    pub(super) fn handle_exit(
        &mut self,
        exit: ModuleExit,
        ask: &RequestContext,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        let uuid = exit.uuid.clone();
        let entry = self.modules.get(&uuid);
        let entry = entry.ok_or_else(|| Fault::new(Trouble::UnknownModule, uuid.as_str()))?;
        let module = &entry.kept.module;
        let from = ask.from.clone();
        let from = from.filter(|from| self.runtimes.get(from).is_some());
        let speaker = ask.runtime.clone().filter(|_| ask.direct).or(from);
        if let Some(speaker) = &speaker {
            let unix = u64::try_from(now.unix).unwrap_or(0);
            self.runtimes
                .touch(speaker, |entry| entry.kept.heard = unix);
        }
        let stray = self
            .strays
            .get(&uuid)
            .filter(|(_, at)| !now.is_past(*at, STRAY));
        let stray = stray.map(|(runtime, _)| runtime.clone());
        if let Some(stray) = stray.filter(|stray| speaker.as_ref().is_none_or(|s| s == stray)) {
            // It is the copy that was not supposed to run there any more.
            self.end_strays(|module, on, _| *module == uuid && *on == stray, now, out);
            return Ok(());
        }
        let elsewhere = speaker.is_some_and(|speaker| module.runtime.as_ref() != Some(&speaker));
        if elsewhere || matches!(module.state, State::Dead | State::Queued) {
            // A repeated notice, or one about an earlier run.
            self.stats.ignored += 1;
            return Ok(());
        }
        self.end(&uuid, exit, now, out);
        Ok(())
    }

    /// Records that a module has ended, and frees its place.
    pub(super) fn end(&mut self, uuid: &Uuid, exit: ModuleExit, now: Clock, out: &mut Out) {
        self.forget_request(uuid);
        let Some(kept) = self.change_module(uuid, now, out, |module| module.state = State::Dead)
        else {
            return;
        };
        self.stats.ended += 1;
        let runtime = kept.module.runtime.clone();
        self.send_exit_notice(runtime.as_ref(), &exit, out);
        out.report(FleetEvent::Ended(kept, exit));
        if let Some(runtime) = runtime {
            self.fill(&runtime, now, out);
        }
    }

    /// Records that a module that was told to end has ended, as far as we know.
    pub(super) fn end_deleted(
        &mut self,
        uuid: &Uuid,
        why: Option<&str>,
        now: Clock,
        out: &mut Out,
    ) {
        let exit = ModuleExit {
            status: ExitStatus::Deleted,
            reason: why.map(str::to_owned),
            ..by_itself(uuid)
        };
        self.end(uuid, exit, now, out);
    }

    /// Records that a module cannot be started.
    pub(super) fn fail(&mut self, uuid: &Uuid, why: &str, now: Clock, out: &mut Out) {
        let exit = ModuleExit {
            status: ExitStatus::Crashed,
            reason: Some(why.to_owned()),
            ..by_itself(uuid)
        };
        self.end(uuid, exit, now, out);
    }

    /// Records that a module is lost for good. A foreign module is forgotten altogether.
    pub(super) fn lose(&mut self, uuid: &Uuid, why: Lost, now: Clock, out: &mut Out) {
        self.stats.lost += 1;
        self.forget_request(uuid);
        let Some(kept) = self.change_module(uuid, now, out, |module| module.state = State::Dead)
        else {
            return;
        };
        self.modules
            .touch(uuid, |entry| entry.missing = why == Lost::Missing);
        self.send_exit_notice(kept.module.runtime.as_ref(), &by_itself(uuid), out);
        let foreign = kept.foreign;
        out.report(FleetEvent::Lost(kept, why));
        if foreign {
            self.forget_module(uuid, now, out);
        }
    }

    /// Forgets a module.
    pub(super) fn forget_module(&mut self, uuid: &Uuid, now: Clock, out: &mut Out) {
        self.forget_request(uuid);
        self.modules.remove(uuid);
        out.save(Change::NoModule(uuid.clone()));
        self.end_strays(|module, _, _| module == uuid, now, out);
    }

    /// Frees the places of strays (modules told to end on a runtime where they must not run) that have ended or are no
    /// longer waited for.
    pub(super) fn end_strays(
        &mut self,
        ended: impl Fn(&Uuid, &Uuid, Instant) -> bool,
        now: Clock,
        out: &mut Out,
    ) {
        if self.strays.is_empty() {
            return;
        }
        let mut free = Vec::new();
        self.strays.retain(|module, (on, at)| {
            let ended = ended(module, on, *at);
            if ended {
                free.push(on.clone());
            }
            !ended
        });
        free.sort();
        for runtime in free {
            self.fill(&runtime, now, out);
        }
    }

    /// Notes a stray: a module that must end on a runtime where it must not run, and takes a place until it does.
    pub(super) fn note_stray(&mut self, module: &Uuid, on: &Uuid, now: Clock, out: &mut Out) {
        let before = self.strays.insert(module.clone(), (on.clone(), now.at));
        if let Some((before, _)) = before.filter(|(before, _)| before != on) {
            self.fill(&before, now, out);
        }
    }

    /// Sends the older dialect's notice that a module has ended (reference, T16).
    fn send_exit_notice(&mut self, runtime: Option<&Uuid>, exit: &ModuleExit, out: &mut Out) {
        let entry = runtime.and_then(|runtime| self.runtimes.get(runtime));
        if entry.is_some_and(|entry| entry.kept.dialect == Dialect::Older) {
            let body = Body::Exited(exit.clone());
            let message = Message::new(self.ids.next(), Dialect::Older, body);
            out.publish(self.rules.topics.topic(&Place::Notif).as_str(), &message);
        }
    }

    /// Handles the answer of a runtime to our request; answers to others are ignored.
    pub(super) fn handle_answer(
        &mut self,
        answer: &Answer,
        ask: &RequestContext,
        now: Clock,
        out: &mut Out,
    ) {
        let Some(speaker) = ask.runtime.clone().or_else(|| ask.from.clone()) else {
            self.stats.ignored += 1;
            return;
        };
        let told = answer.uuid().and_then(|uuid| uuid.parse::<Uuid>().ok());
        let uuid = self.asks.get(&ask.object_id).cloned().or(told);
        let module = uuid.and_then(|uuid| self.modules.get(&uuid));
        let module = module.map(|entry| (&entry.kept.module, entry.asked.as_ref()));
        let Some((module, asked)) = module.filter(|(m, _)| m.runtime.as_ref() == Some(&speaker))
        else {
            self.stats.ignored += 1;
            return;
        };
        let uuid = module.uuid.clone();
        let action = answer.action.as_deref();
        // Some runtimes hear the user's request and answer that: with another id, and the uuid of the module.
        let heard = asked.is_some() && action == Some("create") && answer.verdict == Verdict::Ok;
        let create = asked == Some(&ask.object_id) && action != Some("delete") || heard;
        let deleted = action == Some("delete") && answer.verdict == Verdict::Ok;
        match (module.state, answer.verdict) {
            (State::Alive, Verdict::Ok) if create => {
                self.forget_request(&uuid);
                self.started(&uuid, out);
            }
            (State::Alive, Verdict::Error) if create => {
                self.handle_refusal(&uuid, &speaker, answer.why(), now, out);
            }
            (State::Exiting, _) if deleted => {
                self.end_deleted(&uuid, None, now, out);
            }
            _ => self.stats.ignored += 1,
        }
    }

    /// A runtime refuses a module. If the request did not name that runtime, another is tried.
    fn handle_refusal(&mut self, uuid: &Uuid, by: &Uuid, why: String, now: Clock, out: &mut Out) {
        self.forget_request(uuid);
        let arrival = self.runtimes.arrival(by);
        let told = self.modules.touch(uuid, |entry| {
            entry.refused_by.push((by.clone(), arrival));
            let module = &entry.kept.module;
            (
                module.scheduled,
                module.apis.clone(),
                entry.refused_by.clone(),
            )
        });
        let Some((scheduled, apis, refused_by)) = told else {
            return;
        };
        let (mut chosen, mut later) = (None, false);
        if scheduled {
            let (runtime, choice) = self.choice(&apis, &refused_by);
            (chosen, later) = (runtime, choice.later);
        }
        let kept = self.change_module(uuid, now, out, |module| match (&chosen, later) {
            (Some(runtime), _) => module.runtime = Some(runtime.clone()),
            (None, true) => {
                module.runtime = None;
                module.state = State::Queued;
            }
            (None, false) => module.state = State::Dead,
        });
        let Some(kept) = kept else {
            return;
        };
        out.report(FleetEvent::Refused(kept.clone(), why));
        match (&chosen, later) {
            (Some(runtime), _) => self.start(uuid, runtime, now, out),
            (None, true) => out.report(FleetEvent::Queued(kept)),
            (None, false) => {
                self.stats.ended += 1;
                self.send_exit_notice(Some(by), &by_itself(uuid), out);
            }
        }
        self.fill(by, now, out);
    }

    /// Handles runtimes that disconnected at the same time, so that none of them takes a module of another.
    pub(super) fn disconnect(&mut self, runtimes: &[Uuid], why: Gone, now: Clock, out: &mut Out) {
        for uuid in runtimes {
            let Some(entry) = self.runtimes.get(uuid).filter(|entry| entry.alive()) else {
                continue;
            };
            let mut kept = entry.kept.clone();
            kept.runtime.state = RuntimeState::Dead;
            kept.memory = 0;
            out.save(Change::Runtime(Box::new(kept.clone())));
            self.runtimes.put(kept.clone(), now);
            out.report(FleetEvent::Left(Box::new(kept), why));
        }
        self.end_strays(|_, on, _| runtimes.contains(on), now, out);
        for runtime in runtimes {
            for module in self.modules.of(runtime) {
                self.orphaned(&module, why, now, out);
            }
        }
    }

    /// Handles a module whose runtime has disconnected.
    pub(super) fn orphaned(&mut self, uuid: &Uuid, gone: Gone, now: Clock, out: &mut Out) {
        let Some(entry) = self.modules.get(uuid) else {
            return;
        };
        let why = Lost::Runtime(gone);
        let foreign = entry.kept.foreign;
        let runs = matches!(entry.kept.module.state, State::Alive | State::Exiting);
        if let (Gone::Refused, true, Some(runtime)) =
            (gone, runs && !foreign, entry.kept.module.runtime.clone())
        {
            // It is still there, and so is the module.
            self.tell_to_end(&runtime, uuid, out);
        }
        let Some(entry) = self.modules.get(uuid) else {
            return;
        };
        let module = &entry.kept.module;
        match (module.state, module.policy) {
            (State::Exiting, _) => {
                self.end_deleted(uuid, Some("its runtime is gone"), now, out);
            }
            (State::Alive, _) if foreign => self.lose(uuid, why, now, out),
            // Its runtime may come back, but under another identity.
            (State::Alive | State::Killed, Policy::Wait) if gone == Gone::Refused => {
                self.lose(uuid, why, now, out);
            }
            (State::Alive, Policy::Wait) => {
                self.stats.lost += 1;
                self.forget_request(uuid);
                let kept =
                    self.change_module(uuid, now, out, |module| module.state = State::Killed);
                if let Some(kept) = kept {
                    out.report(FleetEvent::Lost(kept, why));
                }
            }
            (State::Alive, Policy::Move) => self.relocate(uuid, why, now, out),
            (State::Alive, Policy::Drop) => self.lose(uuid, why, now, out),
            (State::Queued, policy) if module.scheduled || policy == Policy::Move => {
                self.relocate(uuid, why, now, out);
            }
            (State::Queued, _) => self.lose(uuid, why, now, out),
            (State::Killed | State::Dead, _) => {}
        }
    }
}

/// The exit notice of a module without details.
fn by_itself(uuid: &Uuid) -> ModuleExit {
    ModuleExit {
        uuid: uuid.clone(),
        status: ExitStatus::Exited,
        code: None,
        reason: None,
        extra: Object::new(),
    }
}
