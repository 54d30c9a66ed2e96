//! What `postgres_user` and `postgres_group` share.

use super::{ask, changed, connection, with};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::{postgres, python};
use halite_wire::{Map, Value, map};

/// The arguments of `absent`.
pub const CONNECTION: &[Arg] = args![
    user = None,
    maintenance_db = None,
    db_password = None,
    db_host = None,
    db_port = None,
    db_user = None
];

/// Arguments, and what the server calls them.
const RIGHTS: [(&str, &str); 6] = [
    ("createdb", "can create databases"),
    ("inherit", "inherits privileges"),
    ("login", "can login"),
    ("createroles", "can create roles"),
    ("replication", "replication"),
    ("superuser", "superuser"),
];

/// What comments call a role.
fn capital(kind: &str) -> &'static str {
    if kind == "user" { "User" } else { "Group" }
}

/// An argument that only users have.
fn of_users(s: &State<'_, '_>, kind: &str, name: &str) -> Value {
    if kind == "user" {
        s.arg(name).clone()
    } else {
        Value::Nil
    }
}

/// `present`.
pub fn present(s: &mut State<'_, '_>, kind: &str) -> Result {
    let (name, to) = (s.name(), connection(s));
    let refresh = s.flag("refresh_password");
    let mut kwargs = to.clone();
    kwargs.set("return_password", !refresh);
    let role = ask(s, "role_get", kwargs)?;
    let role = role.as_map();
    let password = password(s, kind, role.filter(|_| !refresh), role.is_none())?;
    let update = match role {
        Some(role) => differences(s, kind, role, password.is_some(), &to)?,
        None => Map::new(),
    };
    if role.is_some() && update.is_empty() {
        return Ok(StateOutcome::good(format!(
            "{} {name} is already present",
            capital(kind)
        )));
    }
    let mode = if role.is_some() { "update" } else { "create" };
    let mut changes = Map::new();
    if s.test {
        let text = format!("{} {name} is set to be {mode}d", capital(kind));
        if !update.is_empty() {
            changes.set(name, update);
        }
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let mut kwargs = with(
        s,
        &[
            "createdb",
            "createroles",
            "superuser",
            "login",
            "inherit",
            "replication",
            "groups",
        ],
        &to,
    );
    let encrypted = match s.arg("encrypted") {
        Value::Nil => "md5".into(),
        other => other.clone(),
    };
    kwargs.set("encrypted", encrypted);
    kwargs.set("rolepassword", password);
    if kind == "user" {
        kwargs.set("valid_until", s.arg("valid_until").clone());
    }
    if !ask(s, &format!("{kind}_{mode}"), kwargs)?.truthy() {
        return Ok(StateOutcome::bad(format!("Failed to {mode} {kind} {name}")));
    }
    let text = format!("The {kind} {name} has been {mode}d");
    if update.is_empty() {
        return Ok(changed(s, text, "Present"));
    }
    changes.set(name, update);
    Ok(StateOutcome::good(text).changes(changes))
}

/// What the server shall keep of the password; `None` if that does not change. `known` is the role with its password.
fn password(
    s: &State<'_, '_>,
    kind: &str,
    known: Option<&Map>,
    creating: bool,
) -> Result<Option<String>> {
    let mut password = s.text("password");
    if creating && password.is_none() {
        let default = of_users(s, kind, "default_password");
        password = (!default.is_nil()).then(|| python::str(&default));
    }
    let (name, Some(password)) = (s.name(), password) else {
        return Ok(None);
    };
    let encrypted = s.arg("encrypted");
    if let Some(role) = known {
        let stored = role.str("password").unwrap_or_default();
        if postgres::is_current_password(&name, &password, stored, encrypted) {
            return Ok(None);
        }
    }
    postgres::password_verifier(&name, &password, encrypted).map(Some)
}

fn differences(
    s: &mut State<'_, '_>,
    kind: &str,
    role: &Map,
    password: bool,
    to: &Map,
) -> Result<Map> {
    let mut update = Map::new();
    for (arg, key) in RIGHTS {
        let wanted = s.arg(arg);
        if !wanted.is_nil() && role.get(key) != Some(wanted) {
            update.set(arg, wanted.clone());
        }
    }
    if password {
        update.set("password", true);
    }
    let until = of_users(s, kind, "valid_until");
    if !until.is_nil()
        && expiry(s, &python::str(&until), to)? != role.str("expiry time").map(str::to_owned)
    {
        update.set("valid_until", until);
    }
    let has = role.get("groups").map(Value::str_list).unwrap_or_default();
    let wanted = match s.arg("groups") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Str(text) => text.split(',').map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let missing: Vec<String> = wanted.into_iter().filter(|g| !has.contains(g)).collect();
    if !missing.is_empty() {
        update.set("groups", missing);
    }
    Ok(update)
}

/// A time as the server understands it.
fn expiry(s: &mut State<'_, '_>, text: &str, to: &Map) -> Result<Option<String>> {
    let query = format!(
        "SELECT {}::timestamp(0) as dt;",
        postgres::quoted_text(text)
    );
    let rows = s.salt_with("postgres.psql_query", vec![query.into()], to.clone())?;
    let first = rows.as_array().and_then(|rows| rows.first());
    let Some(row) = first.and_then(Value::as_map) else {
        return Err(halite_modules::execution::CallError::raised(
            "IndexError",
            "list index out of range",
        ));
    };
    Ok(row.str("dt").and_then(postgres::timestamp))
}

/// `absent`.
pub fn absent(s: &mut State<'_, '_>, kind: &str, remove: &str) -> Result {
    let to = connection(s);
    super::absent(s, kind, "user_exists", remove, map! {}, to)
}
