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
                "Failed to run {fun}: {}",
                e.message()
            )));
        }
    };
    let (changes, comment) = match answer {
        // Of `sync_all`, the kinds that have changed.
        Value::Map(kinds) => {
            let changed = kinds.0.into_iter().filter(|(_, list)| list.truthy());
            (changed.collect::<Map>(), "Sync performed".to_owned())
        }
        list if list.truthy() => {
            let kind = fun.rsplit_once("sync_").map_or(fun, |(_, kind)| kind);
            (map! {kind => list}, format!("Updated {kind}."))
        }
        _ => (Map::new(), String::new()),
    };
    Ok(if changes.is_empty() {
        StateOutcome::good("No updates to sync")
    } else {
        StateOutcome::good(comment).changes(changes)
    })
}
