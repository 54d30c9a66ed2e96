//! Fleet events as events on the bus.
//!
//! Tags are `arena/runtime/<uuid>/<what>` and `arena/module/<uuid>/<what>`; the type of a uuid guarantees that it is
//! one level of a tag. The data has what a reactor needs to act: minion id, names, reason.

use super::fleet::{Fleet, FleetEvent};
use super::jobs::{describe_exit, gone_reason, lost_reason};
use super::output::Batch;
use crate::registry::{KeptModule, KeptRuntime};
use halite_wire::Map;
use halite_wire::ids::MinionId;

/// The bus event of a fleet event; `None` if there is none.
pub(super) fn from_fleet_event(happening: &FleetEvent, fleet: &Fleet) -> Option<(String, Map)> {
    Some(match happening {
        FleetEvent::Arrived(kept) => runtime(kept, "registered"),
        FleetEvent::Changed(kept) => runtime(kept, "changed"),
        FleetEvent::Waiting(kept) => with_field(runtime(kept, "waiting"), "state", "waiting"),
        FleetEvent::Late(uuid) => runtime(fleet.runtime(uuid)?, "late"),
        FleetEvent::Left(kept, why) => {
            // A runtime that went silent is lost; any other either announced that it leaves or was removed.
            let what = match why {
                super::fleet::Gone::Silent => "lost",
                _ => "gone",
            };
            with_field(runtime(kept, what), "reason", gone_reason(*why))
        }
        FleetEvent::Queued(kept) => module(kept, fleet, "queued"),
        FleetEvent::Sent(kept) => module(kept, fleet, "sent"),
        FleetEvent::Started(kept) => module(kept, fleet, "started"),
        FleetEvent::Refused(kept, why) => with_field(module(kept, fleet, "refused"), "reason", why),
        FleetEvent::Stopping(kept) => module(kept, fleet, "stopping"),
        FleetEvent::Ended(kept, exit) => {
            let (tag, mut data) = module(kept, fleet, "exited");
            data.0.extend(describe_exit(exit).0);
            (tag, data)
        }
        FleetEvent::Lost(kept, why) => {
            with_field(module(kept, fleet, "lost"), "reason", lost_reason(*why))
        }
        FleetEvent::Moved(kept, from) => {
            let (tag, mut data) = module(kept, fleet, "moved");
            data.set("from", from.as_str());
            if let Some(before) = fleet.runtime(from) {
                data.set("from_id", before.id.as_str());
            }
            (tag, data)
        }
        FleetEvent::Foreign(kept) => module(kept, fleet, "foreign"),
        FleetEvent::Alive(_) | FleetEvent::Output(..) | FleetEvent::Fault(_) => return None,
    })
}

/// The event of lines that a module wrote.
pub(super) fn output(batch: Batch, kept: &KeptModule, fleet: &Fleet) -> (String, Map) {
    let what = if batch.stderr { "stderr" } else { "stdout" };
    let (tag, mut data) = module(kept, fleet, what);
    // They were written before what has happened since.
    data.remove("state");
    data.set("lines", batch.lines);
    data.set("dropped", batch.dropped);
    (tag, data)
}

/// The start events that every minion sends.
pub(super) fn start_events(id: &MinionId) -> [(String, Map); 2] {
    ["minion_start".to_owned(), format!("salt/minion/{id}/start")].map(|tag| {
        let data = halite_wire::map! {
            "id" => id.as_str(), "cmd" => "_minion_event", "pretag" => halite_wire::Value::Nil,
            "data" => format!("Minion {id} started"), "tag" => tag.as_str(),
        };
        (tag, data)
    })
}

fn runtime(kept: &KeptRuntime, what: &str) -> (String, Map) {
    let tag = format!("arena/runtime/{}/{what}", kept.runtime.uuid);
    (tag, kept.summary())
}

fn module(kept: &KeptModule, fleet: &Fleet, what: &str) -> (String, Map) {
    let tag = format!("arena/module/{}/{what}", kept.module.uuid);
    (tag, kept.brief(fleet.place_of(kept)))
}

fn with_field((tag, mut data): (String, Map), key: &str, value: &str) -> (String, Map) {
    data.set(key, value);
    (tag, data)
}
