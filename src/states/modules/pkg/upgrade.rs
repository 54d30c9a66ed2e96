//! `pkg.uptodate`, and groups and patches, which only some package managers have.

use super::wanted::{self, versions};
use super::{message, nothing};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::{find_for, python};
use halite_wire::{Map, Value, map};

/// The upgrades that there are for the packages of the state.
fn upgrades(s: &mut State<'_, '_>) -> Result<Map> {
    let mut kwargs = s.kwargs.clone();
    kwargs.set("refresh", s.flag("refresh"));
    let found = s.salt_with("pkg.list_upgrades", Vec::new(), kwargs)?;
    let mut found = found.into_map().unwrap_or_default();
    if let Value::Array(pkgs) = s.arg("pkgs") {
        let names: Vec<String> = pkgs
            .iter()
            .filter_map(|p| p.as_str().map(str::to_owned))
            .collect();
        found
            .0
            .retain(|(name, _)| names.contains(&python::str(name)));
    }
    Ok(found)
}

pub(super) fn uptodate(s: &mut State<'_, '_>) -> Result {
    if find_for(s.ctx(), "pkg.list_upgrades").is_none() {
        return Ok(StateOutcome::bad("State pkg.uptodate is not available"));
    }
    let found = match upgrades(s) {
        Ok(found) => found,
        Err(fault) => return Ok(StateOutcome::bad(message(fault)?)),
    };
    let now = wanted::installed(s)?;
    let mut expected = Map::new();
    for (name, new) in found.iter() {
        let name = python::str(name);
        let old = versions(s, &now, &name)?.join(",");
        expected.set(name, map! {"new" => new.clone(), "old" => old});
    }
    if expected.is_empty() {
        return Ok(StateOutcome::good("System is already up-to-date"));
    }
    if s.test {
        return Ok(StateOutcome::would("System update will be performed").changes(expected));
    }
    let mut kwargs = s.kwargs.clone();
    kwargs.set("refresh", s.flag("refresh"));
    kwargs.set("pkgs", s.arg("pkgs").clone());
    let changes = match s.salt_with("pkg.upgrade", Vec::new(), kwargs) {
        Ok(done) => done.into_map().unwrap_or_default(),
        Err(fault) => {
            let text = without_result_of_changes(&message(fault)?);
            let after = wanted::installed(s)?;
            return Ok(StateOutcome::bad(text).changes(super::install::difference(&now, &after)));
        }
    };
    let missing: Vec<String> = match s.arg("pkgs") {
        Value::Array(_) if !nothing(s) => {
            let missing = expected.iter().map(|(name, _)| python::str(name));
            missing.filter(|name| !changes.contains(name)).collect()
        }
        _ => Vec::new(),
    };
    Ok(if missing.is_empty() {
        StateOutcome::good("Upgrade ran successfully").changes(changes)
    } else {
        let text = format!(
            "The following package(s) failed to update: {}",
            missing.join(", ")
        );
        StateOutcome::bad(text).changes(changes)
    })
}

/// The text of a failed upgrade without its changes, which come before the program's output.
fn without_result_of_changes(text: &str) -> String {
    const INFO: &str = "Additional info follows:\n\n";
    let cut = text.split_once(INFO).and_then(|(head, data)| {
        let rest = data.strip_prefix("changes:\n")?;
        let at = rest.find("\nresult:\n")?;
        Some(format!("{head}{INFO}{}", &rest[at + 1..]))
    });
    cut.unwrap_or_else(|| text.to_owned())
}

pub(super) fn group_installed(s: &mut State<'_, '_>) -> Result {
    for fun in ["pkg.group_diff", "pkg.group_install"] {
        if find_for(s.ctx(), fun).is_none() {
            return Ok(StateOutcome::bad(
                "pkg.group_install not available for this platform",
            ));
        }
    }
    for (name, default) in [("skip", "skip"), ("include", "include")] {
        if !matches!(s.arg(name), Value::Nil | Value::Array(_)) {
            return Ok(StateOutcome::bad(format!(
                "{default} must be formatted as a list"
            )));
        }
    }
    let name = s.name();
    let skip: Vec<String> = s.list("skip").iter().map(python::str).collect();
    let include: Vec<String> = s.list("include").iter().map(python::str).collect();
    let diff = match s.salt("pkg.group_diff", vec![name.clone().into()]) {
        Ok(diff) => diff.into_map().unwrap_or_default(),
        Err(fault) => {
            return Ok(StateOutcome::bad(format!(
                "An error was encountered while installing/updating group '{name}': {}.",
                message(fault)?
            )));
        }
    };
    let part = |group: &str, key: &str| -> Vec<String> {
        let group = diff.get(group).and_then(Value::as_map);
        group
            .and_then(|g| g.get(key))
            .map(Value::str_list)
            .unwrap_or_default()
    };
    let mandatory = part("mandatory", "not installed");
    let wrong: Vec<String> = skip
        .iter()
        .filter(|n| mandatory.contains(n) || part("mandatory", "installed").contains(n))
        .cloned()
        .collect();
    if !wrong.is_empty() {
        return Ok(StateOutcome::bad(format!(
            "The following mandatory packages cannot be skipped: {}",
            wrong.join(", ")
        )));
    }
    let mut targets = mandatory;
    let chosen = part("default", "not installed")
        .into_iter()
        .filter(|n| !skip.contains(n));
    targets.extend(chosen);
    targets.extend(include);
    if targets.is_empty() {
        return Ok(StateOutcome::good(format!(
            "Group '{name}' is already installed"
        )));
    }
    if s.test {
        let list: Map = targets
            .iter()
            .map(|n| (n.clone(), map! {"new" => "", "old" => ""}))
            .collect();
        let text = format!(
            "The following packages would be installed: {}",
            targets.join(", ")
        );
        return Ok(StateOutcome::would(text).changes(list));
    }
    let mut kwargs = s.kwargs.clone();
    kwargs.set("pkgs", targets.clone());
    let changes = match s.salt_with("pkg.install", vec![name.clone().into()], kwargs) {
        Ok(done) => done.into_map().unwrap_or_default(),
        Err(fault) => {
            return Ok(StateOutcome::bad(format!(
                "An error was encountered while installing/updating group '{name}': {}.",
                message(fault)?
            )));
        }
    };
    let now = wanted::installed(s)?;
    let failed: Vec<&String> = targets.iter().filter(|n| !now.contains_key(*n)).collect();
    if failed.is_empty() {
        return Ok(StateOutcome::good(format!("Group '{name}' was installed")).changes(changes));
    }
    let list: Vec<&str> = failed.iter().map(|n| n.as_str()).collect();
    let text = format!(
        "Failed to install the following packages: {}",
        list.join(", ")
    );
    Ok(StateOutcome::bad(text).changes(changes))
}

/// `patch_installed` and `patch_downloaded`.
pub(super) fn patches(s: &mut State<'_, '_>, download: bool) -> Result {
    if find_for(s.ctx(), "pkg.list_patches").is_none() {
        let name = if download {
            "patch_downloaded"
        } else {
            "patch_installed"
        };
        return Ok(StateOutcome::bad(format!(
            "The pkg.{name} state is not available on this platform"
        )));
    }
    let ids: Vec<String> = s.list("advisory_ids").iter().map(python::str).collect();
    let past = if download { "downloaded" } else { "installed" };
    if ids.is_empty() {
        return Ok(StateOutcome::good(format!(
            "No advisory ids provided to be {past}"
        )));
    }
    let known = s.salt_with("pkg.list_patches", Vec::new(), map! {"refresh" => false})?;
    let known = known.into_map().unwrap_or_default();
    let installed = |id: &str| {
        let patch = known.get(id).and_then(Value::as_map);
        patch.map(|p| p.get("installed").is_some_and(Value::truthy))
    };
    let unknown: Vec<&str> = ids
        .iter()
        .filter(|id| installed(id).is_none())
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        return Ok(StateOutcome::bad(format!(
            "The following advisory ids were not found: {}",
            unknown.join(", ")
        )));
    }
    let targets: Vec<&str> = ids
        .iter()
        .filter(|id| installed(id) == Some(false))
        .map(String::as_str)
        .collect();
    if targets.is_empty() {
        return Ok(StateOutcome::good(format!(
            "Advisory patch is not needed or related packages are already {past}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "The following advisory patches would be {past}: {}",
            targets.join(", ")
        )));
    }
    let mut kwargs = s.kwargs.clone();
    let ids: Vec<Value> = targets.iter().map(|id| Value::from(*id)).collect();
    kwargs.set("advisory_ids", ids);
    kwargs.set(
        "downloadonly",
        download || s.kwargs.get("downloadonly").is_some_and(Value::truthy),
    );
    match s.salt_with("pkg.install", vec![s.name().into()], kwargs) {
        Ok(changes) => {
            let text = format!(
                "Advisory patch(es) successfully {past}: {}",
                targets.join(", ")
            );
            Ok(StateOutcome::good(text).changes(changes))
        }
        Err(fault) => {
            let doing = if download {
                "downloading"
            } else {
                "installing"
            };
            Ok(StateOutcome::bad(format!(
                "An error was encountered while {doing} advisory patch(es): {}",
                message(fault)?
            )))
        }
    }
}
