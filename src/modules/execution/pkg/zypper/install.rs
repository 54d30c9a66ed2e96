//! Installing, upgrading and removing packages.

use super::list::{ListOptions, downloaded, list_with_options, normalized};
use super::repos::refresh_with;
use super::run::{SUCCESS_CODES, ZypperOptions, to_args};
use super::{find, wildcard};
use crate::execution::declare::Result;
use crate::execution::pkg::common::{
    Targets, empty, keywords, split_comparison, targets, with_info,
};
use crate::execution::pkg::lowpkg;
use crate::execution::pkg::rpm::osarch;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;

/// Maximum number of packages per run.
const BATCH: usize = 500;

/// `pkg_resource.parse_targets` with the call's keywords.
fn parsed(call: &mut Call<'_>, name: &Value, pkgs: &Value, sources: &Value) -> Result<Targets> {
    let own = osarch(call);
    let plain = keywords(call).get("normalize").is_some_and(|v| !v.truthy());
    let normalize = |name: &str| {
        if plain {
            name.to_owned()
        } else {
            normalized(&own, name)
        }
    };
    let found = targets(call, name, pkgs, sources, &normalize)?;
    // The version of a single package may have wildcards, handled elsewhere.
    Ok(match found {
        Targets::Repository(list) if !pkgs.truthy() => {
            Targets::Repository(list.into_iter().map(|(name, _)| (name, None)).collect())
        }
        other => other,
    })
}

/// The types in names like `pattern:base`.
fn kinds<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let kinds = names.filter_map(|n| n.split_once(':'));
    let kinds: BTreeSet<String> = kinds.map(|(kind, _)| kind.to_owned()).collect();
    kinds.into_iter().collect()
}

/// The zypper argument for a package.
fn word(name: &str, version: Option<&str>) -> String {
    let Some(version) = version else {
        return name.to_owned();
    };
    let (sign, version) = split_comparison(version);
    let sign = if sign.is_empty() { "=" } else { sign };
    format!("{name}{sign}{version}")
}

/// The arguments before the packages.
fn install_args(call: &Call<'_>) -> Vec<String> {
    let mut args = Vec::new();
    let mut add =
        |on: bool, list: &[&str]| args.extend(if on { to_args(list) } else { Vec::new() });
    add(call.flag("skip_verify"), &["--no-gpg-checks"]);
    add(!call.flag("refresh"), &["--no-refresh"]);
    add(true, &["install", "--auto-agree-with-licenses"]);
    let keywords = keywords(call);
    let capability = keywords
        .get("resolve_capabilities")
        .is_some_and(Value::truthy);
    add(true, &[if capability { "--capability" } else { "--name" }]);
    add(call.flag("downloadonly"), &["--download-only"]);
    if call.flag("fromrepo") {
        let repo = python::str(call.arg("fromrepo"));
        add(true, &["--force", "--force-resolution", "--from", &repo]);
    }
    add(call.flag("no_recommends"), &["--no-recommends"]);
    args
}

/// The packages before or after, as far as the result needs them.
fn state(call: &mut Call<'_>, wanted: &ListOptions, only_download: bool) -> Result<Map> {
    if only_download {
        downloaded(call, &wanted.root)
    } else {
        list_with_options(call, wanted, false)
    }
}

pub fn install(call: &mut Call<'_>) -> Result {
    let arg = |call: &Call<'_>, name: &str| call.arg(name).clone();
    let (name, pkgs, sources) = (arg(call, "name"), arg(call, "pkgs"), arg(call, "sources"));
    let (root, version) = (arg(call, "root"), arg(call, "version"));
    let only_download = call.flag("downloadonly");
    if call.flag("refresh") {
        let keywords = keywords(call);
        refresh_with(call, root.clone(), keywords)?;
    }
    let mut found = parsed(call, &name, &pkgs, &sources)?;
    if found == Targets::None {
        return empty();
    }
    let newest = wildcard::version(call, &name, &version, &root)?;
    if newest.is_some() && pkgs.is_nil() && sources.is_nil() {
        found = match found {
            Targets::Repository(_) => Targets::Repository(vec![(python::str(&name), newest)]),
            other => other,
        };
    }
    let advisory = matches!(found, Targets::Advisory(_));
    let mut list: Vec<String> = match found {
        Targets::None => Vec::new(),
        Targets::Repository(list) => list.iter().map(|(n, v)| word(n, v.as_deref())).collect(),
        Targets::File(files) => files,
        Targets::Advisory(ids) => {
            let known = find::patches(call, &root, false)?;
            if let Some(id) = ids.iter().find(|id| known.get(id).is_none()) {
                return Err(CallError::Command(format!(
                    "Advisory id \"{id}\" not found"
                )));
            }
            ids
        }
    };
    let wanted = ListOptions {
        root: root.clone(),
        includes: kinds(list.iter()),
        attr: keywords(call).get("diff_attr").cloned().unwrap_or_default(),
    };
    let old = state(call, &wanted, only_download)?;
    if advisory {
        list = list.into_iter().map(|id| format!("patch:{id}")).collect();
    }
    let args = install_args(call);
    let mut how = ZypperOptions {
        scope: true,
        forgive: call.flag("ignore_repo_failure"),
        ..ZypperOptions::new(&root)
    };
    let mut lower = Vec::new();
    for batch in list.chunks(BATCH) {
        let text = how.text(call, &[&args, batch].concat())?;
        lower.extend(text.lines().filter_map(downgrade));
    }
    how.scope = false;
    for batch in lower.chunks(BATCH) {
        let args = [&args, &to_args(&["--force"])[..], batch].concat();
        how.text(call, &args)?;
    }
    let new = state(call, &wanted, only_download)?;
    Ok(command_helpers::compare(&old, &new).into())
}

/// The package zypper would have to downgrade.
fn downgrade(line: &str) -> Option<String> {
    let (name, rest) = line
        .strip_prefix("The selected package '")?
        .split_once('\'')?;
    (!name.is_empty() && rest.contains("has lower version")).then(|| name.to_owned())
}

pub fn remove(call: &mut Call<'_>) -> Result {
    let (name, pkgs) = (call.arg("name").clone(), call.arg("pkgs").clone());
    let root = call.arg("root").clone();
    // Other keywords of the call are ignored here.
    let kept = std::mem::replace(&mut call.bound.kwargs, Map::new());
    let found = parsed(call, &name, &pkgs, &Value::Nil);
    call.bound.kwargs = kept;
    let Targets::Repository(list) = found? else {
        let why = "'NoneType' object has no attribute 'keys'";
        return Err(CallError::raised("AttributeError", why));
    };
    let fixes = temporary_fixes(call, &list, &root)?;
    let wanted = ListOptions {
        root: root.clone(),
        includes: kinds(list.iter().map(|(n, _)| n)),
        ..ListOptions::default()
    };
    let old = list_with_options(call, &wanted, false)?;
    let mut targets = Vec::new();
    for (name, version) in list.into_iter().filter(|(n, _)| !fixes.contains(n)) {
        let Some(own) = old.str(&name) else { continue };
        match version {
            Some(version) if own.split(',').any(|v| v == version) => {
                targets.push(format!("{name}-{version}"));
            }
            Some(version) if !version.is_empty() => {}
            _ => targets.push(name),
        }
    }
    if targets.is_empty() && fixes.is_empty() {
        return empty();
    }
    let how = ZypperOptions {
        scope: true,
        ..ZypperOptions::new(&root)
    };
    for batch in targets.chunks(BATCH) {
        how.text(call, &[&to_args(&["remove"])[..], batch].concat())?;
    }
    for batch in fixes.chunks(BATCH) {
        let args = to_args(&["removeptf", "--allow-downgrade"]);
        how.text(call, &[&args[..], batch].concat())?;
    }
    let new = list_with_options(call, &wanted, false)?;
    Ok(command_helpers::compare(&old, &new).into())
}

/// The packages that are the vendor's temporary fixes, which are removed differently.
fn temporary_fixes(
    call: &mut Call<'_>,
    list: &[(String, Option<String>)],
    root: &Value,
) -> Result<Vec<String>> {
    let mut argv = lowpkg::rpm(root);
    argv.extend(["-q", "--qf", "%{NAME}: [%{PROVIDES} ]\n"].map(str::to_owned));
    argv.extend(list.iter().map(|(n, _)| n.clone()));
    let text = command_helpers::run(call, argv)?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let fixes = pairs.filter(|(_, provides)| provides.contains("ptf()"));
    Ok(fixes.map(|(name, _)| name.to_owned()).collect())
}

/// Repositories as a list.
fn repos(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().map(python::str).collect(),
        value if value.truthy() => vec![python::str(value)],
        _ => Vec::new(),
    }
}

/// Arguments of an upgrade, without packages.
fn upgrade_args(call: &Call<'_>) -> Vec<String> {
    let dist = call.flag("dist_upgrade");
    let mut args = Vec::new();
    if call.flag("skip_verify") {
        args.push("--no-gpg-checks".to_owned());
    }
    let verb = if dist { "dist-upgrade" } else { "update" };
    args.extend(to_args(&[verb, "--auto-agree-with-licenses"]));
    if call.flag("dryrun") {
        args.push("--dry-run".to_owned());
    }
    for repo in repos(call.arg("fromrepo")) {
        args.extend([if dist { "--from" } else { "--repo" }.to_owned(), repo]);
    }
    if !dist {
        return args;
    }
    let info = call.ctx.grains.get("osrelease_info");
    let major = info.and_then(Value::as_array).and_then(<[_]>::first);
    let major = major.and_then(Value::as_int).unwrap_or(0);
    if call.flag("novendorchange") {
        if major > 11 {
            args.push("--no-allow-vendor-change".to_owned())
        } else {
            log::warn!("Disabling vendor changes is not supported on this Zypper version")
        }
    }
    if call.flag("no_recommends") {
        args.push("--no-recommends".to_owned());
    }
    args
}

pub fn upgrade(call: &mut Call<'_>) -> Result {
    let (root, dry) = (call.arg("root").clone(), call.flag("dryrun"));
    if call.flag("refresh") {
        let keywords = keywords(call);
        refresh_with(call, root.clone(), keywords)?;
    }
    let mut args = upgrade_args(call);
    let how = ZypperOptions {
        scope: true,
        forgive: true,
        ..ZypperOptions::new(&root)
    };
    let (name, pkgs) = (call.arg("name").clone(), call.arg("pkgs").clone());
    if call.flag("dist_upgrade") {
        if dry {
            how.text(call, &[&args[..], &to_args(&["--debug-solver"])].concat())?;
        }
    } else if name.truthy() || pkgs.truthy() {
        match parsed(call, &name, &pkgs, &Value::Nil)? {
            Targets::Repository(list) => args.extend(list.into_iter().map(|(n, _)| n)),
            Targets::Advisory(_) => {
                let why = "'list' object has no attribute 'keys'";
                return Err(CallError::raised("AttributeError", why));
            }
            Targets::None | Targets::File(_) => {}
        }
    }
    let wanted = ListOptions {
        root,
        attr: call.arg("diff_attr").clone(),
        ..ListOptions::default()
    };
    let old = list_with_options(call, &wanted, false)?;
    let ran = how.output(call, &args)?;
    let new = list_with_options(call, &wanted, false)?;
    let changes = command_helpers::compare(&old, &new);
    if !SUCCESS_CODES.contains(&ran.retcode) {
        let result = map! {
            "retcode" => ran.retcode, "stdout" => ran.stdout, "stderr" => ran.stderr, "pid" => ran.pid,
        };
        let info = map! {"changes" => changes, "result" => result};
        let what = "Problem encountered upgrading packages";
        return Err(with_info(what, &info.into()));
    }
    if dry {
        Ok(format!("{}\n{}", ran.stdout, ran.stderr).trim().into())
    } else {
        Ok(changes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_zypper() {
        assert_eq!(word("a", Some(">=1")), "a>=1");
        assert_eq!(word("a", Some("1")), "a=1");
        assert_eq!(word("a", None), "a");
        let names = ["pattern:a", "b", "pattern:c", "patch:d"].map(str::to_owned);
        assert_eq!(kinds(names.iter()), ["patch", "pattern"]);
        let line = "The selected package 'a-1' from repository 'r' has lower version than the installed one.";
        assert_eq!(downgrade(line).as_deref(), Some("a-1"));
        assert_eq!(downgrade("The selected package 'a-1' is there."), None);
    }
}
