//! Runtimes and managers: registration, return, confirmation, deletion, and the decisions of the operator.

use super::hear::RequestContext;
use super::out::Out;
use super::waiting_room::Wait;
use super::{Admission, Admitted, Fleet, FleetEvent, Gone};
use crate::registry::{Change, KeptRuntime};
use crate::wire::{Answer, Dialect, Fault, Manager, Runtime, RuntimeState, State, Trouble, Uuid};
use halite_gateway::clock::Clock;
use std::collections::HashSet;

impl Fleet {
    /// Handles the registration or return of a runtime.
    pub(super) fn register(
        &mut self,
        runtime: Runtime,
        ask: &RequestContext,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        match admission.admit(&runtime.uuid, &runtime.name) {
            Admitted::Yes(id) => {
                self.room_for(&runtime.uuid)?;
                let uuid = runtime.uuid.clone();
                let was_alive = self.mark_connected(runtime, id, ask.dialect, now, out);
                self.confirm(&uuid, ask, out);
                self.start_modules(&uuid, was_alive, &HashSet::new(), now, out);
                Ok(())
            }
            Admitted::Waiting(id) => {
                let remedy = format!("halite-key -a {id}");
                let fault = Fault {
                    request: Some(ask.object_id.clone()),
                    dialect: ask.dialect,
                    ..Fault::new(Trouble::NotAccepted, remedy)
                };
                if self.wait(runtime, id, ask.dialect, Some(ask), now, out) {
                    return Err(fault);
                }
                // It repeats its request until the operator decides: report it within the limit on errors only.
                if self.bucket.take(now) {
                    self.reply(ask, fault.answer(), out);
                }
                Ok(())
            }
            refused @ (Admitted::No(_) | Admitted::Deleted) => {
                let why = match refused {
                    Admitted::No(why) => why,
                    _ => "its key was deleted".to_owned(),
                };
                self.expel(&runtime.uuid, now, out);
                self.wait_unseen(runtime, ask.dialect, Some(ask), Wait::Again, now);
                Err(Fault::new(Trouble::NotAccepted, why))
            }
            Admitted::Unclear(why) => Err(Fault::new(Trouble::NotAccepted, why)),
        }
    }

    /// Checks that one more runtime may be remembered. Waiting runtimes take no room from admitted ones.
    pub(super) fn room_for(&self, uuid: &Uuid) -> Result<(), Fault> {
        let (known, _) = self.runtimes.counts();
        let most = self.rules.max_runtimes;
        if self.runtimes.get(uuid).is_some() || known < most {
            Ok(())
        } else {
            Err(Fault::new(
                Trouble::TooMany,
                format!("runtimes: {most} at most"),
            ))
        }
    }

    /// Lets a runtime wait for the operator; returns whether that is new.
    pub(super) fn wait(
        &mut self,
        runtime: Runtime,
        id: String,
        dialect: Dialect,
        ask: Option<&RequestContext>,
        now: Clock,
        out: &mut Out,
    ) -> bool {
        self.expel(&runtime.uuid, now, out);
        let kept = self.new_record(runtime, id, dialect, now);
        let new = self.let_wait(kept.clone(), ask, Wait::Operator, now);
        if new {
            out.report(FleetEvent::Waiting(Box::new(kept)));
        }
        new
    }

    /// Remembers a runtime that is not admitted, without reporting it, so that admission is not checked for each of
    /// its keepalives, and in case the operator decides otherwise.
    pub(super) fn wait_unseen(
        &mut self,
        runtime: Runtime,
        dialect: Dialect,
        ask: Option<&RequestContext>,
        wait: Wait,
        now: Clock,
    ) {
        let known = self.runtimes.get(&runtime.uuid);
        let id = known.map(|entry| entry.kept.id.clone()).unwrap_or_default();
        let kept = self.new_record(runtime, id, dialect, now);
        self.let_wait(kept, ask, wait, now);
    }

    fn let_wait(
        &mut self,
        kept: KeptRuntime,
        ask: Option<&RequestContext>,
        wait: Wait,
        now: Clock,
    ) -> bool {
        let most = self.rules.max_waiting;
        self.waiting_room.wait(kept, ask.cloned(), wait, most, now)
    }

    /// Disconnects a runtime that is no longer admitted.
    fn expel(&mut self, uuid: &Uuid, now: Clock, out: &mut Out) {
        if self.runtimes.get(uuid).is_some_and(|entry| entry.alive()) {
            self.disconnect(std::slice::from_ref(uuid), Gone::Refused, now, out);
        }
    }

    /// The record of a runtime just heard.
    fn new_record(
        &self,
        mut runtime: Runtime,
        id: String,
        dialect: Dialect,
        now: Clock,
    ) -> KeptRuntime {
        runtime.state = RuntimeState::Alive;
        runtime.keepalive = self.rules.keepalive.as_secs();
        KeptRuntime {
            // Other runtimes may be a different program by now, which sends no keepalives; those of halite always do.
            speaks: runtime.metadata.get("halite").is_some(),
            runtime,
            id,
            heard: u64::try_from(now.unix).unwrap_or(0),
            memory: 0,
            dialect,
        }
    }

    /// Marks a runtime as connected; returns whether it was before.
    pub(super) fn mark_connected(
        &mut self,
        runtime: Runtime,
        id: String,
        dialect: Dialect,
        now: Clock,
        out: &mut Out,
    ) -> bool {
        let uuid = runtime.uuid.clone();
        self.waiting_room.take(&uuid);
        let mut kept = self.new_record(runtime, id, dialect, now);
        let before = self.runtimes.get(&uuid).filter(|entry| entry.alive());
        let before = before.map(|entry| entry.kept.clone());
        if let Some(before) = &before {
            kept.memory = before.memory;
        }
        self.runtimes.put(kept.clone(), now);
        self.runtimes.arrive(&uuid, now);
        out.save(Change::Runtime(Box::new(kept.clone())));
        let was_alive = before.is_some();
        match before {
            None => out.report(FleetEvent::Arrived(Box::new(kept))),
            Some(before) if (&before.runtime, &before.id) != (&kept.runtime, &kept.id) => {
                out.report(FleetEvent::Changed(Box::new(kept)));
            }
            Some(_) => {}
        }
        was_alive
    }

    /// Confirms a registration (reference, section 4.1).
    fn confirm(&mut self, uuid: &Uuid, ask: &RequestContext, out: &mut Out) {
        if let Some(entry) = self.runtimes.get(uuid) {
            let answer = Answer::registered(&entry.kept.runtime);
            self.reply(ask, answer, out);
        }
    }

    /// Starts the modules of a runtime that has connected: killed ones first, as far as there is room, then waiting
    /// ones. `running` are those that it listed as running, which are not sent.
    pub(super) fn start_modules(
        &mut self,
        uuid: &Uuid,
        was_alive: bool,
        running: &HashSet<Uuid>,
        now: Clock,
        out: &mut Out,
    ) {
        let killed = |fleet: &Fleet, module: &Uuid| {
            let entry = fleet.modules.get(module);
            entry.is_some_and(|entry| entry.kept.module.state == State::Killed)
        };
        if !was_alive {
            for module in self.modules.of(uuid) {
                if running.contains(&module) || !killed(self, &module) {
                    continue;
                }
                // Into the queue, from which they are started in their order.
                self.change_module(&module, now, out, |module| module.state = State::Queued);
            }
        }
        self.fill(uuid, now, out);
        if !was_alive {
            for module in self.modules.of(uuid) {
                let entry = self.modules.get(&module);
                if let Some(entry) = entry.filter(|p| p.kept.module.state == State::Queued) {
                    out.report(FleetEvent::Queued(Box::new(entry.kept.clone())));
                }
            }
        }
    }

    /// Handles the message that a runtime disconnects, sent by itself or by the broker.
    pub(super) fn unregister(
        &mut self,
        uuid: &Uuid,
        ask: &RequestContext,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        if ask.direct && ask.dialect == Dialect::Older {
            // It tells that runtime to end, which will say so itself (reference, section 4.1).
            return Ok(());
        }
        if self.waiting_room.take(uuid).is_some() {
            return Ok(());
        }
        let entry = self.runtimes.get(uuid);
        let entry = entry.ok_or_else(|| Fault::new(Trouble::UnknownRuntime, uuid.as_str()))?;
        if entry.alive() {
            self.disconnect(std::slice::from_ref(uuid), Gone::Deleted, now, out);
        }
        if ask.dialect == Dialect::Older {
            self.confirm(uuid, ask, out);
        }
        Ok(())
    }

    /// Handles the registration or return of a manager.
    pub(super) fn register_manager(
        &mut self,
        manager: Manager,
        ask: &RequestContext,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        let most = self.rules.max_managers;
        if !self.managers.contains_key(&manager.uuid) && self.managers.len() >= most {
            self.forget_idle_managers(out);
        }
        if !self.managers.contains_key(&manager.uuid) && self.managers.len() >= most {
            return Err(Fault::new(
                Trouble::TooMany,
                format!("managers: {most} at most"),
            ));
        }
        let manager = Manager {
            state: RuntimeState::Alive,
            ..manager
        };
        let before = self
            .managers
            .insert(manager.uuid.clone(), (manager.clone(), now.at));
        if before.is_none_or(|(before, _)| before != manager) {
            out.save(Change::Manager(manager.clone()));
        }
        self.reply(ask, Answer::manager(&manager), out);
        Ok(())
    }

    /// Forgets managers without known runtimes. They lose nothing by that: their later messages are handled all the
    /// same.
    fn forget_idle_managers(&mut self, out: &mut Out) {
        let busy: HashSet<&Uuid> = self
            .runtimes
            .iter()
            .filter_map(|entry| entry.kept.runtime.manager.as_ref())
            .collect();
        self.managers.retain(|uuid, _| {
            let keeps = busy.contains(uuid);
            if !keeps {
                out.save(Change::NoManager(uuid.clone()));
            }
            keeps
        });
    }

    /// Handles the message that a manager and all its runtimes disconnect. An unknown manager may still have some: it
    /// registers only once, perhaps with an earlier orchestrator.
    pub(super) fn unregister_manager(
        &mut self,
        uuid: &Uuid,
        now: Clock,
        out: &mut Out,
    ) -> Result<(), Fault> {
        let own = |manager: &Option<Uuid>| manager.as_ref() == Some(uuid);
        let units = self
            .runtimes
            .iter()
            .filter(|entry| own(&entry.kept.runtime.manager));
        let mut known = false;
        let mut alive = Vec::new();
        for entry in units {
            known = true;
            if entry.alive() {
                alive.push(entry.kept.runtime.uuid.clone());
            }
        }
        match self.managers.get_mut(uuid) {
            Some((manager, left)) if manager.state == RuntimeState::Alive => {
                manager.state = RuntimeState::Dead;
                *left = now.at;
                out.save(Change::Manager(manager.clone()));
            }
            Some(_) => {}
            None if known => {}
            None => return Err(Fault::new(Trouble::UnknownRuntime, uuid.as_str())),
        }
        alive.sort();
        self.disconnect(&alive, Gone::Manager, now, out);
        Ok(())
    }

    /// Handles the operator's decision about an id.
    pub(super) fn apply_decision(
        &mut self,
        id: &str,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) {
        for uuid in self.waiting_room.with_id(id) {
            self.recheck_waiting(&uuid, admission, now, out);
        }
        let Some(entry) = self.runtimes.by_id(id) else {
            return;
        };
        let alive = entry.alive();
        let KeptRuntime {
            runtime, dialect, ..
        } = entry.kept.clone();
        let standing = admission.check(&runtime.uuid, &runtime.name);
        if let Admitted::Yes(_) | Admitted::Unclear(_) = standing {
            return;
        }
        if !alive {
            // It had disconnected before, and its modules waited for it.
            for module in self.modules.of(&runtime.uuid) {
                self.orphaned(&module, Gone::Refused, now, out);
            }
        }
        // It still sends keepalives, or believes it is registered: it is admitted again if the operator agrees.
        match standing {
            Admitted::Deleted => {
                self.expel(&runtime.uuid, now, out);
                self.wait_unseen(runtime, dialect, None, Wait::Registration, now);
            }
            Admitted::Waiting(id) if alive => {
                self.wait(runtime, id, dialect, None, now, out);
            }
            Admitted::No(_) if alive => {
                self.expel(&runtime.uuid, now, out);
                self.wait_unseen(runtime, dialect, None, Wait::Again, now);
            }
            _ => {}
        }
    }

    /// Checks whether a waiting runtime is admitted now.
    pub(super) fn recheck_waiting(
        &mut self,
        uuid: &Uuid,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) {
        let Some(waiter) = self.waiting_room.get(uuid) else {
            return;
        };
        let KeptRuntime {
            runtime, dialect, ..
        } = waiter.kept.clone();
        match admission.check(uuid, &runtime.name) {
            Admitted::Deleted => self.waiting_room.await_registration(uuid),
            Admitted::Yes(_) if self.room_for(uuid).is_err() => {}
            Admitted::Yes(id) => {
                let ask = self.waiting_room.take(uuid).and_then(|waiter| waiter.ask);
                let was_alive = self.mark_connected(runtime, id, dialect, now, out);
                if let Some(ask) = &ask {
                    self.confirm(uuid, ask, out);
                }
                self.start_modules(uuid, was_alive, &HashSet::new(), now, out);
            }
            Admitted::Waiting(id) => {
                if let Some(kept) = self.waiting_room.mark_pending(uuid, id) {
                    out.report(FleetEvent::Waiting(Box::new(kept)));
                }
            }
            Admitted::No(_) | Admitted::Unclear(_) => {}
        }
    }
}
