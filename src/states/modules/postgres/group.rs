//! `postgres_group`: roles that do not log in (`salt/states/postgres_group.py`).

use super::role::{self, absent};
use crate::declare::{StateFunction, StateModule};
use halite_modules::args;

pub const MODULE: StateModule = StateModule {
    name: "postgres_group",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, |s| role::present(s, "group")),
            "Ensures that a group exists, with these rights, password and groups.",
        )
        .args(args![
            createdb = None,
            createroles = None,
            encrypted = None,
            superuser = None,
            inherit = None,
            login = None,
            replication = None,
            password = None,
            refresh_password = None,
            groups = None,
            user = None,
            maintenance_db = None,
            db_password = None,
            db_host = None,
            db_port = None,
            db_user = None
        ]),
        StateFunction::new(
            "absent",
            |s| super::run(s, |s| absent(s, "Group", "group_remove")),
            "Ensures that a group does not exist.",
        )
        .args(role::CONNECTION),
    ],
};
