//! Installing, removing and upgrading packages.

use super::list::{compare, fetch, in_repositories, installed, known, latest, normalized};
use super::{dpkg, run_quiet, selections};
use crate::execution::declare::Result;
use crate::execution::nested::is_true;
use crate::execution::pkg::common::{
    Packages, Targets, change_error, changes, empty, has_keyword, holds, option, option_is_true,
    outcome_of_upgrade, split_comparison, targets,
};
use crate::execution::{Call, CallError, python};
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value};

/// A package to install: its name, apt's argument, and the version if known.
struct PackageRequest {
    name: String,
    word: String,
    version: Option<String>,
}

/// Arguments for apt: packages to install, to downgrade and to reinstall.
#[derive(Default)]
struct InstallPlan {
    targets: Vec<String>,
    downgrade: Vec<String>,
    again: Vec<(String, String)>,
    errors: Vec<String>,
}

pub fn install(call: &mut Call<'_>) -> Result {
    let refresh = needs_refresh(call)?;
    if call.flag("debconf") {
        call.salt(
            "debconf.set_file",
            vec![call.arg("debconf").clone()],
            Map::new(),
        )?;
    }
    let (name, pkgs, sources) = (
        call.arg("name").clone(),
        call.arg("pkgs").clone(),
        call.arg("sources").clone(),
    );
    let split = !has_keyword(call, "split_arch") || option_is_true(call, "split_arch");
    let normalize = call.flag("normalize") && split;
    let osarch = call.ctx.grains.str("osarch").unwrap_or_default().to_owned();
    let norm = |n: &str| {
        if normalize {
            normalized(&osarch, n)
        } else {
            n.to_owned()
        }
    };
    let list = targets(call, &name, &pkgs, &sources, &norm)?;
    let old = installed(call)?;
    let mut plan = InstallPlan::default();
    let repository = match list {
        Targets::Repository(list) => {
            from_repository(call, &list, &old, &mut plan)?;
            true
        }
        Targets::File(files) => {
            for path in files {
                let info = dpkg::bin_pkg_info(call, &path)?;
                let wanted = PackageRequest {
                    name: info.name,
                    word: path,
                    version: Some(info.version),
                };
                sort_in(call, wanted, &old, &mut plan)?;
            }
            false
        }
        Targets::None | Targets::Advisory(_) => return empty(),
    };
    let commands = commands(call, &plan, repository);
    let mut ret = Map::new();
    if !commands.is_empty() {
        if refresh {
            let valid = option(call, "cache_valid_time");
            fetch(call, &valid, false, None)?;
        }
        ret = run_plan(call, commands, &old, &mut plan)?;
    }
    if plan.errors.is_empty() {
        Ok(ret.into())
    } else {
        Err(change_error("installing", plan.errors, ret))
    }
}

/// Whether to refresh the lists: not if the versions are known already.
fn needs_refresh(call: &mut Call<'_>) -> Result<bool> {
    if !is_true(call.arg("refresh")) {
        return Ok(false);
    }
    let mut pairs = Vec::new();
    if option_is_true(call, "version") {
        pairs.push((python::str(call.arg("name")), option(call, "version")));
    }
    let mut any = false;
    if let Value::Array(list) = call.arg("pkgs") {
        if !list.is_empty() {
            pairs.clear();
        }
        for item in list {
            match item.as_map().and_then(|m| m.0.first()) {
                Some((name, version)) => pairs.push((python::str(name), version.clone())),
                None => any = true,
            }
        }
    } else if pairs.is_empty() {
        any = true;
    }
    for (name, version) in pairs {
        any |= latest(call, vec![name], None, true, &Value::Nil)? != version;
    }
    Ok(any)
}

fn from_repository(
    call: &mut Call<'_>,
    list: &[(String, Option<String>)],
    old: &Packages,
    plan: &mut InstallPlan,
) -> Result<()> {
    let compared: Vec<String> = list
        .iter()
        .filter(|(_, v)| v.as_ref().is_some_and(|v| v.starts_with(['<', '>'])))
        .map(|(n, _)| n.clone())
        .collect();
    let available = if compared.is_empty() {
        Packages::new()
    } else {
        in_repositories(call, &compared)?
    };
    for (name, version) in list {
        let mut version = version
            .as_ref()
            .map(|v| v.trim_start_matches('=').to_owned());
        if let Some(wanted) = version.as_mut().filter(|_| compared.contains(name)) {
            let candidates = available.get(name).cloned().unwrap_or_default();
            match best_match(call, wanted, &candidates)? {
                Some(found) => *wanted = found,
                None => {
                    let list = if candidates.is_empty() {
                        "None".to_owned()
                    } else {
                        candidates.join(", ")
                    };
                    plan.errors.push(format!(
                        "No version matching '{name}{wanted}' could be found (available: {list})"
                    ));
                    continue;
                }
            }
        }
        let word = match &version {
            Some(version) => format!("{name}={version}"),
            None => name.clone(),
        };
        sort_in(
            call,
            PackageRequest {
                name: name.clone(),
                word,
                version,
            },
            old,
            plan,
        )?;
    }
    Ok(())
}

/// The first available version that satisfies a comparison.
fn best_match(call: &mut Call<'_>, wanted: &str, candidates: &[String]) -> Result<Option<String>> {
    let (sign, version) = split_comparison(wanted);
    let sign = if sign.is_empty() { "==" } else { sign };
    let ignore_epoch = call.flag("ignore_epoch");
    for candidate in candidates {
        if holds(compare(call, candidate, version, ignore_epoch)?, sign) {
            return Ok(Some(candidate.clone()));
        }
    }
    Ok(None)
}

fn sort_in(
    call: &mut Call<'_>,
    wanted: PackageRequest,
    old: &Packages,
    plan: &mut InstallPlan,
) -> Result<()> {
    let reinstall = call.flag("reinstall");
    let current = old
        .get(&wanted.name)
        .map(|v| v.join(","))
        .unwrap_or_default();
    let Some(version) = wanted.version else {
        if reinstall && old.contains_key(&wanted.name) {
            plan.again.push((wanted.name.clone(), wanted.name))
        } else {
            plan.targets.push(wanted.word)
        }
        return Ok(());
    };
    if current.is_empty() {
        plan.targets.push(wanted.word);
        return Ok(());
    }
    let order = compare(call, &version, &current, false)?;
    if reinstall && holds(order, "==") {
        plan.again.push((wanted.name, wanted.word));
    } else if holds(order, ">=") {
        plan.targets.push(wanted.word);
    } else {
        plan.downgrade.push(wanted.word);
    }
    Ok(())
}

/// `apt-get` with its options, up to `install`.
fn prefix(call: &Call<'_>, repository: bool) -> Vec<String> {
    let mut argv: Vec<String> = ["apt-get", "-q", "-y"].map(str::to_owned).to_vec();
    let mut add = |words: &[&str]| argv.extend(words.iter().map(|w| (*w).to_owned()));
    if option_is_true(call, "force_yes") {
        add(&["--force-yes"]);
    }
    if option_is_true(call, "force_conf_new") {
        add(&["-o", "DPkg::Options::=--force-confnew"])
    } else {
        add(&[
            "-o",
            "DPkg::Options::=--force-confold",
            "-o",
            "DPkg::Options::=--force-confdef",
        ])
    }
    if has_keyword(call, "install_recommends") {
        if option_is_true(call, "install_recommends") {
            add(&["--install-recommends"])
        } else {
            add(&["--no-install-recommends"])
        }
    }
    if option_is_true(call, "only_upgrade") {
        add(&["--only-upgrade"]);
    }
    if call.flag("skip_verify") {
        add(&["--allow-unauthenticated"]);
    }
    let from = if call.flag("fromrepo") {
        call.arg("fromrepo").clone()
    } else {
        option(call, "repo")
    };
    if from.truthy() && repository {
        add(&["-t", &python::str(&from)]);
    }
    add(&["install"]);
    argv
}

fn commands(call: &Call<'_>, plan: &InstallPlan, repository: bool) -> Vec<Vec<String>> {
    let prefix = prefix(call, repository);
    let mut all = Vec::new();
    if !plan.targets.is_empty() {
        let mut argv = prefix.clone();
        argv.extend(plan.targets.iter().cloned());
        all.push(argv);
    }
    if !plan.downgrade.is_empty() {
        let mut argv = prefix.clone();
        if repository && !argv.iter().any(|w| w == "--force-yes") {
            argv.insert(argv.len() - 1, "--force-yes".to_owned());
        }
        argv.extend(plan.downgrade.iter().cloned());
        all.push(argv);
    }
    if let Some(last) = all.last_mut().filter(|_| call.flag("downloadonly")) {
        last.push("--download-only".to_owned());
    }
    if !plan.again.is_empty() {
        let mut argv = prefix;
        if !call.flag("sources") {
            argv.push("--reinstall".to_owned());
        }
        argv.extend(plan.again.iter().map(|(_, word)| word.clone()));
        all.push(argv);
    }
    all
}

/// Runs the commands; held packages among the targets are unheld meanwhile.
fn run_plan(
    call: &mut Call<'_>,
    commands: Vec<Vec<String>>,
    old: &Packages,
    plan: &mut InstallPlan,
) -> Result<Map> {
    let words = plan
        .targets
        .iter()
        .chain(plan.again.iter().map(|(name, _)| name));
    let names: Vec<&str> = words
        .map(|w| w.split('=').next().unwrap_or_default())
        .collect();
    let mut held = selections::by_state(call, None)?
        .swap_remove("hold")
        .unwrap_or_default();
    held.retain(|h| names.contains(&h.as_str()));
    if !held.is_empty() {
        selections::change_hold(call, &held, false)?;
    }
    for argv in commands {
        let ran = super::change(call, argv)?;
        if !ran.ok() && !ran.stderr.is_empty() {
            plan.errors.push(ran.stderr);
        }
    }
    let new = installed(call)?;
    let mut ret = changes(old, &new);
    let text =
        |list: &Packages, name: &str| list.get(name).map(|v| v.join(",")).unwrap_or_default();
    for (name, _) in &plan.again {
        if !ret.contains(name) || old.contains_key(name) {
            ret.set(
                name.clone(),
                map! {"old" => text(old, name), "new" => text(&new, name)},
            );
        }
    }
    if !held.is_empty() {
        selections::change_hold(call, &held, true)?;
    }
    Ok(ret)
}

/// `remove` and `purge`.
pub fn uninstall(call: &mut Call<'_>, action: &str) -> Result {
    let (name, pkgs) = (call.arg("name").clone(), call.arg("pkgs").clone());
    let osarch = call.ctx.grains.str("osarch").unwrap_or_default().to_owned();
    // Neither a version nor advisories are passed on.
    let kwargs = std::mem::take(&mut call.bound.kwargs);
    let list = targets(call, &name, &pkgs, &Value::Nil, &|n| normalized(&osarch, n));
    call.bound.kwargs = kwargs;
    let wanted: Vec<String> = match list? {
        Targets::Repository(list) => list.into_iter().map(|(name, _)| name).collect(),
        _ => {
            installed(call)?;
            return Err(CallError::Type(
                "'NoneType' object is not iterable".to_owned(),
            ));
        }
    };
    let before = known(call)?;
    let mut old = before.purge_desired;
    old.extend(before.installed);
    let mut targets = matching(&wanted, &old);
    if action == "purge" {
        targets.extend(matching(&wanted, &before.removed));
    }
    if targets.is_empty() {
        return empty();
    }
    let mut argv: Vec<String> = ["apt-get", "-q", "-y", action].map(str::to_owned).to_vec();
    argv.extend(targets);
    let ran = super::change(call, argv)?;
    let after = known(call)?;
    let mut new = after.purge_desired;
    new.extend(after.installed);
    let installed = changes(&old, &new);
    let ret = match action {
        "purge" => {
            let removed = changes(&before.removed, &after.removed);
            map! {"removed" => removed, "installed" => installed}
        }
        _ => installed,
    };
    if ran.ok() || ran.stderr.is_empty() {
        Ok(ret.into())
    } else {
        Err(change_error("removing", vec![ran.stderr], ret))
    }
}

/// The names found in a list, with globs expanded.
pub fn matching(wanted: &[String], list: &Packages) -> Vec<String> {
    let mut found: Vec<String> = wanted
        .iter()
        .filter(|n| !n.contains('*') && list.contains_key(*n))
        .cloned()
        .collect();
    // Of several globs only the last one counts, as in stock.
    if let Some(glob) = wanted.iter().rev().find(|n| n.contains('*')) {
        for name in list.keys().filter(|n| fnmatch(n, glob)) {
            if !found.contains(name) {
                found.push(name.clone());
            }
        }
    }
    found
}

pub fn upgrade(call: &mut Call<'_>) -> Result {
    if is_true(call.arg("refresh")) {
        let valid = option(call, "cache_valid_time");
        fetch(call, &valid, false, None)?;
    }
    let old = installed(call)?;
    let mut argv: Vec<String> = ["apt-get", "-q", "-y"].map(str::to_owned).to_vec();
    let options: &[&str] = if option_is_true(call, "force_conf_new") {
        &["--force-confnew"]
    } else {
        &["--force-confold", "--force-confdef"]
    };
    for option in options {
        argv.extend(["-o".to_owned(), format!("DPkg::Options::={option}")]);
    }
    let download = option_is_true(call, "download_only") || option_is_true(call, "downloadonly");
    for (on, word) in [
        (option_is_true(call, "force_yes"), "--force-yes"),
        (
            option_is_true(call, "skip_verify"),
            "--allow-unauthenticated",
        ),
        (download, "--download-only"),
        (
            option_is_true(call, "allow_downgrades"),
            "--allow-downgrades",
        ),
    ] {
        argv.extend(on.then(|| word.to_owned()));
    }
    argv.push(
        if call.flag("dist_upgrade") {
            "dist-upgrade"
        } else {
            "upgrade"
        }
        .to_owned(),
    );
    let ran = super::change(call, argv)?;
    let new = installed(call)?;
    outcome_of_upgrade(&ran, &old, &new)
}

pub fn autoremove(call: &mut Call<'_>) -> Result {
    let list_only = call.flag("list_only");
    let mut argv = vec!["apt-get".to_owned()];
    argv.push(
        if list_only {
            "--assume-no"
        } else {
            "--assume-yes"
        }
        .to_owned(),
    );
    if call.flag("purge") {
        argv.push("--purge".to_owned());
    }
    argv.push("autoremove".to_owned());
    if list_only {
        let ran = run_quiet(call, argv)?;
        call.retcode = 0.into();
        return Ok(to_be_removed(&ran.stdout).into());
    }
    let old = installed(call)?;
    super::change(call, argv)?;
    let new = installed(call)?;
    Ok(changes(&old, &new).into())
}

fn to_be_removed(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .lines()
        .skip_while(|l| !l.contains("The following packages will be REMOVED:"))
        .skip(1)
        .take_while(|l| l.starts_with(' '))
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_globs() {
        let list: Packages = ["ab", "ac", "b"]
            .map(|n| (n.to_owned(), Vec::new()))
            .into_iter()
            .collect();
        let wanted = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            matching(&wanted(&["b", "zz", "a*"]), &list),
            ["b", "ab", "ac"]
        );
        assert!(matching(&wanted(&["z*"]), &list).is_empty());
    }

    #[test]
    fn removals_are_read() {
        let text =
            "Reading...\nThe following packages will be REMOVED:\n  b a\n  c\n0 upgraded\n  x\n";
        assert_eq!(to_be_removed(text), ["a", "b", "c"]);
    }
}
