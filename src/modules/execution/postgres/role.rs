//! Users and groups, which are both roles.

use super::super::declare::Result;
use super::super::pkg::loose_version;
use super::super::{Call, python};
use super::password;
use super::psql::{self, Connection};
use halite_wire::{Map, Value};
use jiff::civil::DateTime;

/// Arguments of statements for roles in the order of their flags.
const FLAGS: [(&str, &str); 6] = [
    ("inherit", "INHERIT"),
    ("createdb", "CREATEDB"),
    ("createroles", "CREATEROLE"),
    ("superuser", "SUPERUSER"),
    ("replication", "REPLICATION"),
    ("login", "LOGIN"),
];

/// All roles; `None` if the server does not answer.
pub fn list(call: &mut Call<'_>, to: &Connection, passwords: bool) -> Result<Option<Map>> {
    let version = psql::version(call, to)?;
    if version.is_empty() {
        log::error!("Could not retrieve Postgres version. Is Postgresql server running?");
        return Ok(None);
    }
    let since = |first: &str| loose_version::compare(&version, first).is_ge();
    let (replication, catalog) = (
        if since("9.1") {
            "pg_roles.rolreplication"
        } else {
            "NULL"
        },
        if since("9.5") {
            "NULL"
        } else {
            "pg_roles.rolcatupdate"
        },
    );
    let when = |part: &'static str| if passwords { part } else { "" };
    let query = format!(
        "SELECT pg_roles.rolname as \"name\",pg_roles.rolsuper as \"superuser\", pg_roles.rolinherit as \
         \"inherits privileges\", pg_roles.rolcreaterole as \"can create roles\", pg_roles.rolcreatedb as \
         \"can create databases\", {catalog} as \"can update system catalogs\", pg_roles.rolcanlogin as \"can login\", \
         {replication} as \"replication\", pg_roles.rolconnlimit as \"connections\", (SELECT array_agg(pg_roles2.rolname) \
         FROM pg_catalog.pg_auth_members JOIN pg_catalog.pg_roles pg_roles2 ON (pg_auth_members.roleid = pg_roles2.oid) \
         WHERE pg_auth_members.member = pg_roles.oid) as \"groups\",pg_roles.rolvaliduntil::timestamp(0) as \"expiry time\", \
         pg_roles.rolconfig as \"defaults variables\" {}FROM pg_roles {}{}",
        when(", COALESCE(pg_shadow.passwd, pg_authid.rolpassword) as \"password\" "),
        when("LEFT JOIN pg_authid ON pg_roles.oid = pg_authid.oid "),
        when("LEFT JOIN pg_shadow ON pg_roles.oid = pg_shadow.usesysid"),
    );
    let rows = psql::query(call, to, &query)?;
    Ok(Some(
        rows.iter()
            .map(|row| (row.str("name").unwrap_or_default(), one(row, passwords)))
            .collect(),
    ))
}

fn one(row: &Map, passwords: bool) -> Map {
    let text = |key: &str| row.str(key).unwrap_or_default();
    let mut role = Map::new();
    for key in [
        "superuser",
        "inherits privileges",
        "can create roles",
        "can create databases",
        "can update system catalogs",
        "can login",
        "replication",
        "connections",
    ] {
        let value = match text(key) {
            "t" => Value::Bool(true),
            "f" => Value::Bool(false),
            _ => Value::Nil,
        };
        role.set(key, value);
    }
    role.set("expiry time", timestamp(text("expiry time")));
    role.set("defaults variables", text("defaults variables"));
    if passwords {
        role.set("password", text("password"));
    }
    let groups = psql::csv(text("groups").trim_matches(['{', '}']));
    role.set("groups", groups.into_iter().next().unwrap_or_default());
    role
}

/// A time of the server if it is one; it may be `infinity`.
pub fn timestamp(text: &str) -> Option<String> {
    let parsed = DateTime::strptime("%Y-%m-%d %H:%M:%S", text);
    parsed.is_ok().then(|| text.to_owned())
}

/// One role; nil if there is none, or the server does not answer.
pub fn get(call: &mut Call<'_>, to: &Connection, name: &str, passwords: bool) -> Result {
    let all = list(call, to, passwords)?;
    if all.is_none() {
        log::error!("Could not retrieve Postgres role. Is Postgres running?");
    }
    Ok(all.and_then(|mut all| all.remove(name)).unwrap_or_default())
}

fn exists(call: &mut Call<'_>, to: &Connection, name: &str) -> Result<bool> {
    Ok(get(call, to, name, false)?.truthy())
}

/// The rest of `CREATE ROLE` and `ALTER ROLE`, and the grants of groups.
fn options(call: &Call<'_>, name: &str, kind: Option<&str>, old: Option<&Map>) -> Result<String> {
    let mut out = String::new();
    for (arg, flag) in FLAGS {
        let mut value = call.arg(arg).clone();
        if value.is_nil() && arg == "inherit" && kind.is_some() {
            value = true.into();
        }
        if value.is_nil() && arg == "login" {
            value = kind.map(|kind| kind == "user").into();
        }
        let same = |old: &Map| old.get(arg).is_some_and(Value::truthy) == value.truthy();
        if value.is_nil() || (arg == "superuser" && old.is_some_and(same)) {
            continue;
        }
        out.push_str(if value.truthy() { " " } else { " NO" });
        out.push_str(flag);
    }
    if !call.arg("connlimit").is_nil() {
        let limit = python::int(call.arg("connlimit"))?;
        out.push_str(&format!(" CONNECTION LIMIT {limit}"));
    }
    out.push_str(&password(call, name)?);
    match call.text("valid_until") {
        Some(until) if !until.is_empty() => {
            out.push_str(&format!(" VALID UNTIL {}", psql::text(&until)));
        }
        _ => {}
    }
    for group in groups(call.arg("groups")) {
        out.push_str(&format!(
            "; GRANT {} TO {}",
            psql::name(&group),
            psql::name(name)
        ));
    }
    Ok(out)
}

fn password(call: &Call<'_>, name: &str) -> Result<String> {
    let text = match call.arg("rolepassword") {
        Value::Bool(false) => return Ok(" PASSWORD NULL".to_owned()),
        Value::Nil => return Ok(String::new()),
        other => python::str(other),
    };
    if text.is_empty() {
        return Ok(String::new());
    }
    let encrypted = call.arg("encrypted");
    let verifier = password::verifier(name, &text, encrypted)?;
    let how = if encrypted.is_nil() || encrypted.truthy() {
        "ENCRYPTED"
    } else {
        "UNENCRYPTED"
    };
    Ok(format!(" {how} PASSWORD {}", psql::text(&verifier)))
}

/// Groups from a list or a text with commas.
fn groups(value: &Value) -> Vec<String> {
    match value {
        value if !value.truthy() => Vec::new(),
        Value::Array(list) => {
            let joined: Vec<String> = list.iter().map(python::str).collect();
            joined.join(",").split(',').map(str::to_owned).collect()
        }
        other => python::str(other).split(',').map(str::to_owned).collect(),
    }
}

/// `user_create` and `group_create`.
pub fn create(call: &mut Call<'_>, kind: &str, argument: &str) -> Result {
    let (name, to) = (
        call.text(argument).unwrap_or_default(),
        Connection::of(call),
    );
    if exists(call, &to, &name)? {
        log::info!("{kind} '{name}' already exists");
        return Ok(false.into());
    }
    let rest = options(call, &name, Some(kind), None)?;
    let statement = format!("CREATE ROLE {} WITH {rest}", psql::name(&name));
    let ran = psql::execute_unseen(call, &to, &statement)?;
    Ok(psql::succeeded(&ran).into())
}

/// `user_update` and `group_update`.
pub fn update(call: &mut Call<'_>, kind: &str, argument: &str) -> Result {
    let (name, to) = (
        call.text(argument).unwrap_or_default(),
        Connection::of(call),
    );
    let role = get(call, &to, &name, false)?;
    let Some(role) = role.as_map().filter(|role| !role.is_empty()) else {
        log::info!("{kind} '{name}' could not be found");
        return Ok(false.into());
    };
    let rest = options(call, &name, None, Some(role))?;
    let statement = format!("ALTER ROLE {} WITH {rest}", psql::name(&name));
    let ran = psql::execute_unseen(call, &to, &statement)?;
    Ok(psql::succeeded(&ran).into())
}

/// `user_remove` and `group_remove`.
pub fn remove(call: &mut Call<'_>, argument: &str) -> Result {
    let (name, to) = (
        call.text(argument).unwrap_or_default(),
        Connection::of(call),
    );
    if !exists(call, &to, &name)? {
        log::info!("User '{name}' does not exist");
        return Ok(false.into());
    }
    psql::execute(call, &to, &format!("DROP ROLE {}", psql::name(&name)))?;
    Ok((!exists(call, &to, &name)?).into())
}
