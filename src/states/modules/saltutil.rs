//! `saltutil`: brings modules from the file server.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_wire::{Map, Value, map};

/// A function that runs the execution function of the same name.
macro_rules! sync {
    ($($name:literal)*) => {
        &[$(StateFunction::new($name, |s| run(s, concat!("saltutil.", $name)), "Syncs modules of this kind from the file server.").keywords()),*]
    };
}

pub(super) const MODULE: StateModule = StateModule {
    name: "saltutil",
    functions: sync!(
        "sync_all"
        "sync_beacons"
        "sync_clouds"
        "sync_engines"
        "sync_executors"
        "sync_grains"
        "sync_log_handlers"
        "sync_matchers"
        "sync_modules"
        "sync_output"
        "sync_outputters"
        "sync_pillar"
        "sync_proxymodules"
        "sync_renderers"
        "sync_resources"
        "sync_returners"
        "sync_sdb"
        "sync_serializers"
        "sync_states"
        "sync_thorium"
        "sync_tops"
        "sync_utils"
        "sync_wrapper"
    ),
};

fn run(s: &mut State<'_, '_>, fun: &str) -> Result {
    if s.test {
        return Ok(StateOutcome::would(format!("{fun} would have been run")));
    }
    let given = s.kwargs.clone();
    let answer = match s.salt_with(fun, Vec::new(), given) {
        Ok(answer) => answer,
        Err(e) => {
            return Ok(StateOutcome::bad(format!(
                "Failed to run sync_all: {}",
                e.message()
            )));
        }
    };
    // Of `sync_all`, the kinds that have changed.
    let changes = match answer {
        Value::Map(kinds) => kinds
            .0
            .into_iter()
            .filter(|(_, list)| list.truthy())
            .collect::<Map>(),
        list if list.truthy() => {
            let kind = fun.rsplit_once("sync_").map_or(fun, |(_, kind)| kind);
            map! {kind => list}
        }
        _ => Map::new(),
    };
    Ok(if changes.is_empty() {
        StateOutcome::good("No updates to sync")
    } else {
        StateOutcome::good("Sync performed").changes(changes)
    })
}
