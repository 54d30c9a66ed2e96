//! `postgres_user`: roles that log in (`salt/states/postgres_user.py`).

use super::role::{self, absent};
use crate::declare::{StateFunction, StateModule};
use halite_modules::args;

pub const MODULE: StateModule = StateModule {
    name: "postgres_user",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, |s| role::present(s, "user")),
            "Ensures that a user exists, with these rights, password and groups.",
        )
        .args(args![
            createdb = None,
            createroles = None,
            encrypted = None,
            superuser = None,
            replication = None,
            inherit = None,
            login = None,
            password = None,
            default_password = None,
            refresh_password = None,
            valid_until = None,
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
            |s| super::run(s, |s| absent(s, "User", "user_remove")),
            "Ensures that a user does not exist.",
        )
        .args(role::CONNECTION),
    ],
};
