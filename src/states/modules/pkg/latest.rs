//! `pkg.latest`.

use super::install::available;
use super::wanted::{self, Wanted, versions};
use super::{message, nothing, refresh};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

/// More names than this are only counted.
const SHOWN: usize = 10;

pub(super) fn latest(s: &mut State<'_, '_>) -> Result {
    if nothing(s) {
        return Ok(StateOutcome::good("No packages to install provided"));
    }
    let desired = wanted::wanted(s, false)?;
    let refresh = refresh(s);
    let names: Vec<&str> = desired.iter().map(|w| w.name.as_str()).collect();
    let found = match available(s, &names, refresh) {
        Ok(found) => found,
        Err(fault) => {
            return Ok(StateOutcome::bad(format!(
                "An error was encountered while checking the newest available version of package(s): {}",
                message(fault)?
            )));
        }
    };
    let now = wanted::installed(s)?;
    let mut targets: Vec<(String, String)> = Vec::new();
    let mut current = Map::new();
    let mut problems = Vec::new();
    let mut rest = Vec::new();
    for Wanted { name, .. } in &desired {
        let own = versions(s, &now, name)?.join(",");
        let newest = found.get(name).map(python::str).unwrap_or_default();
        match (newest.is_empty(), own.is_empty()) {
            (true, true) => problems.push(format!("No information found for '{name}'.")),
            (true, false) => rest.push(name.clone()),
            (false, _) => targets.push((name.clone(), newest)),
        }
        current.set(name.clone(), own);
    }
    if !problems.is_empty() {
        return Ok(StateOutcome::bad(problems.join(" ")));
    }
    rest.sort();
    if targets.is_empty() {
        return Ok(StateOutcome::good(match rest.as_slice() {
            [one] => format!("Package {one} is already up-to-date"),
            many if many.len() > SHOWN => format!("All {} packages are up-to-date.", many.len()),
            many => format!("All packages are up-to-date ({}).", many.join(", ")),
        }));
    }
    let mut names: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if s.test {
        return Ok(told(&targets, &names, &rest, &current));
    }
    let mut kwargs = s.kwargs.clone();
    kwargs.set("refresh", false);
    for name in ["fromrepo", "skip_verify"] {
        kwargs.set(name, s.arg(name).clone());
    }
    let pkgs: Vec<Value> = targets
        .iter()
        .map(|(name, _)| name.as_str().into())
        .collect();
    kwargs.set("pkgs", pkgs);
    let changes = match s.salt_with("pkg.install", vec![s.name().into()], kwargs) {
        Ok(done) => done.into_map().unwrap_or_default(),
        Err(fault) => {
            return Ok(StateOutcome::bad(format!(
                "An error was encountered while installing package(s): {}",
                message(fault)?
            )));
        }
    };
    Ok(done(&targets, &names, &rest, changes))
}

/// What a test tells.
fn told(
    targets: &[(String, String)],
    names: &[&str],
    rest: &[String],
    current: &Map,
) -> StateOutcome {
    let mut text = format!(
        "The following packages would be installed/upgraded: {}",
        names.join(", ")
    );
    if rest.len() > SHOWN {
        text.push_str(&format!("\n{} packages are already up-to-date", rest.len()));
    } else if !rest.is_empty() {
        let one = |name: &String| {
            let version = current.str(name).unwrap_or_default();
            format!("{name} ({version})")
        };
        let list: Vec<String> = rest.iter().map(one).collect();
        text.push_str(&format!(
            "\nThe following packages are already up-to-date: {}",
            list.join(", ")
        ));
    }
    let mut changes = Map::new();
    for (name, version) in targets {
        let old = current.get(name).cloned().unwrap_or_default();
        changes.set(name.clone(), map! {"new" => version.as_str(), "old" => old});
    }
    StateOutcome::would(text).changes(changes)
}

fn done(
    targets: &[(String, String)],
    names: &[&str],
    rest: &[String],
    changes: Map,
) -> StateOutcome {
    if changes.is_empty() {
        return StateOutcome::bad(match names {
            [one] => format!("Package {one} failed to update."),
            many if many.len() > SHOWN => format!(
                "{} targeted packages failed to update. See debug log for details.",
                many.len()
            ),
            many => format!(
                "The following targeted packages failed to update. See debug log for details: ({}).",
                many.join(", ")
            ),
        });
    }
    let reached = |name: &str, version: &str| {
        let change = changes.get(name).and_then(Value::as_map);
        let new = change.and_then(|c| c.str("new")).unwrap_or_default();
        new.split(',').any(|v| v == version)
    };
    let (mut good, mut failed) = (Vec::new(), Vec::new());
    for name in names {
        let version = targets.iter().find(|(n, _)| n == name).map(|(_, v)| v);
        if version.is_some_and(|v| reached(name, v)) {
            good.push(*name);
        } else {
            failed.push(*name);
        }
    }
    let mut words = Vec::new();
    if !failed.is_empty() {
        words.push(format!(
            "The following packages failed to update: {}",
            failed.join(", ")
        ));
    }
    if !good.is_empty() {
        words.push(format!(
            "The following packages were successfully installed/upgraded: {}",
            good.join(", ")
        ));
    }
    if rest.len() > SHOWN {
        words.push(format!("{} packages were already up-to-date ", rest.len()));
    } else if !rest.is_empty() {
        words.push(format!(
            "The following packages were already up-to-date: {}",
            rest.join(", ")
        ));
    }
    StateOutcome::new(Some(failed.is_empty()), words.join(" ")).changes(changes)
}
