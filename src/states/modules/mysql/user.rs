//! `mysql_user` (`salt/states/mysql_user.py`).

use super::{ask, changed, error, with_error};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::mysql::is_true;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

pub const MODULE: StateModule = StateModule {
    name: "mysql_user",
    functions: &[
        StateFunction::new(
            "present",
            |s| super::run(s, present),
            "Ensures that a user exists, with this password.",
        )
        .args(args![
            host = "localhost",
            password = None,
            password_hash = None,
            allow_passwordless = False,
            unix_socket = False,
            password_column = None,
            auth_plugin = "mysql_native_password"
        ])
        .keywords(),
        StateFunction::new(
            "absent",
            |s| super::run(s, absent),
            "Ensures that a user does not exist.",
        )
        .args(args![host = "localhost"])
        .keywords(),
    ],
};

/// Name and host of the user as arguments.
fn account(s: &State<'_, '_>) -> Vec<Value> {
    vec![s.name().into(), s.arg("host").clone()]
}

/// The user in comments.
fn shown(s: &State<'_, '_>) -> String {
    format!("{}@{}", s.name(), python::str(s.arg("host")))
}

fn exists(s: &mut State<'_, '_>, more: Map) -> Result<bool> {
    let args = account(s);
    Ok(ask(s, "user_exists", args, more)?.truthy())
}

fn present(s: &mut State<'_, '_>) -> Result {
    let user = shown(s);
    let passwordless = !s.flag("password") && !s.flag("password_hash");
    let allowed = is_true(s.arg("allow_passwordless"));
    if passwordless && !allowed && !s.flag("unix_socket") {
        return Ok(StateOutcome::bad(
            "Either password or password_hash must be specified, unless allow_passwordless is True",
        ));
    }
    let mut more = s.pick(&["unix_socket", "password_column"]);
    if passwordless {
        more.set("passwordless", true);
    } else {
        more.0.extend(s.pick(&["password", "password_hash"]).0);
    }
    if exists(s, more)? {
        return Ok(StateOutcome::good(format!(
            "User {user} is already present{}",
            as_wanted(s, passwordless)
        )));
    }
    if let Some(failed) = error() {
        return Ok(failed);
    }
    let unix_socket = s.pick(&["unix_socket"]);
    if exists(s, unix_socket)? {
        return change(s, &user, passwordless, allowed);
    }
    if let Some(failed) = error() {
        return Ok(failed);
    }
    create(s, &user)
}

/// How a user is that is as it should be.
fn as_wanted(s: &State<'_, '_>, passwordless: bool) -> &'static str {
    let native = s.arg("auth_plugin").is_str("mysql_native_password");
    match (passwordless, native) {
        (true, _) if s.flag("allow_passwordless") => " with passwordless login",
        (true, _) => "",
        (false, true) if s.flag("password") => " with the desired password",
        (false, true) => " with the desired password hash",
        (false, false) => ". Unable to verify password.",
    }
}

fn change(s: &mut State<'_, '_>, user: &str, passwordless: bool, allowed: bool) -> Result {
    let done = if passwordless { "cleared" } else { "changed" };
    if s.test {
        let text = format!("Password for user {user} is set to be {done}");
        if passwordless && !allowed {
            return Ok(StateOutcome::bad(format!(
                "{text}, but allow_passwordless != True"
            )));
        }
        return Ok(StateOutcome::would(text));
    }
    let secret = s.pick(&[
        "password",
        "password_hash",
        "allow_passwordless",
        "unix_socket",
    ]);
    let args = account(s);
    if ask(s, "user_chpass", args, secret)?.truthy() {
        let text = format!("Password for user {user} has been {done}");
        return Ok(changed(s, text, "Updated"));
    }
    let verb = if passwordless { "clear" } else { "change" };
    let mut text = with_error(format!("Failed to {verb} password for user {user}"));
    if passwordless && !allowed {
        text += ". Note: allow_passwordless must be True to permit passwordless login.";
    }
    Ok(StateOutcome::bad(text))
}

fn create(s: &mut State<'_, '_>, user: &str) -> Result {
    let mut how = String::new();
    if s.flag("allow_passwordless") {
        how += " with passwordless login";
    }
    let denied = s.test && !how.is_empty() && !is_true(s.arg("allow_passwordless"));
    if denied {
        how += ", but allow_passwordless != True";
    }
    if s.flag("unix_socket") {
        how += " using unix_socket";
    }
    if s.test {
        let text = format!("User {user} is set to be added{how}");
        return Ok(if denied {
            StateOutcome::bad(text)
        } else {
            StateOutcome::would(text)
        });
    }
    let secret = s.pick(&[
        "password",
        "password_hash",
        "allow_passwordless",
        "unix_socket",
        "password_column",
        "auth_plugin",
    ]);
    let args = account(s);
    if ask(s, "user_create", args, secret)?.truthy() {
        let text = format!("The user {user} has been added{how}");
        return Ok(changed(s, text, "Present"));
    }
    Ok(StateOutcome::bad(with_error(format!(
        "Failed to create user {user}"
    ))))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let user = shown(s);
    if exists(s, map! {})? {
        if s.test {
            return Ok(StateOutcome::would(format!(
                "User {user} is set to be removed"
            )));
        }
        let args = account(s);
        if ask(s, "user_remove", args, Map::new())?.truthy() {
            let text = format!("User {user} has been removed");
            return Ok(changed(s, text, "Absent"));
        }
    }
    if let Some(failed) = error() {
        return Ok(failed);
    }
    Ok(StateOutcome::good(format!(
        "User {user} is not present, so it cannot be removed"
    )))
}
