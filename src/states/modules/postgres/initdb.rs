//! `postgres_initdb`: data directories (`salt/states/postgres_initdb.py`).

use super::{ask, changed};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_wire::Map;

pub const MODULE: StateModule = StateModule {
    name: "postgres_initdb",
    functions: &[StateFunction::new(
        "present",
        |s| super::run(s, present),
        "Ensures that a directory is a data directory.",
    )
    .args(args![
        user = None,
        password = None,
        auth = "password",
        encoding = "UTF8",
        locale = None,
        runas = None,
        waldir = None,
        checksums = False
    ])],
};

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let start = format!("Postgres data directory {name}");
    if ask(s, "datadir_exists", Map::new())?.truthy() {
        return Ok(StateOutcome::good(format!("{start} is already present")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "{start} is set to be initialized"
        )));
    }
    let kwargs = s.pick(&[
        "user",
        "password",
        "auth",
        "encoding",
        "locale",
        "waldir",
        "checksums",
        "runas",
    ]);
    if ask(s, "datadir_init", kwargs)?.truthy() {
        return Ok(changed(
            s,
            format!("{start} has been initialized"),
            "Present",
        ));
    }
    Ok(StateOutcome::bad(format!("{start} initialization failed")))
}
