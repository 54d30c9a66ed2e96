//! `group`: groups of the host.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "group",
    functions: &[
        StateFunction::new("absent", absent, "Ensures that a group does not exist.")
            .args(args![local = False]),
        StateFunction::new(
            "present",
            present,
            "Ensures that a group exists, with an id and members.",
        )
        .args(args![
            gid = None,
            system = False,
            addusers = None,
            delusers = None,
            members = None,
            non_unique = False,
            local = False
        ]),
    ],
};

fn info(s: &mut State<'_, '_>) -> Result<Map> {
    let name = s.name();
    let found = s.salt("group.info", [Value::from(name)])?;
    Ok(found.into_map().unwrap_or_default())
}

/// The items of a list; text is a list of letters, as in Python.
fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        Value::Str(text) => text.chars().map(|c| c.to_string().into()).collect(),
        _ => Vec::new(),
    }
}

fn same(left: &[Value], right: &[Value]) -> bool {
    left.iter().all(|v| right.contains(v)) && right.iter().all(|v| left.contains(v))
}

/// What differs, with the text that describes it where that is not the value's own.
fn differences(s: &State<'_, '_>, group: &Map) -> Result<Vec<(&'static str, Value, String)>> {
    let mut all = Vec::new();
    let current = items(group.get("members").unwrap_or(&Value::Nil));
    let mut add = |key, value: Value| {
        let text = python::str(&value);
        all.push((key, value, text));
    };
    let gid = s.arg("gid");
    if gid.truthy() && group.get("gid").map(python::str) != Some(python::str(gid)) {
        add("gid", gid.clone());
    }
    let members = s.arg("members");
    if members.truthy() {
        if !same(&items(members), &current) {
            add("members", members.clone());
        }
    } else if !members.is_nil() && !current.is_empty() {
        // Stock describes a set.
        let text = python::repr(&current.clone().into());
        let text = format!("{{{}}}", text.trim_start_matches('[').trim_end_matches(']'));
        all.push(("delusers", current.into(), text));
    } else {
        let missing: Vec<Value> = items(s.arg("addusers"))
            .into_iter()
            .filter(|u| !current.contains(u))
            .collect();
        if !missing.is_empty() {
            add("addusers", missing.into());
        }
        let extra: Vec<Value> = items(s.arg("delusers"))
            .into_iter()
            .filter(|u| current.contains(u))
            .collect();
        if !extra.is_empty() {
            add("delusers", extra.into());
        }
    }
    Ok(all)
}

fn apply(s: &mut State<'_, '_>, changes: &[(&'static str, Value, String)]) -> Result<()> {
    let name = Value::from(s.name());
    for (key, value, _) in changes {
        match *key {
            "gid" => {
                let more = halite_wire::map! {"non_unique" => s.arg("non_unique").clone()};
                // The id of an account is a number, also if it is written as text.
                let gid = python::int(value).map_or(value.clone(), Value::from);
                s.salt_with("group.chgid", [name.clone(), gid], more)?;
            }
            "members" => {
                let list: Vec<String> = items(value).iter().map(python::str).collect();
                s.salt("group.members", [name.clone(), list.join(",").into()])?;
            }
            _ => {
                let fun = if *key == "addusers" {
                    "group.adduser"
                } else {
                    "group.deluser"
                };
                for user in items(value) {
                    s.salt(fun, [name.clone(), user])?;
                }
            }
        }
    }
    Ok(())
}

fn failed(left: Vec<(&'static str, Value, String)>) -> Map {
    let left: Map = left
        .into_iter()
        .map(|(key, value, _)| (key, value))
        .collect();
    halite_wire::map! {"Failed" => left}
}

fn present(s: &mut State<'_, '_>) -> Result {
    let (added, removed) = (items(s.arg("addusers")), items(s.arg("delusers")));
    if s.flag("members") && (s.flag("addusers") || s.flag("delusers")) {
        return Ok(StateOutcome::would(
            "Error: Conflicting options \"members\" with \"addusers\" and/or \"delusers\" can not be used together. ",
        ));
    }
    if added.iter().any(|u| removed.contains(u)) {
        return Ok(StateOutcome::would(
            "Error. Same user(s) can not be added and deleted simultaneously",
        ));
    }
    let group = info(s)?;
    if group.is_empty() {
        return create(s);
    }
    let name = s.name();
    let changes = differences(s, &group)?;
    if changes.is_empty() {
        return Ok(StateOutcome::good(format!(
            "Group {name} is present and up to date"
        )));
    }
    let mut comment = "The following group attributes are set to be changed:\n".to_owned();
    for (key, _, text) in &changes {
        comment.push_str(&format!("{key}: {text}\n"));
    }
    if s.test {
        return Ok(StateOutcome::would(comment));
    }
    apply(s, &changes)?;
    let group = info(s)?;
    let left = differences(s, &group)?;
    if left.is_empty() {
        return Ok(StateOutcome::good(comment)
            .changes(halite_wire::map! {"Final" => "All changes applied successfully"}));
    }
    comment.push_str("Some changes could not be applied");
    Ok(StateOutcome::bad(comment).changes(failed(left)))
}

fn create(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if s.test {
        return Ok(StateOutcome::would(format!("Group {name} set to be added")));
    }
    let gid = s.arg("gid").clone();
    if gid.truthy() && !s.flag("non_unique") {
        let all = s.salt("group.getent", Vec::new())?;
        for other in all.as_array().unwrap_or_default() {
            let Some(other) = other.as_map() else {
                continue;
            };
            if other.get("gid") == Some(&gid) {
                let owner = other.get("name").map(python::str).unwrap_or_default();
                return Ok(StateOutcome::bad(format!(
                    "Group {name} is not present but gid {} is already taken by group {owner}",
                    python::str(&gid)
                )));
            }
        }
    }
    let given = s.pick(&["gid", "system", "non_unique", "local"]);
    if !s
        .salt_with("group.add", [Value::from(name.as_str())], given)?
        .truthy()
    {
        return Ok(StateOutcome::bad(format!(
            "Failed to create new group {name}"
        )));
    }
    let group = info(s)?;
    let changes = differences(s, &group)?;
    apply(s, &changes)?;
    let group = info(s)?;
    let left = differences(s, &group)?;
    Ok(if left.is_empty() {
        StateOutcome::good(format!("New group {name} created")).changes(group)
    } else {
        StateOutcome::bad(format!(
            "Group {name} has been created but, some changes could not be applied"
        ))
        .changes(failed(left))
    })
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if info(s)?.is_empty() {
        return Ok(StateOutcome::good("Group not present"));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Group {name} is set for removal"
        )));
    }
    let local = s.pick(&["local"]);
    let done = s.salt_with("group.delete", [Value::from(name.as_str())], local)?;
    Ok(if done.truthy() {
        StateOutcome::good(format!("Removed group {name}")).changes(halite_wire::map! {name => ""})
    } else {
        StateOutcome::bad(format!("Failed to remove group {name}"))
    })
}
