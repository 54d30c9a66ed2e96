//! `rabbitmq_user`.

use super::{below, failed, rabbit};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::collections::BTreeSet;

pub const USER: StateModule = StateModule {
    name: "rabbitmq_user",
    functions: &[
        StateFunction::new(
            "present",
            |s| present(s).or_else(failed),
            "Ensures that there is a user with this password, tags and permissions.",
        )
        .args(args![
            password = None,
            force = False,
            tags = None,
            perms = None,
            runas = None
        ]),
        StateFunction::new(
            "absent",
            |s| absent(s).or_else(failed),
            "Ensures that there is no such user.",
        )
        .args(args![runas = None]),
    ],
};

/// What one pair of `perms` says: a virtual host, and what may be configured, written and read there.
type Permission = (String, [Value; 3]);

fn permissions(s: &State<'_, '_>) -> Result<Vec<Permission>> {
    let mut all = Vec::new();
    for maps in s.arg("perms").as_array().unwrap_or_default() {
        for (vhost, three) in maps.as_map().cloned().unwrap_or_default().iter() {
            let three = match three {
                Value::Array(list) => list.first_chunk::<3>().cloned(),
                _ => None,
            };
            let Some(three) = three else {
                return Err(CallError::raised("IndexError", "list index out of range"));
            };
            all.push((python::str(vhost), three));
        }
    }
    Ok(all)
}

fn wanted_of([configure, write, read]: &[Value; 3]) -> Map {
    map! {"configure" => configure.clone(), "write" => write.clone(), "read" => read.clone()}
}

/// Whether permissions are the wanted ones, in any order.
fn same(own: &Map, wanted: &Map) -> bool {
    let has =
        |(key, value): &(Value, Value)| key.as_str().and_then(|key| own.get(key)) == Some(value);
    own.len() == wanted.len() && wanted.iter().all(has)
}

/// The tags of the user now.
fn current_tags(s: &mut State<'_, '_>) -> Result<Vec<String>> {
    let name = s.name();
    match rabbit(s, "list_users", []) {
        Ok(all) => match all.as_map().and_then(|all| all.get(&name)) {
            Some(tags) => Ok(tags.str_list()),
            None => Err(CallError::raised("KeyError", format!("'{name}'"))),
        },
        Err(CallError::Command(text)) => {
            log::error!("Error: {text}");
            Ok(Vec::new())
        }
        Err(fault) => Err(fault),
    }
}

/// The declared tags: a list, or words.
fn wanted_tags(s: &State<'_, '_>) -> Vec<String> {
    match s.arg("tags") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => python::str(other)
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    }
}

/// Gives an existing user the password, or takes it away.
fn set_password(s: &mut State<'_, '_>, name: &str, changes: &mut Map) -> Result<()> {
    let password = s.arg("password").clone();
    if password.is_nil() {
        if !s.test {
            rabbit(s, "clear_password", [name.into()])?;
        }
        changes.set("password", old_new("Removed password.", ""));
    } else {
        if !s.test {
            rabbit(s, "change_password", [name.into(), password])?;
        }
        changes.set("password", old_new("", "Set password."));
    }
    Ok(())
}

fn set_permissions(s: &mut State<'_, '_>, name: &str, changes: &mut Map) -> Result<()> {
    let existing = rabbit(s, "list_user_permissions", [name.into()])?;
    let all = permissions(s)?;
    let as_wanted = |(vhost, three): &Permission| {
        below(&existing, vhost).is_some_and(|own| same(own, &wanted_of(three)))
    };
    if all.iter().all(as_wanted) {
        return Ok(());
    }
    for (vhost, three) in &all {
        let wanted = wanted_of(three);
        if !s.test {
            let mut args: Vec<Value> = vec![vhost.as_str().into(), name.into()];
            args.extend(three.iter().cloned());
            rabbit(s, "set_permissions", args)?;
        }
        match below(&existing, vhost) {
            Some(own) if same(own, &wanted) => {}
            Some(own) => {
                let mut shown = changes.remove("perms").and_then(Value::into_map);
                let mut shown = shown
                    .take()
                    .unwrap_or_else(|| old_new(Map::new(), Map::new()));
                // As stock: the old ones are without their virtual host.
                merge(&mut shown, "old", own.clone());
                merge(&mut shown, "new", map! {vhost.as_str() => wanted});
                changes.set("perms", shown);
            }
            // As stock: what was noted before is forgotten.
            None => changes.set("perms", map! {"new" => map! {vhost.as_str() => wanted}}),
        }
    }
    Ok(())
}

/// Adds to a map in a map.
fn merge(map: &mut Map, key: &str, more: Map) {
    let mut inner = map
        .remove(key)
        .and_then(Value::into_map)
        .unwrap_or_default();
    for (key, value) in more.0 {
        inner.set(python::str(&key), value);
    }
    map.set(key, inner);
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let exists = rabbit(s, "user_exists", [name.as_str().into()])?.truthy();
    let password = s.arg("password").clone();
    let stale = exists
        && !password.is_nil()
        && !rabbit(
            s,
            "check_password",
            [name.as_str().into(), password.clone()],
        )?
        .truthy();
    let more = ["force", "perms", "tags"].iter().any(|arg| s.flag(arg));
    if exists && !more && !stale {
        let text = format!("User '{name}' is already present.");
        return Ok(StateOutcome::good(text));
    }
    let mut changes = Map::new();
    let outcome = configured(s, &name, exists, stale, &mut changes);
    // What was done before an error is still told.
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(fault) => failed(fault)?,
    };
    Ok(outcome.changes(changes))
}

fn configured(
    s: &mut State<'_, '_>,
    name: &str,
    exists: bool,
    stale: bool,
    changes: &mut Map,
) -> Result {
    if !exists {
        changes.set("user", old_new("", name));
        if s.test {
            let text = format!("User '{name}' is set to be created.");
            return Ok(StateOutcome::would(text));
        }
        let password = s.arg("password").clone();
        rabbit(s, "add_user", [name.into(), password])?;
    } else if s.flag("force") || stale {
        set_password(s, name, changes)?;
    }
    if !s.arg("tags").is_nil() {
        let current = current_tags(s)?;
        let tags = wanted_tags(s);
        let set = |tags: &[String]| tags.iter().cloned().collect::<BTreeSet<_>>();
        if set(&tags) != set(&current) {
            if !s.test {
                rabbit(s, "set_user_tags", [name.into(), tags.clone().into()])?;
            }
            changes.set("tags", old_new(current, tags));
        }
    }
    set_permissions(s, name, changes)?;
    Ok(if changes.is_empty() {
        StateOutcome::good(format!("'{name}' is already in the desired state."))
    } else if s.test {
        StateOutcome::would(format!("Configuration for '{name}' will change."))
    } else {
        StateOutcome::good(format!("'{name}' was configured."))
    })
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if !rabbit(s, "user_exists", [name.as_str().into()])?.truthy() {
        let text = format!("The user '{name}' is not present.");
        return Ok(StateOutcome::good(text));
    }
    let changes = map! {"name" => old_new(name.as_str(), "")};
    if s.test {
        let text = format!("The user '{name}' will be removed.");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    rabbit(s, "delete_user", [name.as_str().into()])?;
    Ok(StateOutcome::good(format!("The user '{name}' was removed.")).changes(changes))
}
