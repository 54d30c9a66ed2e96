//! The daemon's handling of beacons, and of its pillar if it has no master.

use super::Minion;
use crate::background::LoopEvent;
use crate::beacon_runner::PollResult;
use halite_channel::pillar_request::PillarQuery;
use halite_modules::execution::{Context, template_functions};
use halite_modules::pillar;
use halite_wire::Map;
use std::time::Instant;

impl Minion {
    /// Polls the beacons that are due, in a thread.
    pub(super) fn poll_beacons(&mut self) {
        let looks = self.beacon_runner.beacons.due(Instant::now());
        if looks.is_empty() {
            return;
        }
        let mut watcher = self.beacon_runner.watcher.take().unwrap_or_default();
        for name in self.beacon_runner.beacons.take_removed() {
            watcher.forget(&name);
        }
        let ctx = self.context();
        let begun = self.shared.run_aside("beacons", move || {
            let events = watcher.poll(&ctx, &looks);
            Some(LoopEvent::BeaconsPolled(Box::new(PollResult {
                watcher,
                events,
            })))
        });
        if !begun {
            self.beacon_runner.beacons.finish_poll();
        }
    }

    /// What the daemon's own threads know: of the master whose pillar it uses, and no connection to it.
    pub(super) fn context(&mut self) -> Context {
        let leader = self.leader();
        Context {
            id: self.config.id.clone(),
            grains: self.grains.clone(),
            pillar: self.jobs.view_mut(leader).pillar.clone(),
            opts: std::sync::Arc::new(self.config.as_map()),
            cachedir: self.config.cachedir.clone(),
            ..Context::default()
        }
    }

    /// Fires the events of beacons on the local bus and to the masters.
    pub(super) fn beacons_polled(&mut self, polled: PollResult) {
        let PollResult { watcher, events } = polled;
        self.beacon_runner.beacons.finish_poll();
        self.beacon_runner.watcher = Some(watcher);
        if !events.is_empty() {
            // Other listeners of the local bus get it; the daemon does not receive what it fires itself.
            let told = halite_wire::map! {"beacons" => events.clone()};
            self.fire_local("__beacons_return", &told);
            self.fire_master(&halite_wire::map! {"events" => events});
        }
    }

    /// Changes or lists beacons.
    pub(super) fn manage_beacons(&mut self, request: &Map) {
        if let Some(told) = self.beacon_runner.beacons.manage(request, Instant::now()) {
            self.fire_local(told.tag, &told.data);
        }
    }

    /// Compiles the pillar of a minion without a master, in a thread.
    pub(super) fn compile_local_pillar(&self) {
        let (opts, grains) = (self.config.as_map(), self.grains.clone());
        self.shared.run_aside("pillar", move || {
            let pillar = pillar::local(&opts, &grains, &PillarQuery::of(&opts), template_functions);
            let pillar = pillar.map_err(|e| log::error!("{e}")).ok();
            Some(LoopEvent::Pillar(0, pillar))
        });
    }
}
