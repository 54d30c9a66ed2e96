//! `beacon`: calls `mod_beacon` at the end of the run (`salt/state.py State.call_beacons`).

use super::Requisite;
use super::run::Run;
use halite_wire::Map;

impl Run<'_, '_> {
    /// Calls `mod_beacon` of each state that has an argument `beacon`, even if a failure has ended the run.
    pub(super) fn beacons(&mut self, order: &[usize]) {
        if self.compiled.single {
            return;
        }
        let graph = &mut self.compiled.graph;
        let mut seen = Vec::new();
        let mut calls = Vec::new();
        for &at in order {
            if graph.chunks[at].contains("beacon") && !seen.contains(&at) {
                seen.push(at);
                let call = beacon_call(&graph.chunks[at]);
                calls.push(graph.add(call));
            }
        }
        self.all(&calls);
    }
}

fn beacon_call(chunk: &Map) -> Map {
    let mut low = chunk.clone();
    low.set("sfun", chunk.get("fun").cloned());
    low.set("fun", "mod_beacon");
    let id = chunk.str("__id__").unwrap_or_default();
    low.set("__id__", format!("beacon_{id}"));
    for requisite in Requisite::ALL {
        low.remove(requisite.name());
    }
    low.remove("onfail_stop");
    low
}
