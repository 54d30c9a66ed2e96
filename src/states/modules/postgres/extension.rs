//! `postgres_extension`: extensions of a database (`salt/states/postgres_extension.py`).

use super::{ask, changed, connection, with};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;

pub const MODULE: StateModule = StateModule {
    name: "postgres_extension",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, present),
            "Ensures that an extension is installed, in this schema and version.",
        )
        .args(args![
            if_not_exists = None,
            schema = None,
            ext_version = None,
            from_version = None,
            user = None,
            maintenance_db = None,
            db_user = None,
            db_password = None,
            db_host = None,
            db_port = None
        ]),
        StateFunction::new(
            "absent",
            |s| {
                super::run(s, |s| {
                    let to = connection(s);
                    let more = s.pick(&["if_exists", "restrict", "cascade"]);
                    super::absent(
                        s,
                        "Extension",
                        "is_installed_extension",
                        "drop_extension",
                        more,
                        to,
                    )
                })
            },
            "Ensures that an extension is not installed.",
        )
        .args(args![
            if_exists = None,
            restrict = None,
            cascade = None,
            user = None,
            maintenance_db = None,
            db_user = None,
            db_password = None,
            db_host = None,
            db_port = None
        ]),
    ],
};

fn present(s: &mut State<'_, '_>) -> Result {
    let (name, to) = (s.name(), connection(s));
    let kwargs = with(s, &["schema", "ext_version"], &to);
    let flags = ask(s, "create_metadata", kwargs)?.str_list();
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    let mode = if has("EXTENSION NOT INSTALLED") {
        "install"
    } else if has("EXTENSION TO MOVE") || has("EXTENSION TO UPGRADE") {
        "upgrade"
    } else {
        return Ok(StateOutcome::good(format!(
            "Extension {name} is already present"
        )));
    };
    let done = format!("{}ed", mode.trim_end_matches('e'));
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Extension {name} is set to be {done}"
        )));
    }
    let kwargs = with(
        s,
        &["if_not_exists", "schema", "ext_version", "from_version"],
        &to,
    );
    if ask(s, "create_extension", kwargs)?.truthy() {
        let shown = if mode == "install" {
            "Installed"
        } else {
            "Upgraded"
        };
        let text = format!("The extension {name} has been {done}");
        return Ok(changed(s, text, shown));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to {mode} extension {name}"
    )))
}
