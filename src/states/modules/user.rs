//! `user`: accounts of the host.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) const MODULE: StateModule =
    StateModule {
        name: "user",
        functions: &[
            StateFunction::new("absent", absent, "Ensures that a user does not exist.")
                .args(args![purge = False, force = False, local = False]),
            StateFunction::new(
                "present",
                present,
                "Ensures that a user exists with these properties.",
            )
            .args(args![
                uid = None,
                gid = None,
                usergroup = None,
                groups = None,
                optional_groups = None,
                remove_groups = True,
                home = None,
                createhome = True,
                persist_home = False,
                password = None,
                hash_password = False,
                enforce_password = True,
                empty_password = False,
                shell = None,
                unique = True,
                system = False,
                fullname = None,
                roomnumber = None,
                workphone = None,
                homephone = None,
                other = None,
                loginclass = None,
                date = None,
                mindays = None,
                maxdays = None,
                inactdays = None,
                warndays = None,
                expire = None,
                win_homedrive = None,
                win_profile = None,
                win_logonscript = None,
                win_description = None,
                nologinit = False,
                allow_uid_change = False,
                allow_gid_change = False,
                password_lock = None,
                local = False
            ]),
        ],
    };

const HIDDEN: &str = "XXX-REDACTED-XXX";
const GECOS: [&str; 5] = ["fullname", "roomnumber", "workphone", "homephone", "other"];
/// Argument, field of `shadow.info`, function, and what a failure calls it.
const AGING: [(&str, &str, &str, &str); 6] = [
    ("date", "lstchg", "shadow.set_date", "last change date"),
    ("mindays", "min", "shadow.set_mindays", "minimum days"),
    ("maxdays", "max", "shadow.set_maxdays", "maximum days"),
    (
        "inactdays",
        "inact",
        "shadow.set_inactdays",
        "inactive days",
    ),
    ("warndays", "warn", "shadow.set_warndays", "warn days"),
    ("expire", "expire", "shadow.set_expire", "expire days"),
];

/// The order of changes: the home directory before the ids, so that usermod changes the owner of the new one.
const ORDER: [&str; 20] = [
    "passwd",
    "empty_password",
    "password_lock",
    "date",
    "home",
    "homeDoesNotExist",
    "mindays",
    "maxdays",
    "inactdays",
    "warndays",
    "expire",
    "uid",
    "gid",
    "shell",
    "fullname",
    "roomnumber",
    "workphone",
    "homephone",
    "other",
    "groups",
];

fn map_of(value: Value) -> Map {
    value.into_map().unwrap_or_default()
}

fn info(s: &mut State<'_, '_>, fun: &str, name: &str) -> Result<Map> {
    Ok(map_of(s.salt(fun, [Value::from(name)])?))
}

/// The items of a list; text is a list of letters, as in Python.
fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        Value::Str(text) => text.chars().map(|c| c.to_string().into()).collect(),
        Value::Map(map) => map.iter().map(|(key, _)| key.clone()).collect(),
        _ => Vec::new(),
    }
}

fn joined(list: &[Value]) -> String {
    let list: Vec<String> = list.iter().map(python::str).collect();
    list.join(",")
}

/// Groups that exist, and those that do not.
fn split(s: &mut State<'_, '_>, groups: &Value) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut known = (Vec::new(), Vec::new());
    for group in items(groups) {
        let Value::Str(name) = &group else {
            return Err(CallError::Type(format!(
                "getgrnam() argument 'name' must be str, not {}",
                python::type_name(&group)
            )));
        };
        let exists = !info(s, "group.info", name)?.is_empty();
        if exists { &mut known.0 } else { &mut known.1 }.push(group);
    }
    Ok(known)
}

/// What a declaration wants, with groups and the password resolved.
struct Wanted {
    name: String,
    /// Groups to be in; nil leaves the groups alone.
    groups: Option<Vec<Value>>,
    missing: Vec<Value>,
    password: Option<Value>,
}

/// The hash of a plain password, with the salt of the user's current one so that equal passwords stay equal.
fn hashed(s: &mut State<'_, '_>, name: &str, password: Value) -> Result<Value> {
    let shadow = info(s, "shadow.info", name)?;
    let current = shadow.str("passwd").unwrap_or_default().to_owned();
    let parts: Vec<&str> = current.split('$').collect();
    let algorithm = match parts.get(1) {
        Some(&"1") => "md5",
        Some(&"5") => "sha256",
        Some(&("2a" | "2b" | "2y")) => "blowfish",
        _ => "sha512",
    };
    let salt = match parts.as_slice() {
        [_, "1" | "5" | "6", salt, ..] => Value::from(*salt),
        _ => Value::Nil,
    };
    let algorithm = if salt.is_nil() { "sha512" } else { algorithm };
    s.salt_with(
        "shadow.gen_password",
        Vec::new(),
        halite_wire::map! {"password" => password, "crypt_salt" => salt, "algorithm" => algorithm},
    )
}

fn wanted(s: &mut State<'_, '_>) -> Result<Wanted> {
    let name = s.name();
    let (groups, optional) = (s.arg("groups").clone(), s.arg("optional_groups").clone());
    let (mut all, missing) = split(s, &groups)?;
    let (more, unknown) = split(s, &optional)?;
    if !unknown.is_empty() {
        log::debug!("optional groups that do not exist: {}", joined(&unknown));
    }
    for group in &more {
        if !all.contains(group) {
            all.push(group.clone());
        }
    }
    // Optional groups of which none exists say nothing about the others.
    let given = !groups.is_nil() || !more.is_empty();
    let mut password = Some(s.arg("password").clone()).filter(Value::truthy);
    if s.flag("hash_password")
        && let Some(plain) = password.take()
    {
        password = Some(hashed(s, &name, plain)?);
    }
    Ok(Wanted {
        name,
        groups: given.then_some(all),
        missing,
        password,
    })
}

/// The properties that differ, in stock's order, or what may not be changed.
fn differences(s: &mut State<'_, '_>, wanted: &Wanted) -> Result<Result<Map, Vec<String>>> {
    let name = wanted.name.as_str();
    let mut changes = Map::new();
    let mut refused = Vec::new();
    let user = info(s, "user.info", name)?;
    let now = |key: &str| user.get(key).cloned().unwrap_or_default();
    let gid = match s.arg("gid").clone() {
        Value::Str(group) => {
            let found = info(s, "group.info", &group)?;
            found.get("gid").cloned().unwrap_or(group.into())
        }
        other => other,
    };
    for (key, value) in [("uid", s.arg("uid").clone()), ("gid", gid.clone())] {
        if value.is_nil() || value == now(key) {
            continue;
        }
        let given = s.arg(key).clone();
        if s.flag(&format!("allow_{key}_change")) {
            changes.set(key, given);
        } else {
            refused.push(format!(
                "Changing {key} ({} -> {}) not permitted, set allow_{key}_change to True to force this change. Note \
                 that this will not change file ownership.",
                python::str(&now(key)),
                python::str(&given)
            ));
        }
    }
    group_differences(s, wanted, &user, &gid, &mut changes)?;
    let home = s.arg("home").clone();
    if home.truthy() && home != now("home") {
        changes.set("home", home.clone());
    }
    let dir = if home.truthy() { home } else { now("home") };
    if s.flag("createhome") && !Path::new(&python::str(&dir)).is_dir() {
        changes.set("homeDoesNotExist", dir);
    }
    let shell = s.arg("shell").clone();
    if shell.truthy() && shell != now("shell") {
        changes.set("shell", shell);
    }
    shadow_differences(s, wanted, &mut changes)?;
    for key in GECOS {
        let value = s.arg(key).clone();
        if !value.is_nil() && python::str(&value) != python::str(&now(key)) {
            changes.set(key, python::str(&value));
        }
    }
    for key in ["homedrive", "profile", "logonscript", "description"] {
        if s.flag(&format!("win_{key}")) {
            return Err(CallError::raised("KeyError", format!("'{key}'")));
        }
    }
    Ok(if refused.is_empty() {
        Ok(changes)
    } else {
        Err(refused)
    })
}

/// The supplementary groups, if they differ. The primary group counts neither now nor after a change.
fn group_differences(
    s: &mut State<'_, '_>,
    wanted: &Wanted,
    user: &Map,
    gid: &Value,
    changes: &mut Map,
) -> Result<()> {
    let remove = s.flag("remove_groups");
    let mut now = items(user.get("groups").unwrap_or(&Value::Nil));
    let mut all = wanted.groups.clone().unwrap_or_default();
    if !remove || wanted.groups.is_none() {
        all.extend(now.iter().cloned());
    }
    let old = user.get("gid").cloned().unwrap_or_default();
    let new = if gid.is_nil() { &old } else { gid };
    let [old, new] = [&old, new].map(python::str);
    let mut ids = Vec::new();
    for group in now.iter().chain(&all) {
        let found = info(s, "group.info", &python::str(group))?;
        let id = found.get("gid").map(python::str).unwrap_or_default();
        ids.push((group.clone(), id));
    }
    let id = |group: &Value| ids.iter().find(|(g, _)| g == group).map(|(_, id)| id);
    all.retain(|g| id(g) != Some(&new));
    let own = Value::from(wanted.name.as_str());
    now.retain(|g| ![Some(&old), Some(&new)].contains(&id(g)) && (*g != own || all.contains(g)));
    all.sort_by_key(python::str);
    all.dedup();
    // Groups of the same id are one group.
    let lacks = |list: &[Value], group: &Value| !list.iter().any(|g| id(g) == id(group));
    let differs =
        all.iter().any(|g| lacks(&now, g)) || remove && now.iter().any(|g| lacks(&all, g));
    if differs {
        changes.set("groups", all);
    }
    Ok(())
}

fn shadow_differences(s: &mut State<'_, '_>, wanted: &Wanted, changes: &mut Map) -> Result<()> {
    let shadow = info(s, "shadow.info", &wanted.name)?;
    let current = shadow.str("passwd").unwrap_or_default().to_owned();
    let initial = s.salt("shadow.default_hash", Vec::new())?;
    if s.flag("empty_password") {
        if !current.is_empty() {
            changes.set("empty_password", true);
        }
    } else if let Some(password) = &wanted.password
        && !password.is_str(&current)
        && (s.flag("enforce_password") || initial.is_str(&current))
    {
        changes.set("passwd", password.clone());
    }
    for (arg, field, ..) in AGING {
        let value = s.arg(arg).clone();
        if value.is_nil() || value.is_str("") || shadow.get(field) == Some(&value) {
            continue;
        }
        if matches!(value, Value::Int(0)) && arg != "mindays" {
            continue;
        }
        changes.set(arg, value);
    }
    let locked = current.starts_with('!');
    if let Value::Bool(lock) = *s.arg("password_lock")
        && lock != locked
    {
        changes.set("password_lock", lock);
    }
    Ok(())
}

fn present(s: &mut State<'_, '_>) -> Result {
    let wanted = wanted(s)?;
    if !s.test && !wanted.missing.is_empty() {
        return Ok(StateOutcome::bad(format!(
            "The following group(s) are not present: {}",
            joined(&wanted.missing)
        )));
    }
    if info(s, "user.info", &wanted.name)?.is_empty() {
        return create(s, &wanted);
    }
    let name = wanted.name.clone();
    let changes = match differences(s, &wanted)? {
        Ok(changes) => changes,
        Err(refused) => {
            let list: String = refused.iter().map(|r| format!("\n- {r}")).collect();
            return Ok(StateOutcome::bad(format!(
                "Encountered error checking for needed changes. Additional info follows:\n{list}"
            )));
        }
    };
    if changes.is_empty() {
        return Ok(StateOutcome::good(format!(
            "User {name} is present and up to date"
        )));
    }
    if s.test {
        let mut text = "The following user attributes are set to be changed:\n".to_owned();
        for (key, value) in changes.iter() {
            let shown = if key.is_str("passwd") {
                HIDDEN.to_owned()
            } else {
                python::str(value)
            };
            text.push_str(&format!("{}: {shown}\n", python::str(key)));
        }
        if !wanted.missing.is_empty() {
            let missing = joined(&wanted.missing);
            text.push_str(&format!("groups (pending creation): {missing}\n"));
        }
        return Ok(StateOutcome::would(text));
    }
    let (user, shadow) = (info(s, "user.info", &name)?, info(s, "shadow.info", &name)?);
    for key in ORDER {
        if let Some(value) = changes.get(key) {
            change(s, &name, key, value)?;
        }
    }
    let told = told(s, &wanted, &user, &shadow)?;
    let left = differences(s, &wanted)?.unwrap_or_default();
    Ok(if left.is_empty() && told.is_empty() {
        // A home directory that was created is not told.
        StateOutcome::good(format!("User {name} is present and up to date"))
    } else if left.is_empty() {
        StateOutcome::good(format!("Updated user {name}"))
    } else {
        let mut left = left;
        // Stock shows the hash.
        if left.contains("passwd") {
            left.set("passwd", HIDDEN);
        }
        StateOutcome::bad(format!(
            "These values could not be changed: {}",
            python::repr(&left.into())
        ))
    }
    .changes(told))
}

/// Sets one differing property.
fn change(s: &mut State<'_, '_>, name: &str, key: &str, value: &Value) -> Result<()> {
    let fun = match key {
        "home" => {
            let persist = s.flag("persist_home");
            s.salt("user.chhome", [name.into(), value.clone(), persist.into()])?;
            return Ok(());
        }
        "homeDoesNotExist" => return make_home(s, name, &python::str(value)),
        "groups" => {
            let append = !s.flag("remove_groups");
            s.salt("user.chgroups", [name.into(), value.clone(), append.into()])?;
            return Ok(());
        }
        "passwd" => return set_password(s, name, value).map(drop),
        "empty_password" => "shadow.del_password",
        "password_lock" if value.truthy() => "shadow.lock_password",
        "password_lock" => "shadow.unlock_password",
        other => {
            let aging = AGING.iter().find(|a| a.0 == other);
            let fun = aging.map_or_else(|| format!("user.ch{other}"), |a| a.2.to_owned());
            s.salt(&fun, [name.into(), value.clone()])?;
            return Ok(());
        }
    };
    s.salt(fun, [Value::from(name)])?;
    Ok(())
}

fn set_password(s: &mut State<'_, '_>, name: &str, hash: &Value) -> Result<bool> {
    if !matches!(hash, Value::Str(_)) {
        return Err(CallError::Type(format!(
            "sequence item 1: expected str instance, {} found",
            python::type_name(hash)
        )));
    }
    let done = s.salt("shadow.set_password", [name.into(), hash.clone()])?;
    Ok(done.truthy())
}

/// An empty home directory of the user's own.
fn make_home(s: &mut State<'_, '_>, name: &str, dir: &str) -> Result<()> {
    let user = info(s, "user.info", name)?;
    let id = |key: &str| user.get(key).cloned().unwrap_or_default();
    s.salt("file.mkdir", [dir.into(), id("uid"), id("gid")])?;
    Ok(())
}

/// The changed fields of `user.info` and `shadow.info`.
fn told(s: &mut State<'_, '_>, wanted: &Wanted, user: &Map, shadow: &Map) -> Result<Map> {
    let mut told = Map::new();
    for (key, value) in info(s, "user.info", &wanted.name)?.iter() {
        let key = python::str(key);
        if key != "passwd" && user.get(&key) != Some(value) {
            told.set(key, value.clone());
        }
    }
    for (key, value) in info(s, "shadow.info", &wanted.name)?.iter() {
        let key = python::str(key);
        if shadow.get(&key) == Some(value) {
            continue;
        }
        if key == "passwd" {
            // A password that was the wanted one has only been locked.
            if wanted.password.as_ref() != shadow.get("passwd") {
                told.set(key, HIDDEN);
            }
        } else {
            told.set(key, value.clone());
        }
    }
    Ok(told)
}

fn create(s: &mut State<'_, '_>, wanted: &Wanted) -> Result {
    let name = wanted.name.as_str();
    if s.test {
        let pending = match wanted.missing.as_slice() {
            [] => String::new(),
            missing => format!(" (pending groups: {})", joined(missing)),
        };
        return Ok(StateOutcome::would(format!(
            "User {name} set to be added{pending}"
        )));
    }
    let mut given = s.pick(&[
        "uid",
        "gid",
        "home",
        "shell",
        "unique",
        "system",
        "createhome",
        "nologinit",
        "loginclass",
        "usergroup",
        "local",
    ]);
    for key in GECOS {
        let value = s.text(key).unwrap_or_default();
        given.set(key, value);
    }
    given.set("groups", wanted.groups.clone().map(Value::from));
    if !s
        .salt_with("user.add", [Value::from(name)], given)?
        .truthy()
    {
        return Ok(StateOutcome::bad(format!(
            "Failed to create new user {name}"
        )));
    }
    let mut changes = info(s, "user.info", name)?;
    if !s.flag("createhome") {
        changes.set("home", "");
    }
    let mut problem = None;
    match &wanted.password {
        Some(password) if !s.flag("empty_password") => {
            if !set_password(s, name, password)? {
                problem = Some(format!("failed to set password to {HIDDEN}"));
            }
            changes.set("password", HIDDEN);
        }
        None if s.flag("empty_password") => {
            if !s.salt("shadow.del_password", [Value::from(name)])?.truthy() {
                problem = Some("failed to empty password".to_owned());
            }
            changes.set("password", "");
        }
        _ => {}
    }
    for (arg, field, fun, what) in AGING {
        let value = s.arg(arg).clone();
        if value.is_nil() || value.is_str("") {
            continue;
        }
        s.salt(fun, [name.into(), value.clone()])?;
        if info(s, "shadow.info", name)?.get(field) != Some(&value) {
            problem = Some(format!("failed to set {what} to {}", python::str(&value)));
        }
        changes.set(arg, value);
    }
    Ok(match problem {
        None => StateOutcome::good(format!("New user {name} created")),
        Some(problem) => StateOutcome::bad(format!("User {name} created but {problem}")),
    }
    .changes(changes))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if info(s, "user.info", &name)?.is_empty() {
        return Ok(StateOutcome::good(format!("User {name} is not present")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!("User {name} set for removal")));
    }
    let before = info(s, "group.info", &name)?;
    let given = halite_wire::map! {
        "remove" => s.arg("purge").clone(), "force" => s.arg("force").clone(), "local" => s.arg("local").clone(),
    };
    if !s
        .salt_with("user.delete", [Value::from(name.as_str())], given)?
        .truthy()
    {
        return Ok(StateOutcome::bad(format!("Failed to remove user {name}")));
    }
    let mut changes = Map::new();
    if !before.is_empty() && info(s, "group.info", &name)?.is_empty() {
        changes.set(format!("{name} group"), "removed");
    }
    changes.set(name.as_str(), "removed");
    Ok(StateOutcome::good(format!("Removed user {name}")).changes(changes))
}
