//! Timeouts: silent runtimes, and records to forget (reference, section 5).

use super::keepalives::STRAY;
use super::out::Out;
use super::runtimes::{gone as gone_after, late as late_after};
use super::{Admission, Fleet, FleetEvent, Gone, Lost};
use crate::registry::Change;
use crate::wire::{RuntimeState, State, Uuid};
use halite_gateway::clock::Clock;

impl Fleet {
    /// Handles everything due by the clock.
    pub(super) fn handle_timeouts(
        &mut self,
        admission: &mut dyn Admission,
        now: Clock,
        out: &mut Out,
    ) {
        if self.up {
            self.check_silence(now, out);
        }
        for uuid in self.waiting_room.due(self.rules.forget_after, now) {
            self.recheck_waiting(&uuid, admission, now, out);
        }
        self.forget_old(now, out);
    }

    /// Called when the broker is connected. The saved fleet may end in the middle of a change, since the gateway can
    /// be killed at any time: modules of disconnected runtimes are treated as if these had just disconnected. Waiting
    /// modules may find a place.
    pub(super) fn repair(&mut self, now: Clock, out: &mut Out) {
        let mut modules: Vec<(u64, Uuid)> = self
            .modules
            .iter()
            .map(|entry| (entry.kept.module.index, entry.kept.module.uuid.clone()))
            .collect();
        modules.sort();
        for (_, uuid) in modules {
            self.repair_module(&uuid, now, out);
        }
        let alive = self.runtimes.iter().filter(|entry| entry.alive());
        let mut alive: Vec<Uuid> = alive.map(|entry| entry.kept.runtime.uuid.clone()).collect();
        alive.sort();
        for uuid in alive {
            self.fill(&uuid, now, out);
        }
    }

    fn repair_module(&mut self, uuid: &Uuid, now: Clock, out: &mut Out) {
        let Some(entry) = self.modules.get(uuid) else {
            return;
        };
        let module = &entry.kept.module;
        let host = module
            .runtime
            .as_ref()
            .map(|runtime| self.runtimes.get(runtime));
        let alive = host.map(|host| host.map(|host| host.alive()));
        match (module.state, alive) {
            (State::Dead, _) | (State::Queued, None) => {}
            (State::Killed, Some(Some(true))) | (_, None) => {
                self.change_module(uuid, now, out, |module| module.state = State::Queued);
            }
            (_, Some(Some(true))) | (State::Killed, Some(Some(false))) => {}
            (_, Some(Some(false))) => self.orphaned(uuid, Gone::Deleted, now, out),
            (_, Some(None)) => self.lose(uuid, Lost::Runtime(Gone::Deleted), now, out),
        }
    }

    /// Runtimes are late after one and a half intervals without a keepalive, and disconnected after three.
    fn check_silence(&mut self, now: Clock, out: &mut Out) {
        let mut gone: Vec<Uuid> = Vec::new();
        let mut late: Vec<Uuid> = Vec::new();
        for entry in self.runtimes.iter() {
            let Some(pace) = entry.pace() else {
                continue;
            };
            let uuid = &entry.kept.runtime.uuid;
            if now.is_past(entry.heard, gone_after(pace)) {
                gone.push(uuid.clone());
            } else if !entry.late && now.is_past(entry.heard, late_after(pace)) {
                late.push(uuid.clone());
            }
        }
        late.sort();
        for uuid in late {
            self.runtimes.touch(&uuid, |entry| entry.late = true);
            out.report(FleetEvent::Late(uuid));
        }
        gone.sort();
        self.disconnect(&gone, Gone::Silent, now, out);
    }

    /// Forgets dead modules, disconnected runtimes that no module names, and disconnected managers.
    fn forget_old(&mut self, now: Clock, out: &mut Out) {
        let before = now.at.checked_sub(self.rules.forget_after);
        while let Some(uuid) = self.modules.oldest_ended(before, self.rules.max_modules) {
            self.forget_module(&uuid, now, out);
        }
        let after = self.rules.forget_after;
        let forgotten = self.runtimes.iter().filter(|entry| {
            let left = entry.left.is_some_and(|left| now.is_past(left, after));
            left && !self.modules.name_runtime(&entry.kept.runtime.uuid)
        });
        let mut forgotten: Vec<Uuid> = forgotten
            .map(|entry| entry.kept.runtime.uuid.clone())
            .collect();
        forgotten.sort();
        for uuid in forgotten {
            self.runtimes.take(&uuid);
            out.save(Change::NoRuntime(uuid));
        }
        self.managers.retain(|uuid, (manager, since)| {
            let keeps = manager.state == RuntimeState::Alive || !now.is_past(*since, after);
            if !keeps {
                out.save(Change::NoManager(uuid.clone()));
            }
            keeps
        });
        // Strays that have not reported their end in time are no longer waited for and free their places.
        self.end_strays(|_, _, at| now.is_past(at, STRAY), now, out);
    }
}
