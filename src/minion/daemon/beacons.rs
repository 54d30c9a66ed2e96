//! What the daemon does about beacons, and about its pillar where it has no master.

use super::Minion;
use crate::background::LoopEvent;
use crate::beacon_runner::Seen;
use halite_channel::pillar_request::PillarQuery;
use halite_modules::execution::{Context, template_functions};
use halite_modules::pillar;
use halite_wire::Map;
use std::time::Instant;

impl Minion {
    /// Lets the beacons look that are due, beside the loop.
    pub(super) fn look(&mut self) {
        let looks = self.lookout.beacons.due(Instant::now());
        if looks.is_empty() {
            return;
        }
        let mut watcher = self.lookout.watcher.take().unwrap_or_default();
        for name in self.lookout.beacons.take_removed() {
            watcher.forget(&name);
        }
        let leader = self.leader();
        let ctx = Context {
            id: self.config.id.clone(),
            grains: self.grains.clone(),
            pillar: self.jobs.site(leader).pillar.clone(),
            opts: self.config.as_map(),
            cachedir: self.config.cachedir.clone(),
            ..Context::default()
        };
        let begun = self.shared.aside("beacons", move || {
            let events = watcher.poll(&ctx, &looks);
            Some(LoopEvent::Seen(Box::new(Seen { watcher, events })))
        });
        if !begun {
            self.lookout.beacons.seen();
        }
    }

    /// Tells what beacons have seen: the local bus, and from there the masters.
    pub(super) fn seen(&mut self, seen: Seen) {
        let Seen { watcher, events } = seen;
        self.lookout.beacons.seen();
        self.lookout.watcher = Some(watcher);
        if !events.is_empty() {
            // Others on the local bus hear it; what the daemon fires itself does not come back to it.
            let told = halite_wire::map! {"beacons" => events.clone()};
            self.tell("__beacons_return", &told);
            self.fire_master(&halite_wire::map! {"events" => events});
        }
    }

    /// Changes or shows beacons.
    pub(super) fn manage_beacons(&mut self, request: &Map) {
        if let Some(told) = self.lookout.beacons.manage(request, Instant::now()) {
            self.tell(told.tag, &told.data);
        }
    }

    /// Compiles the pillar of a minion without a master, beside the loop.
    pub(super) fn own_pillar(&self) {
        let (opts, grains) = (self.config.as_map(), self.grains.clone());
        self.shared.aside("pillar", move || {
            let pillar = pillar::local(&opts, &grains, &PillarQuery::of(&opts), template_functions);
            let pillar = pillar.map_err(|e| log::error!("{e}")).ok();
            Some(LoopEvent::Pillar(0, pillar))
        });
    }
}
