//! `docker_container`.

use super::{once, replace, told, watched, with_engine};
use crate::declare::{State, StateFunction, StateModule};
use halite_modules::args;

const RUNNING: StateFunction = StateFunction::new(
    "running",
    |s| with_engine(s, replace::running),
    "Ensures that a container of this configuration is running.",
)
.args(args![
    image = None,
    skip_translate = None,
    ignore_collisions = False,
    validate_ip_addrs = True,
    force = False,
    watch_action = "force",
    start = True,
    shutdown_timeout = None,
    client_timeout = { 60 },
    networks = None
])
.keywords();

const RUN: StateFunction = StateFunction::new(
    "run",
    |s| with_engine(s, |s, engine| once::run(s, engine).or_else(told)),
    "Runs a container and waits for its end.",
)
.args(args![
    image = None,
    bg = False,
    failhard = True,
    replace = False,
    force = False,
    skip_translate = None,
    ignore_collisions = False,
    validate_ip_addrs = True,
    client_timeout = { 60 }
])
.keywords();

const STOPPED: StateFunction = StateFunction::new(
    "stopped",
    |s| with_engine(s, once::stopped),
    "Ensures that containers are not running.",
)
.args(args![
    containers = None,
    shutdown_timeout = None,
    unpause = False,
    error_on_absent = True
])
.keywords();

pub const MODULE: StateModule = StateModule {
    name: "docker_container",
    functions: &[
        RUNNING,
        RUN,
        STOPPED,
        StateFunction::new(
            "absent",
            |s| with_engine(s, once::absent),
            "Ensures that there is no such container.",
        )
        .args(args![force = False]),
        StateFunction::new(
            "mod_watch",
            mod_watch,
            "Makes the container anew, or sends it a signal.",
        )
        .args(args![sfun = None])
        .keywords(),
    ],
};

fn mod_watch(s: &mut State<'_, '_>) -> crate::declare::Result {
    // A signal instead of a new container is for the function itself.
    let action = s.low.get("watch_action");
    let forced = action.is_none_or(|action| action.is_str("force"));
    watched(
        s,
        &[
            ("running", &RUNNING, forced),
            ("run", &RUN, false),
            ("stopped", &STOPPED, false),
        ],
    )
}
