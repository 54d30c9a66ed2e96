//! `event`: events for the master.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_wire::{Map, map};

const ARGS: &[Arg] = args![
    data = None,
    preload = None,
    with_env = False,
    with_grains = False,
    with_pillar = False,
    show_changed = True
];

pub(super) const MODULE: StateModule = StateModule {
    name: "event",
    functions: &[
        StateFunction::new("fire_master", send, "Sends an event to the master.")
            .args(ARGS)
            .keywords(),
        StateFunction::new("mod_watch", send, "Sends an event to the master.")
            .args(ARGS)
            .keywords(),
        StateFunction::new("send", send, "Sends an event to the master.")
            .args(ARGS)
            .keywords(),
        StateFunction::new(
            "wait",
            |_| Ok(StateOutcome::good("")),
            "Sends an event to the master if a watched state has changed.",
        )
        .args(args![sfun = None, data = None])
        .keywords(),
    ],
};

fn send(s: &mut State<'_, '_>) -> Result {
    let (name, data) = (s.name(), s.arg("data").clone());
    let changes = match s.flag("show_changed") {
        true => map! {"tag" => name.as_str(), "data" => data.clone()},
        false => Map::new(),
    };
    if s.test {
        return Ok(StateOutcome::would("Event would have been fired").changes(changes));
    }
    let mut given = s.pick(&["preload", "with_env", "with_grains", "with_pillar"]);
    for (key, value) in s.kwargs.iter() {
        if let Some(key) = key.as_str().filter(|key| *key != "sfun") {
            given.set(key, value.clone());
        }
    }
    let sent = s.salt_with("event.send", [name.into(), data], given)?;
    Ok(StateOutcome::new(Some(sent.truthy()), "Event fired").changes(changes))
}
