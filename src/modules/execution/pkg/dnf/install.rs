//! Installing, downgrading and reinstalling packages.

use super::{
    holds, list, normalized, options, patches, program, run, split_arch, splits_arch, to_args,
    without_epoch,
};
use crate::execution::declare::Result;
use crate::execution::nested::is_true;
use crate::execution::pkg::common::{
    Packages, Targets, WantedVersions, empty, holds as compares, split_comparison, targets,
    with_info,
};
use crate::execution::pkg::rpm::{self, installed, osarch, packages_by};
use crate::execution::{Call, CallError, command_helpers, python};
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

/// Packages of which several versions can be installed.
const KERNELS: [&str; 2] = ["kernel", "kernel-devel"];

/// The actions: names with the program's arguments.
#[derive(Debug, Default)]
struct InstallPlan {
    install: Vec<(String, String)>,
    downgrade: Vec<(String, String)>,
    again: Vec<(String, String)>,
    errors: Vec<String>,
}

/// Installed packages before the change.
struct InstalledBefore {
    /// In the form shown in the changes.
    shown: Map,
    /// The versions.
    versions: Packages,
    own: String,
    reinstall: bool,
    ignore_epoch: bool,
    splits_arch: bool,
}

pub fn install(call: &mut Call<'_>) -> Result {
    let mut kwargs = call.bound.kwargs.clone();
    if is_true(call.arg("refresh")) {
        let check = kwargs.get("check_update").is_none_or(Value::truthy);
        list::refresh(call, &kwargs, check)?;
    }
    let own = osarch(call);
    let splits_arch = splits_arch(call);
    let requested = install_targets(call, splits_arch)?;
    if requested == Targets::None {
        return empty();
    }
    let attr = kwargs.get("diff_attr").cloned().unwrap_or_default();
    let (shown, versions) = state(call, &attr)?;
    let old = InstalledBefore {
        shown,
        versions,
        own,
        reinstall: is_true(call.arg("reinstall")),
        ignore_epoch: call.flag("ignore_epoch"),
        splits_arch,
    };
    let mut plan = InstallPlan::default();
    let advisory = matches!(requested, Targets::Advisory(_));
    match requested {
        Targets::None => {}
        Targets::Advisory(ids) => from_advisories(call, ids, &mut plan)?,
        Targets::Repository(list) => {
            kwargs.remove("byrepo");
            from_repository(call, list, &kwargs, &old, &mut plan)?;
        }
        Targets::File(files) => from_files(call, files, &old, &mut plan)?,
    }
    let again = plan.again.clone();
    perform(call, &mut plan, &options(&kwargs, false), advisory)?;
    let (new, _) = state(call, &attr)?;
    let mut ret = command_helpers::compare(&old.shown, &new);
    let of = |all: &Map, name: &str| all.get(name).cloned().unwrap_or_else(|| "".into());
    for (name, _) in &again {
        if !ret.contains(name) || old.shown.contains(name) {
            ret.set(
                name.clone(),
                map! {"old" => of(&old.shown, name), "new" => of(&new, name)},
            );
        }
    }
    if plan.errors.is_empty() {
        return Ok(ret.into());
    }
    let what = if again.is_empty() {
        "Error occurred installing package(s)"
    } else {
        "Error occurred installing/reinstalling package(s)"
    };
    let info = map! {"errors" => plan.errors, "changes" => ret};
    Err(with_info(what, &info.into()))
}

/// The packages named by the call.
fn install_targets(call: &mut Call<'_>, splits_arch: bool) -> Result<Targets> {
    let [name, pkgs, sources, env] =
        ["name", "pkgs", "sources", "saltenv"].map(|n| call.arg(n).clone());
    let own = osarch(call);
    let normalize = call.flag("normalize") && splits_arch;
    let norm = |n: &str| {
        if normalize {
            normalized(&own, n)
        } else {
            n.to_owned()
        }
    };
    call.bound.kwargs.set("saltenv", env);
    targets(call, &name, &pkgs, &sources, &norm)
}

/// The installed packages or, with `downloadonly`, the downloaded ones.
fn state(call: &mut Call<'_>, attr: &Value) -> Result<(Map, Packages)> {
    if !call.flag("downloadonly") {
        return Ok((packages_by(call, attr)?, installed(call)?));
    }
    let all = list::downloaded(call)?;
    let versions = |v: &Value| -> Vec<String> {
        let versions = v.as_map().into_iter().flat_map(Map::iter);
        versions.map(|(k, _)| python::str(k)).collect()
    };
    let packages = all
        .iter()
        .map(|(k, v)| (python::str(k), versions(v)))
        .collect();
    Ok((all, packages))
}

fn from_advisories(call: &mut Call<'_>, ids: Vec<String>, plan: &mut InstallPlan) -> Result<()> {
    let known = patches::patches(call)?;
    for id in ids {
        if !known.contains(&id) {
            return Err(CallError::Command(format!(
                "Advisory id \"{id}\" not found"
            )));
        }
        plan.install.push((id.clone(), id));
    }
    Ok(())
}

fn from_files(
    call: &mut Call<'_>,
    files: Vec<String>,
    old: &InstalledBefore,
    plan: &mut InstallPlan,
) -> Result<()> {
    for path in files {
        if !Path::new(&path).exists() {
            return Err(CallError::Command(format!(
                "{path} does not exist on minion"
            )));
        }
        match rpm::query_package_file(call, &path)? {
            Some((name, version)) => sort_in(&name, &version, path, old, plan),
            // The file is unknown; the program will report the error.
            None => plan.install.push((String::new(), path)),
        }
    }
    Ok(())
}

fn from_repository(
    call: &mut Call<'_>,
    list: WantedVersions,
    kwargs: &Map,
    old: &InstalledBefore,
    plan: &mut InstallPlan,
) -> Result<()> {
    let glob = |v: &str| v.contains('*');
    let compared = |v: &str| !glob(v) && v.starts_with(['<', '>']);
    let with = |fits: &dyn Fn(&str) -> bool| {
        let list = list.iter().filter(|(_, v)| v.as_deref().is_some_and(fits));
        list.map(|(n, _)| n.clone()).collect::<Vec<_>>()
    };
    let open = [with(&glob), with(&compared)].concat();
    let candidates = if open.is_empty() {
        Packages::new()
    } else {
        list::available_versions(call, &open, kwargs)?
    };
    let of = |name: &str| candidates.get(name).map(Vec::as_slice).unwrap_or_default();
    for (name, version) in list {
        let Some(version) = version else {
            let again = old.reinstall && old.shown.contains(&name);
            let list = if again {
                &mut plan.again
            } else {
                &mut plan.install
            };
            list.push((name.clone(), name));
            continue;
        };
        let mut version = version.trim_start_matches('=').to_owned();
        if compared(&version) {
            let all = of(&name);
            let (sign, wanted) = split_comparison(&version);
            let sign = if sign.is_empty() { "==" } else { sign };
            let fits =
                |c: &&String| compares(Some(rpm::compare(c, wanted, old.ignore_epoch)), sign);
            let Some(found) = all.iter().find(fits) else {
                plan.errors.push(format!(
                    "No version matching '{name}{version}' could be found (available: {})",
                    shown(all, "None")
                ));
                continue;
            };
            version = found.clone();
        }
        if program()? == "yum" && old.ignore_epoch {
            version = without_epoch(&version).to_owned();
        }
        let (name, arch) = split_arch(&name, &old.own, old.splits_arch);
        if glob(&version) {
            let all = of(&name);
            let Some(found) = all.iter().find(|c| fnmatch(c, &version)) else {
                plan.errors.push(format!(
                    "No version matching '{version}' found for package '{name}' (available: {})",
                    shown(all, "none")
                ));
                continue;
            };
            version = found.clone();
        }
        let bare = if old.ignore_epoch {
            version.as_str()
        } else {
            without_epoch(&version)
        };
        let word = format!("{name}-{bare}{arch}");
        sort_in(&name, &version, word, old, plan);
    }
    Ok(())
}

fn shown(all: &[String], none: &str) -> String {
    if all.is_empty() {
        none.to_owned()
    } else {
        all.join(", ")
    }
}

/// Adds a package version to the right action for what is installed.
fn sort_in(name: &str, version: &str, word: String, old: &InstalledBefore, plan: &mut InstallPlan) {
    let have = old
        .versions
        .get(name)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let order = |v: &String| rpm::compare(version, v, old.ignore_epoch);
    let entry = (name.to_owned(), word);
    if old.reinstall && !have.is_empty() {
        if have.iter().any(|v| order(v) == 0) {
            plan.again.push(entry);
        }
    } else if have.is_empty() || have.iter().any(|v| order(v) >= 0) || KERNELS.contains(&name) {
        plan.install.push(entry);
    } else {
        plan.downgrade.push(entry);
    }
}

/// Runs the program for each action; held packages are unheld meanwhile, or skipped.
fn perform(
    call: &mut Call<'_>,
    plan: &mut InstallPlan,
    options: &[String],
    advisory: bool,
) -> Result<()> {
    let held = match holds::holds(call, holds::PATTERN, false) {
        Err(CallError::Invocation(_)) => Vec::new(),
        other => other?,
    };
    let how = DnfOptions {
        program: program()?,
        skip_verify: call.flag("skip_verify"),
        downloadonly: call.flag("downloadonly"),
    };
    let first = if advisory { "update" } else { "install" };
    let mut prevented = Vec::new();
    for (action, list) in [
        (first, std::mem::take(&mut plan.install)),
        ("downgrade", std::mem::take(&mut plan.downgrade)),
        ("reinstall", std::mem::take(&mut plan.again)),
    ] {
        let (locked, free): (Vec<_>, Vec<_>) =
            list.into_iter().partition(|(name, _)| held.contains(name));
        let mut words: Vec<String> = free.into_iter().map(|(_, word)| word).collect();
        let loose = call.flag("update_holds") && !locked.is_empty();
        let names: Vec<String> = locked.iter().map(|(name, _)| name.clone()).collect();
        if loose {
            let outcome = holds::unhold_packages(call, names.clone())?;
            for (name, word) in locked {
                let unheld = outcome.get(&name).and_then(Value::as_map);
                if unheld
                    .and_then(|o| o.get("result"))
                    .is_some_and(Value::truthy)
                {
                    words.push(word)
                } else {
                    plan.errors.push(name)
                }
            }
        } else {
            prevented.extend(names.clone());
        }
        if !words.is_empty() {
            if advisory {
                words = words.iter().map(|id| format!("--advisory={id}")).collect();
            }
            let ran = run(call, how.argv(options, action, &words), true)?;
            if !ran.ok() {
                plan.errors.push(ran.stdout);
            }
        }
        if loose {
            holds::hold_packages(call, names)?;
        }
    }
    if !prevented.is_empty() {
        plan.errors.push(format!(
            "The following package(s) could not be updated because they are being held: {}. Set 'update_holds' to \
             True to temporarily unhold these packages so that they can be updated.",
            prevented.join(", ")
        ));
    }
    Ok(())
}

/// How to call the program.
struct DnfOptions {
    program: &'static str,
    skip_verify: bool,
    downloadonly: bool,
}

impl DnfOptions {
    fn argv(&self, options: &[String], action: &str, targets: &[String]) -> Vec<String> {
        let best = ["--best", "--allowerasing"];
        let forward = action == "install" || action == "update";
        let mut argv = to_args(&["-y"]);
        if forward && self.program == "dnf" {
            argv.extend(to_args(&best));
        }
        argv.extend_from_slice(options);
        if self.skip_verify {
            argv.push("--nogpgcheck".to_owned());
        }
        if self.downloadonly && self.program != "dnf5" {
            argv.push("--downloadonly".to_owned());
        }
        argv.push(action.to_owned());
        if forward && self.program == "dnf5" {
            argv.extend(to_args(&best));
        }
        argv.extend_from_slice(targets);
        argv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_vectors() {
        let options = to_args(&["--disablerepo=*", "--enablerepo=x"]);
        let how = DnfOptions {
            program: "dnf",
            skip_verify: true,
            downloadonly: true,
        };
        assert_eq!(
            how.argv(&options, "install", &to_args(&["a"])),
            to_args(&[
                "-y",
                "--best",
                "--allowerasing",
                "--disablerepo=*",
                "--enablerepo=x",
                "--nogpgcheck",
                "--downloadonly",
                "install",
                "a"
            ])
        );
        let how = DnfOptions {
            program: "dnf5",
            skip_verify: false,
            downloadonly: true,
        };
        assert_eq!(
            how.argv(&[], "install", &to_args(&["a"])),
            to_args(&["-y", "install", "--best", "--allowerasing", "a"])
        );
        let how = DnfOptions {
            program: "yum",
            skip_verify: false,
            downloadonly: false,
        };
        assert_eq!(
            how.argv(&[], "downgrade", &to_args(&["a-1"])),
            to_args(&["-y", "downgrade", "a-1"])
        );
    }

    #[test]
    fn versions_are_sorted_into_actions() {
        let mut old = InstalledBefore {
            shown: Map::new(),
            versions: [("a", "1-1"), ("kernel", "2-1")]
                .map(|(n, v)| (n.to_owned(), vec![v.to_owned()]))
                .into_iter()
                .collect(),
            own: "x86_64".to_owned(),
            reinstall: false,
            ignore_epoch: false,
            splits_arch: true,
        };
        let sort = |name: &str, version: &str, old: &InstalledBefore| {
            let mut plan = InstallPlan::default();
            sort_in(name, version, "w".to_owned(), old, &mut plan);
            [plan.install.len(), plan.downgrade.len(), plan.again.len()]
        };
        assert_eq!(sort("a", "2-1", &old), [1, 0, 0]);
        assert_eq!(sort("a", "1-1", &old), [1, 0, 0]);
        assert_eq!(sort("a", "0-1", &old), [0, 1, 0]);
        assert_eq!(sort("b", "0-1", &old), [1, 0, 0]);
        assert_eq!(sort("kernel", "1-1", &old), [1, 0, 0]);
        old.reinstall = true;
        assert_eq!(sort("a", "1-1", &old), [0, 0, 1]);
        assert_eq!(sort("a", "2-1", &old), [0, 0, 0]);
        assert_eq!(sort("b", "1-1", &old), [1, 0, 0]);
    }
}
