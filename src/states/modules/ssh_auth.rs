//! `ssh_auth`: authorized keys of users.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};
use std::sync::LazyLock;

const ARGS: &[Arg] = args![
    user,
    enc = "ssh-rsa",
    comment = "",
    source = "",
    options = None,
    config = ".ssh/authorized_keys",
    fingerprint_hash_type = None
];

pub(super) const MODULE: StateModule = StateModule {
    name: "ssh_auth",
    functions: &[
        StateFunction::new(
            "absent",
            |s| {
                let name = s.name();
                absent(s, &name)
            },
            "Ensures that a user lacks an authorized key.",
        )
        .args(ARGS),
        StateFunction::new(
            "manage",
            manage,
            "Ensures that a user has these authorized keys and no others.",
        )
        .args(args![
            ssh_keys,
            user,
            enc = "ssh-rsa",
            comment = "",
            source = "",
            options = None,
            config = ".ssh/authorized_keys",
            fingerprint_hash_type = None
        ])
        .keywords(),
        StateFunction::new(
            "present",
            |s| {
                let name = s.name();
                present(s, &name)
            },
            "Ensures that a user has an authorized key.",
        )
        .args(ARGS)
        .keywords(),
    ],
};

/// Options, then type, key and comment.
static LINE: LazyLock<Option<regex::Regex>> =
    LazyLock::new(|| regex::Regex::new(r"^(.*?)\s?((?:sk-)?(?:ssh-|ecds)[\w@.-]+\s.+)$").ok());

/// A declared key: a whole line, or a key with the other arguments.
struct Key {
    key: String,
    enc: Value,
    comment: Value,
    options: Value,
}

fn key(s: &State<'_, '_>, name: &str) -> Result<Key> {
    let mut parsed = Key {
        key: String::new(),
        enc: s.arg("enc").clone(),
        comment: s.arg("comment").clone(),
        options: s.arg("options").clone(),
    };
    if s.flag("source") {
        parsed.key = name.to_owned();
        return Ok(parsed);
    }
    let Some(found) = LINE.as_ref().and_then(|line| line.captures(name)) else {
        parsed.key = match name.split_whitespace().next() {
            Some(key) => key.to_owned(),
            None => return Err(CallError::raised("IndexError", "list index out of range")),
        };
        return Ok(parsed);
    };
    let text = |i| found.get(i).map_or("", |m: regex::Match<'_>| m.as_str());
    if !text(1).is_empty() {
        parsed.options = text(1)
            .split(',')
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .into();
    }
    let (enc, rest) = text(2)
        .split_once(char::is_whitespace)
        .unwrap_or((text(2), ""));
    let rest = rest.trim_start();
    let (own, comment) = match rest.split_once(char::is_whitespace) {
        Some((own, comment)) => (own, Some(comment.trim_start())),
        None => (rest, None),
    };
    parsed.enc = enc.into();
    parsed.key = own.to_owned();
    if let Some(comment) = comment.filter(|c| !c.is_empty()) {
        parsed.comment = comment.into();
    }
    Ok(parsed)
}

/// The arguments of a function for keys.
fn given(s: &State<'_, '_>, key: &Key) -> Map {
    let mut map = s.pick(&["user", "config", "fingerprint_hash_type"]);
    map.set("key", key.key.as_str());
    map.set("enc", key.enc.clone());
    map.set("comment", key.comment.clone());
    map.set("options", key.options.clone());
    map
}

fn of_file(s: &State<'_, '_>) -> Map {
    let mut map = s.pick(&["user", "source", "config", "fingerprint_hash_type"]);
    map.set("saltenv", s.saltenv());
    map
}

/// The source's keys and whether they are up to date; `None` if the source is missing.
fn check_file(s: &mut State<'_, '_>) -> Result<Option<Map>> {
    let args = [s.arg("source").clone(), s.saltenv().into()];
    if !s.salt("cp.cache_file", args)?.truthy() {
        return Ok(None);
    }
    let given = of_file(s);
    let checked = s.salt_with("ssh.check_key_file", Vec::new(), given)?;
    Ok(Some(checked.into_map().unwrap_or_default()))
}

fn no_keys(source: &str) -> StateOutcome {
    StateOutcome::bad(format!(
        "No keys detected in {source}. Is file properly formatted?"
    ))
}

fn present(s: &mut State<'_, '_>, name: &str) -> Result {
    let parsed = key(s, name)?;
    let (user, source) = (
        s.text("user").unwrap_or_default(),
        s.text("source").unwrap_or_default(),
    );
    let from_file = s.flag("source");
    if s.test {
        return if from_file {
            test_file(s, &source)
        } else {
            test_key(s, &parsed, &user)
        };
    }
    let answer = if from_file {
        match check_file(s)? {
            None => {
                return Ok(StateOutcome::bad(format!(
                    "Failed to add the ssh key. Source file {source} is missing"
                )));
            }
            Some(keys) if keys.is_empty() => return Ok(no_keys(&source)),
            Some(_) => {}
        }
        let mut given = of_file(s);
        given.set("options", parsed.options.clone());
        s.salt_with("ssh.set_auth_key_from_file", Vec::new(), given)?
    } else {
        let given = given(s, &parsed);
        s.salt_with("ssh.set_auth_key", Vec::new(), given)?
    };
    let name = parsed.key.as_str();
    let told = |what: &str| Map(vec![(Value::from(name), what.into())]);
    Ok(match answer.as_str().unwrap_or_default() {
        "replace" => StateOutcome::good(format!(
            "The authorized host key {name} for user {user} was updated"
        ))
        .changes(told("Updated")),
        "no change" => StateOutcome::good(format!(
            "The authorized host key {name} is already present for user {user}"
        )),
        "new" => StateOutcome::good(format!(
            "The authorized host key {name} for user {user} was added"
        ))
        .changes(told("New")),
        "fail" => StateOutcome::bad(
            "Failed to add the ssh key. Is the home directory available, and/or does the key file exist?",
        ),
        _ => StateOutcome::bad("Invalid public ssh key, most likely has spaces or invalid syntax"),
    })
}

fn test_key(s: &mut State<'_, '_>, parsed: &Key, user: &str) -> Result {
    let (given, key) = (given(s, parsed), parsed.key.as_str());
    let found = s.salt_with("ssh.check_key", Vec::new(), given)?;
    Ok(match found.as_str().unwrap_or_default() {
        "update" => StateOutcome::would(format!("Key {key} for user {user} is set to be updated")),
        "add" => StateOutcome::would(format!("Key {key} for user {user} is set to be added")),
        _ => StateOutcome::good(format!(
            "The authorized host key {key} is already present for user {user}"
        )),
    })
}

fn test_file(s: &mut State<'_, '_>, source: &str) -> Result {
    let keys = match check_file(s)? {
        Some(keys) if keys.is_empty() => return Ok(no_keys(source)),
        keys => keys.unwrap_or_default(),
    };
    let pending: String = keys
        .iter()
        .filter(|(_, state)| !state.is_str("exists"))
        .map(|(key, state)| format!("Set to {}: {}\n", python::str(state), python::str(key)))
        .collect();
    Ok(if pending.is_empty() {
        StateOutcome::good(format!(
            "All host keys in file {source} are already present"
        ))
    } else {
        StateOutcome::would(pending)
    })
}

fn absent(s: &mut State<'_, '_>, name: &str) -> Result {
    let parsed = key(s, name)?;
    let (user, source) = (
        s.text("user").unwrap_or_default(),
        s.text("source").unwrap_or_default(),
    );
    let from_file = s.flag("source");
    if s.test && from_file {
        let keys = match check_file(s)? {
            Some(keys) if keys.is_empty() => return Ok(no_keys(&source)),
            keys => keys.unwrap_or_default(),
        };
        let pending: String = keys
            .iter()
            .filter(|(_, state)| !state.is_str("add"))
            .map(|(key, _)| format!("Set to remove: {}\n", python::str(key)))
            .collect();
        return Ok(if pending.is_empty() {
            StateOutcome::good(format!("All host keys in file {source} are already absent"))
        } else {
            StateOutcome::would(pending)
        });
    }
    if s.test {
        let given = given(s, &parsed);
        let found = s.salt_with("ssh.check_key", Vec::new(), given)?;
        return Ok(if found.is_str("add") {
            StateOutcome::good("Key is already absent")
        } else {
            StateOutcome::would(format!(
                "Key {} for user {user} is set for removal",
                parsed.key
            ))
        });
    }
    let answer = if from_file {
        if check_file(s)?.is_none() {
            return Ok(StateOutcome::good(""));
        }
        let given = of_file(s);
        s.salt_with("ssh.rm_auth_key_from_file", Vec::new(), given)?
    } else {
        let mut given = s.pick(&["user", "config", "fingerprint_hash_type"]);
        given.set("key", parsed.key.as_str());
        s.salt_with("ssh.rm_auth_key", Vec::new(), given)?
    };
    let comment = python::str(&answer);
    Ok(match comment.as_str() {
        "User authorized keys file not present" | "Key not removed" => StateOutcome::bad(comment),
        "Key removed" => {
            StateOutcome::good(comment).changes(Map(vec![(parsed.key.into(), "Removed".into())]))
        }
        _ => StateOutcome::good(comment),
    })
}

/// The keys of a user before a change.
fn current(s: &mut State<'_, '_>) -> Result<Map> {
    let given = s.pick(&["user", "config", "fingerprint_hash_type"]);
    let keys = s.salt_with("ssh.auth_keys", Vec::new(), given)?;
    Ok(keys.into_map().unwrap_or_default())
}

fn manage(s: &mut State<'_, '_>) -> Result {
    let wanted: Vec<String> = s.list("ssh_keys").iter().map(python::str).collect();
    let mut keys = Vec::new();
    for name in &wanted {
        // Also with a source: these are keys.
        let found = LINE.as_ref().and_then(|line| line.captures(name));
        let line = found.and_then(|f| f.get(2)).map(|m| m.as_str().to_owned());
        let key = match &line {
            Some(line) => line.split_whitespace().nth(1),
            None => name.split_whitespace().next(),
        };
        keys.push(key.unwrap_or_default().to_owned());
    }
    let mut outcome = StateOutcome::good("");
    let mut changes = Map::new();
    for (key, _) in current(s)?.iter() {
        let key = python::str(key);
        if keys.contains(&key) {
            continue;
        }
        if s.test {
            // Only the last one is told, as in stock.
            outcome.comment = format!("{key} Key set for removal");
            outcome.result = None;
        } else {
            changes.set(key.as_str(), absent(s, &key)?.comment);
        }
    }
    for name in &wanted {
        let one = present(s, name)?;
        if let Some(more) = one.changes.as_map().filter(|m| !m.is_empty()) {
            for (key, value) in more.iter() {
                changes.set(python::str(key), value.clone());
            }
        } else {
            let text = format!("{}\n{}", outcome.comment, one.comment);
            outcome.comment = text.trim().to_owned();
        }
        match one.result {
            None => outcome.result = None,
            Some(false) => outcome.result = Some(false),
            Some(true) => {}
        }
    }
    // Stock's return has no name.
    Ok(outcome.changes(changes).with("name", ""))
}
