//! `pkgrepo`: repositories of the package manager (`salt/states/pkgrepo.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "pkgrepo",
    functions: &[
        StateFunction::new(
            "managed",
            managed,
            "Ensures that a repository is configured.",
        )
        .args(args![
            ppa = None,
            copr = None,
            aptkey = True,
            disabled = None,
            enabled = None
        ])
        .keywords(),
        StateFunction::new(
            "absent",
            absent,
            "Ensures that a repository is not configured.",
        )
        .keywords(),
    ],
};

const DIFFERENT: &str = "This may cause pkg states to behave differently than stated if this action is repeated \
                         without test=True, due to the differences in the configured repositories.";

/// Of each pair only one may be declared: a key from a server, from an address, or as text.
const KEYS: [(&[&str], &[&str]); 2] = [
    (&["keyid", "keyserver"], &["key_url"]),
    (&["key_text"], &["keyid", "keyserver", "key_url"]),
];

fn family(s: &State<'_, '_>) -> String {
    s.ctx()
        .grains
        .str("os_family")
        .unwrap_or_default()
        .to_owned()
}

/// The repository as the execution module knows it; an empty map if it is not configured.
fn known(s: &mut State<'_, '_>, repo: &str) -> Result<Map> {
    let mut kwargs = Map::new();
    if let Some(auth) = s.kwargs.get("ppa_auth").filter(|v| v.truthy()) {
        kwargs.set("ppa_auth", auth.clone());
    }
    let found = s.salt_with("pkg.get_repo", vec![repo.into()], kwargs)?;
    Ok(found.into_map().unwrap_or_default())
}

/// What the repository shall be, in the form of [`known`].
fn desired(s: &State<'_, '_>, repo: &str, kwargs: &Map) -> Map {
    if family(s) == "Debian" {
        return halite_modules::execution::pkg::expand_repo(repo, kwargs)
            .inspect_err(|e| log::debug!("{repo}: {e}"))
            .unwrap_or_default();
    }
    let mut map = Map::new();
    for (key, value) in kwargs.iter() {
        map.set(python::str(key), value.clone());
    }
    map
}

/// A value as it is written to a file of repositories.
fn plain(value: &Value) -> Value {
    match value {
        Value::Bool(yes) => i64::from(*yes).to_string().into(),
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(python::str).collect();
            list.into()
        }
        other => python::str(other).trim_end_matches('/').into(),
    }
}

/// Whether two values mean the same.
fn same(s: &State<'_, '_>, one: &Value, other: &Value) -> bool {
    if family(s) == "Debian" {
        return one == other;
    }
    plain(one) == plain(other)
}

/// A line of a file of sources without its comment.
fn uncommented(line: &Value) -> String {
    let line = python::str(line);
    let text = line.trim_start_matches(['#', ' ']);
    let end = text.find('#').unwrap_or(text.len());
    let start = line.len() - text.len();
    line[..start + end].trim_end().to_owned()
}

/// The differences of a repository from what it shall be, and whether there are any.
fn differences(s: &State<'_, '_>, now: &Map, wanted: &Map) -> (Map, bool) {
    let (mut changes, mut any) = (Map::new(), false);
    for (key, new) in wanted.iter() {
        let key = python::str(key);
        let old = now.get(&key).cloned().unwrap_or_default();
        if same(s, &old, new) {
            continue;
        }
        any = true;
        if key != "line" || uncommented(&old) != uncommented(new) {
            changes.set(key, map! {"new" => new.clone(), "old" => old});
        }
    }
    (changes, any)
}

/// What was declared, as the execution module takes it.
fn options(s: &State<'_, '_>, disabled: Option<bool>) -> Map {
    let mut kwargs = s.kwargs.clone();
    match family(s).as_str() {
        "Debian" => {
            // A repository that is declared is used unless that says something else.
            kwargs.set("disabled", disabled.unwrap_or(false));
            for key in ["comps", "architectures"] {
                if let Some(Value::Array(list)) = kwargs.get(key) {
                    let list: Vec<String> = list.iter().map(python::str).collect();
                    kwargs.set(key, list.join(","));
                }
            }
        }
        "RedHat" | "Suse" => {
            let enabled = !disabled.unwrap_or(false);
            if family(s) == "Suse" {
                kwargs.set("enabled", enabled);
            } else {
                kwargs.set("enabled", if enabled { "1" } else { "0" });
                let human = kwargs
                    .remove("humanname")
                    .unwrap_or_else(|| s.name().into());
                kwargs.set("name", human);
            }
        }
        _ => {}
    }
    kwargs
}

fn managed(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if s.kwargs.contains("repo") {
        return Ok(StateOutcome::bad(
            "'repo' is not a supported argument for this state. The 'name' argument is probably what was intended.",
        ));
    }
    let (enabled, disabled) = (s.arg("enabled").clone(), s.arg("disabled").clone());
    if !enabled.is_nil() && !disabled.is_nil() {
        return Ok(StateOutcome::bad("Only one of enabled/disabled is allowed"));
    }
    let disabled = match (&enabled, &disabled) {
        (Value::Nil, Value::Nil) => None,
        (Value::Nil, value) => Some(is_true(value)),
        (value, _) => Some(!is_true(value)),
    };
    let given = |keys: &[&str]| keys.iter().any(|k| s.kwargs.contains(k));
    let one_key = !KEYS.iter().any(|(one, other)| given(one) && given(other));
    let repo = match s.text("ppa").filter(|p| !p.is_empty()) {
        Some(ppa) => format!("ppa:{ppa}"),
        None => name.clone(),
    };
    let kwargs = options(s, disabled);
    let now = match known(s, &repo) {
        Ok(now) => now,
        Err(fault) => {
            return Ok(StateOutcome::bad(format!(
                "Failed to examine repo '{name}': {}",
                fault.message()
            )));
        }
    };
    let wanted = desired(s, &repo, &kwargs);
    let (mut changes, differs) = differences(s, &now, &wanted);
    if !now.is_empty() && !differs {
        return Ok(StateOutcome::good(format!(
            "Package repo '{name}' already configured"
        )));
    }
    if now.is_empty() {
        changes = map! {"repo" => name.as_str()};
    }
    if s.test {
        let result = if one_key { None } else { Some(false) };
        let text = format!("Package repo '{name}' would be configured. {DIFFERENT}");
        return Ok(StateOutcome::new(result, text).changes(changes));
    }
    if let Err(fault) = configure(s, &repo, kwargs) {
        return Ok(StateOutcome::bad(format!(
            "Failed to configure repo '{name}': {}",
            fault.message()
        )));
    }
    let after = match known(s, &repo) {
        Ok(after) => after,
        Err(fault) => {
            return Ok(StateOutcome::bad(format!(
                "Failed to confirm config of repo '{name}': {}",
                fault.message()
            )));
        }
    };
    if now.is_empty() {
        changes = map! {"repo" => name.as_str()};
    } else {
        changes = Map::new();
        for (key, _) in wanted.iter() {
            let key = python::str(key);
            let (old, new) = (now.get(&key), after.get(&key));
            if old != new {
                let (old, new) = (old.cloned(), new.cloned());
                changes.set(
                    key,
                    old_new(old.unwrap_or_default(), new.unwrap_or_default()),
                );
            }
        }
    }
    Ok(StateOutcome::good(format!("Configured package repo '{name}'")).changes(changes))
}

/// Whether a declared value means yes.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Str(text) => !matches!(
            text.to_lowercase().as_str(),
            "" | "0" | "no" | "false" | "off" | "none"
        ),
        other => other.truthy(),
    }
}

fn configure(s: &mut State<'_, '_>, repo: &str, mut kwargs: Map) -> Result<()> {
    if kwargs.remove("clean_file").is_some_and(|v| v.truthy())
        && let Some(file) = kwargs.str("file")
    {
        std::fs::write(file, "").map_err(|e| python::os_error(&e, file))?;
    }
    if family(s) == "Debian" {
        kwargs.set("aptkey", s.arg("aptkey").clone());
    }
    kwargs.set("saltenv", s.saltenv());
    s.salt_with("pkg.mod_repo", vec![repo.into()], kwargs)?;
    Ok(())
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let ppa = s.kwargs.get("ppa").filter(|v| v.truthy()).map(python::str);
    let repo = match ppa {
        Some(ppa) => format!("ppa:{ppa}"),
        None => name.clone(),
    };
    let (id, of_ppa) = (
        s.kwargs.get("keyid").cloned().unwrap_or_default(),
        s.kwargs.get("keyid_ppa").is_some_and(Value::truthy),
    );
    let remove_key = !id.is_nil() || of_ppa;
    let now = match known(s, &repo) {
        Ok(now) => now,
        Err(fault) => {
            return Ok(StateOutcome::bad(format!(
                "Failed to configure repo '{name}': {}",
                fault.message()
            )));
        }
    };
    if now.is_empty() {
        return Ok(StateOutcome::good(format!("Package repo {name} is absent")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Package repo '{name}' will be removed. {DIFFERENT}"
        )));
    }
    let kwargs = s.kwargs.clone();
    match s.salt_with("pkg.del_repo", vec![repo.as_str().into()], kwargs) {
        Ok(_) => {}
        // An entry that differs in its architectures only is another one.
        Err(CallError::Command(text)) if text.ends_with("doesn't exist in the sources.list(s)") => {
            return Ok(StateOutcome::good(format!("Package repo {name} is absent")));
        }
        Err(CallError::Command(text) | CallError::Invocation(text)) => {
            return Ok(StateOutcome::bad(text));
        }
        Err(fault) => return Err(fault),
    }
    let mut outcome = StateOutcome::good(format!("Removed repo {name}"));
    let mut changes = map! {"repo" => name};
    if remove_key {
        let mut kwargs = s.kwargs.clone();
        kwargs.0.retain(|(k, _)| {
            ["keyid", "keyid_ppa", "aptkey", "keydir"].contains(&python::str(k).as_str())
        });
        match s.salt_with("pkg.del_repo_key", vec![repo.into()], kwargs) {
            Ok(id) => {
                let text = format!(", and keyid {}", python::str(&id));
                outcome.comment.push_str(&text);
                changes.set("keyid", id);
            }
            Err(CallError::Command(text) | CallError::Invocation(text)) => {
                outcome.result = Some(false);
                let text = format!(", but failed to remove key: {text}");
                outcome.comment.push_str(&text);
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(outcome.changes(changes))
}
