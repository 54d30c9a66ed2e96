//! `pkg.installed` and `pkg.downloaded`.

use super::hold::Holds;
use super::wanted::{self, Wanted, fits, names, versions};
use super::{message, nothing, refresh, with_changes};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::pkg::{Packages, parse_sources};
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

/// What a run of `pkg.installed` has to do.
#[derive(Default)]
struct Plan {
    /// All packages that it names.
    desired: Vec<Wanted>,
    /// Those to install or change.
    targets: Vec<Wanted>,
    /// Those to install again.
    again: Vec<Wanted>,
    /// Package files by name.
    files: Vec<(String, String)>,
}

impl Plan {
    fn target_names(&self) -> Vec<&str> {
        let all = self.targets.iter().chain(&self.again);
        all.map(|w| w.name.as_str()).collect()
    }
}

pub(super) fn installed(s: &mut State<'_, '_>) -> Result {
    if nothing(s) {
        return Ok(StateOutcome::good("No packages to install provided"));
    }
    if s.flag("pkgs") && s.flag("sources") {
        return Ok(StateOutcome::bad(
            "Only one of \"pkgs\" and \"sources\" is permitted.",
        ));
    }
    if s.flag("pkg_verify") && !has(s, "pkg.verify") {
        return Ok(StateOutcome::bad("pkg.verify not implemented"));
    }
    let mut refresh = refresh(s);
    let now = wanted::installed(s)?;
    let Some(plan) = plan(s, &now, &mut refresh)? else {
        let which = if s.flag("pkgs") { "pkgs" } else { "sources" };
        return Ok(StateOutcome::bad(format!(
            "Invalidly formatted '{which}' parameter. See minion log."
        )));
    };
    if plan.targets.is_empty() && plan.again.is_empty() {
        return all_there(s, &plan);
    }
    if s.test {
        return told(s, &plan, refresh);
    }
    change(s, &now, plan, refresh)
}

fn has(s: &State<'_, '_>, fun: &str) -> bool {
    halite_modules::execution::find_for(s.ctx(), fun).is_some()
}

/// Compares what is wanted with what is there; `None` if that is not in the right form.
fn plan(s: &mut State<'_, '_>, now: &Packages, refresh: &mut bool) -> Result<Option<Plan>> {
    let mut plan = Plan::default();
    if s.flag("sources") {
        plan.files = parse_sources(s.arg("sources"));
        let one = |(name, _): &(String, String)| Wanted {
            name: name.clone(),
            version: None,
        };
        plan.desired = plan.files.iter().map(one).collect();
    } else {
        plan.desired = wanted::wanted(s, true)?;
    }
    if plan.desired.is_empty() {
        return Ok(None);
    }
    let (open, reinstall) = (s.flag("allow_updates"), s.flag("reinstall"));
    for at in 0..plan.desired.len() {
        if plan.desired[at].version.as_deref() == Some("latest") {
            let version = newest(s, &plan.desired[at].name, now, refresh)?;
            plan.desired[at].version = version;
        }
        let one = plan.desired[at].clone();
        let own = versions(s, now, &one.name)?;
        let there = match &one.version {
            _ if own.is_empty() => false,
            None => true,
            Some(version) => fits(s, own, version, open)?,
        };
        if !there {
            plan.targets.push(one);
        } else if reinstall {
            plan.again.push(one);
        }
    }
    Ok(Some(plan))
}

/// The newest version of a package: the available one, or the installed one if that is as new.
fn newest(
    s: &mut State<'_, '_>,
    name: &str,
    now: &Packages,
    refresh: &mut bool,
) -> Result<Option<String>> {
    let found = available(s, &[name], *refresh)?;
    *refresh = false;
    let version = found.get(name).map(python::str).filter(|v| !v.is_empty());
    Ok(match version {
        Some(version) => Some(version),
        None => versions(s, now, name)?.first().cloned(),
    })
}

/// `pkg.latest_version`, also for one name as a map.
pub(super) fn available(s: &mut State<'_, '_>, names: &[&str], refresh: bool) -> Result<Map> {
    let mut kwargs = map! {"refresh" => refresh};
    let from = s.low.get("fromrepo").filter(|v| v.truthy());
    if let Some(from) = from {
        kwargs.set("fromrepo", from.clone());
    }
    if let Some(valid) = s.kwargs.get("cache_valid_time") {
        kwargs.set("cache_valid_time", valid.clone());
    }
    let args: Vec<Value> = names.iter().map(|n| Value::from(*n)).collect();
    let found = s.salt_with("pkg.latest_version", args, kwargs)?;
    Ok(match (found, names) {
        (Value::Map(map), _) => map,
        (Value::Str(version), [name]) => map! {*name => Value::Str(version)},
        (_, many) if many.len() > 1 => {
            // One version for many names: the others do not exist, and it does not say whose it is.
            let mut map = Map::new();
            for name in many {
                map.0.extend(available(s, &[name], false)?.0);
            }
            map
        }
        _ => Map::new(),
    })
}

fn all_there(s: &mut State<'_, '_>, plan: &Plan) -> Result {
    let mut comment = "All specified packages are already installed".to_owned();
    if plan.desired.iter().any(|w| w.version.is_some()) {
        comment.push_str(" and are at the desired version");
    }
    let Some(holds) = Holds::apply(s, &plan.desired)? else {
        return Ok(StateOutcome::good(comment));
    };
    let mut changes = Map::new();
    for (name, change) in &holds.changes {
        changes.set(name.clone(), change.clone());
    }
    for text in &holds.comments {
        comment.push_str(".\n");
        comment.push_str(text);
    }
    Ok(StateOutcome::new(holds.result, comment).changes(changes))
}

/// What a test tells.
fn told(s: &mut State<'_, '_>, plan: &Plan, refresh: bool) -> Result {
    let plain: Vec<&str> = plan
        .targets
        .iter()
        .filter(|w| w.version.is_none() && plan.files.is_empty())
        .map(|w| w.name.as_str())
        .collect();
    let known = if plain.is_empty() {
        Map::new()
    } else {
        available(s, &plain, refresh)?
    };
    let mut changes = Map::new();
    for one in plan.targets.iter().chain(&plan.again) {
        let version = known.get(&one.name).map(python::str);
        let version = version.filter(|v| !v.is_empty());
        let new = version.unwrap_or_else(|| "installed".to_owned());
        changes.set(one.name.clone(), map! {"new" => new, "old" => ""});
    }
    let mut lines = Vec::new();
    for (list, what) in [
        (&plan.targets, "installed/updated"),
        (&plan.again, "reinstalled"),
    ] {
        if !list.is_empty() {
            lines.push(format!(
                "The following packages would be {what}: {}",
                names(list)
            ));
        }
    }
    Ok(StateOutcome::would(lines.join("\n")).changes(changes))
}

/// The arguments of `pkg.install`: all that was declared, and the packages of the plan.
fn arguments(s: &State<'_, '_>, plan: &Plan, refresh: bool) -> Map {
    let mut kwargs = s.kwargs.clone();
    kwargs.remove("hold");
    kwargs.set("refresh", refresh);
    for name in [
        "skip_verify",
        "normalize",
        "update_holds",
        "skip_suggestions",
    ] {
        kwargs.set(name, s.arg(name).clone());
    }
    kwargs.set("reinstall", !plan.again.is_empty());
    kwargs.set("split_arch", false);
    kwargs.set("fromrepo", s.arg("fromrepo").clone());
    kwargs.set("ignore_epoch", s.arg("ignore_epoch").truthy());
    if plan.files.is_empty() {
        let all = plan.targets.iter().chain(&plan.again);
        kwargs.set("pkgs", all.map(Wanted::item).collect::<Vec<_>>());
    } else {
        let names = plan.target_names();
        let files = plan.files.iter();
        let chosen = files.filter(|(name, _)| names.contains(&name.as_str()));
        let one =
            |(name, path): &(String, String)| Value::Map(map! {name.clone() => path.as_str()});
        kwargs.set("sources", chosen.map(one).collect::<Vec<_>>());
    }
    kwargs
}

/// Installs, and tells for each package whether it is there then.
fn change(s: &mut State<'_, '_>, before: &Packages, plan: Plan, refresh: bool) -> Result {
    let kwargs = arguments(s, &plan, refresh);
    let mut changes = match s.salt_with("pkg.install", vec![s.name().into()], kwargs) {
        Ok(done) => done.into_map().unwrap_or_default(),
        Err(fault) => {
            let text = message(fault)?;
            if !text.contains("Additional info follows:") {
                return Ok(StateOutcome::bad(format!(
                    "An error was encountered while installing package(s): {text}"
                )));
            }
            let now = wanted::installed(s)?;
            return Ok(with_changes(&text, difference(before, &now)));
        }
    };
    let now = wanted::installed(s)?;
    let open = s.flag("allow_updates");
    let (mut good, mut failed) = (Vec::new(), Vec::new());
    for one in &plan.targets {
        let own = versions(s, &now, &one.name)?;
        let there = match &one.version {
            _ if own.is_empty() => false,
            None => true,
            Some(version) => fits(s, own, version, open)?,
        };
        if there {
            good.push(one.clone())
        } else {
            failed.push(one.clone())
        }
    }
    let mut result = Some(failed.is_empty());
    let mut lines = Vec::new();
    if !good.is_empty() {
        let names = shown(&good);
        lines.push(if names.chars().count() < 20 {
            format!("The following packages were installed/updated: {names}")
        } else {
            format!("{} installed/updated.", targeted(good.len()))
        });
    }
    if let Some(holds) = Holds::apply(s, &plan.desired)? {
        if holds.result == Some(false) {
            result = Some(false);
        }
        holds.merge(&mut changes);
        lines.extend(holds.comments);
    }
    let rest: Vec<Wanted> = plan
        .desired
        .iter()
        .filter(|w| {
            let names = plan.target_names();
            !names.contains(&w.name.as_str())
        })
        .cloned()
        .collect();
    if !rest.is_empty() {
        lines.push(if rest.len() <= 20 {
            format!(
                "The following packages were already installed: {}",
                shown(&rest)
            )
        } else {
            format!("{} already installed", targeted(rest.len()))
        });
    }
    for one in &plan.again {
        let name = &one.name;
        if changes.contains(name) {
            lines.push(format!("Package {name} was reinstalled."));
        } else {
            result = Some(false);
            lines.push(format!("Reinstall was not successful for package {name}."));
        }
    }
    if !failed.is_empty() {
        let text = format!(
            "The following packages failed to install/update: {}",
            shown(&failed)
        );
        lines.insert(0, text);
    }
    Ok(StateOutcome::new(result, lines.join("\n")).changes(changes))
}

/// `2 targeted packages were`.
fn targeted(count: usize) -> String {
    if count == 1 {
        "1 targeted package was".to_owned()
    } else {
        format!("{count} targeted packages were")
    }
}

/// Packages with their versions.
fn shown(list: &[Wanted]) -> String {
    let list: Vec<String> = list.iter().map(Wanted::shown).collect();
    list.join(", ")
}

/// The changes between two lists.
pub(super) fn difference(old: &Packages, new: &Packages) -> Map {
    halite_modules::execution::pkg::changes(old, new)
}

/// Packages whose files are in the cache already.
pub(super) fn downloaded(s: &mut State<'_, '_>) -> Result {
    if !has(s, "pkg.list_downloaded") {
        return Ok(StateOutcome::bad(
            "The pkg.downloaded state is not available on this platform",
        ));
    }
    if nothing(s) {
        return Ok(StateOutcome::good("No packages to download provided"));
    }
    let desired = wanted::wanted(s, true)?;
    let before = cached(s)?;
    let mut targets = Vec::new();
    for one in &desired {
        let own = before.get(&one.name).cloned().unwrap_or_default();
        let there = match &one.version {
            None => !own.is_empty(),
            Some(version) => fits(s, &own, version, false)?,
        };
        if !there {
            targets.push(one.clone());
        }
    }
    if targets.is_empty() {
        let versions = desired.iter().any(|w| w.version.is_some());
        let more = if versions {
            " and are at the desired version"
        } else {
            ""
        };
        return Ok(StateOutcome::good(format!(
            "All specified packages are already downloaded{more}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "The following packages would be downloaded: {}",
            names(&targets)
        )));
    }
    let mut kwargs = s.kwargs.clone();
    kwargs.set("pkgs", targets.iter().map(Wanted::item).collect::<Vec<_>>());
    kwargs.set("downloadonly", true);
    kwargs.set("fromrepo", s.arg("fromrepo").clone());
    kwargs.set("ignore_epoch", s.arg("ignore_epoch").truthy());
    if let Err(fault) = s.salt_with("pkg.install", vec![s.name().into()], kwargs) {
        let text = message(fault)?;
        if text.contains("Additional info follows:") {
            return Ok(with_changes(&text, Map::new()));
        }
        return Ok(StateOutcome::bad(format!(
            "An error was encountered while downloading package(s): {text}"
        )));
    }
    let after = cached(s)?;
    let mut changes = Map::new();
    for (name, versions) in &after {
        let old = before.get(name).cloned().unwrap_or_default();
        if old != *versions {
            changes.set(
                name.clone(),
                map! {"old" => old.join(","), "new" => versions.join(",")},
            );
        }
    }
    let mut failed = Vec::new();
    for one in &targets {
        let own = after.get(&one.name).cloned().unwrap_or_default();
        let there = match &one.version {
            None => !own.is_empty(),
            Some(version) => fits(s, &own, version, false)?,
        };
        if !there {
            failed.push(one.clone());
        }
    }
    if !failed.is_empty() {
        return Ok(StateOutcome::bad(format!(
            "The following packages failed to download: {}",
            shown(&failed)
        ))
        .changes(changes));
    }
    let text = format!(
        "The following packages were downloaded: {}",
        shown(&targets)
    );
    Ok(StateOutcome::good(text).changes(changes))
}

/// The versions in the cache of downloaded files.
fn cached(s: &mut State<'_, '_>) -> Result<Packages> {
    let list = s.salt("pkg.list_downloaded", Vec::new())?;
    let mut found = Packages::new();
    for (name, versions) in list.as_map().map(Map::iter).into_iter().flatten() {
        let versions = versions.as_map().map(Map::iter).into_iter().flatten();
        let versions = versions.map(|(version, _)| python::str(version)).collect();
        found.insert(python::str(name), versions);
    }
    Ok(found)
}
