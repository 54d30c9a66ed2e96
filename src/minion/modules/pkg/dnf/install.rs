//! Installing by dnf and its kin.

use super::{available, normalized, options, program, refresh, run, versioned, words};
use crate::map;
use crate::minion::modules::Call;
use crate::minion::modules::declare::Result;
use crate::minion::modules::nested::is_true;
use crate::minion::modules::pkg::common::{
    Did, Packages, Targets, changes, empty, given, holds, split_comparison, targets, wish,
    with_info,
};
use crate::minion::modules::pkg::rpm::{self, installed, osarch};

/// Words for the program: of packages to install, to go back with, to install again.
#[derive(Default)]
struct Plan {
    install: Vec<String>,
    downgrade: Vec<String>,
    again: Vec<(String, String)>,
    errors: Vec<String>,
}

pub fn install(call: &mut Call<'_>) -> Result {
    if is_true(call.arg("refresh")) {
        refresh(call, true)?;
    }
    let (name, pkgs, sources) = (
        call.arg("name").clone(),
        call.arg("pkgs").clone(),
        call.arg("sources").clone(),
    );
    let own = osarch(call);
    let normalize =
        call.flag("normalize") && (!given(call, "split_arch") || wish(call, "split_arch"));
    let norm = |n: &str| {
        if normalize {
            normalized(&own, n)
        } else {
            n.to_owned()
        }
    };
    let list = targets(call, &name, &pkgs, &sources, &norm)?;
    if list == Targets::None {
        return empty();
    }
    let old = installed(call)?;
    let mut plan = Plan::default();
    let mut action = "install";
    match list {
        Targets::None => {}
        Targets::Advisory(ids) => {
            action = "update";
            plan.install = ids.iter().map(|id| format!("--advisory={id}")).collect();
        }
        Targets::Repository(list) => from_repository(call, &list, &old, &mut plan)?,
        Targets::File(files) => {
            for path in files {
                match rpm::of_file(call, &path)? {
                    Some((name, version)) => {
                        sort_in(call, &name, Some(&version), path, &old, &mut plan)
                    }
                    None => plan.install.push(path),
                }
            }
        }
    }
    let options = options(call, false);
    let again: Vec<String> = plan.again.iter().map(|(_, w)| w.clone()).collect();
    for (action, list) in [
        (action, &plan.install),
        ("downgrade", &plan.downgrade),
        ("reinstall", &again),
    ] {
        if list.is_empty() {
            continue;
        }
        let how = How {
            program: program()?,
            skip_verify: call.flag("skip_verify"),
            downloadonly: call.flag("downloadonly"),
        };
        let ran = run(call, how.argv(&options, action, list), true)?;
        if !ran.ok() {
            plan.errors.push(ran.stdout);
        }
    }
    let new = installed(call)?;
    let mut ret = changes(&old, &new);
    let text =
        |list: &Packages, name: &str| list.get(name).map(|v| v.join(",")).unwrap_or_default();
    for (name, _) in &plan.again {
        ret.set(
            name.clone(),
            map! {"old" => text(&old, name), "new" => text(&new, name)},
        );
    }
    if plan.errors.is_empty() {
        return Ok(ret.into());
    }
    let again = if plan.again.is_empty() {
        ""
    } else {
        "/reinstalling"
    };
    let info = map! {"errors" => plan.errors, "changes" => ret};
    Err(with_info(
        &format!("Error occurred installing{again} package(s)"),
        &info.into(),
    ))
}

/// How the program is called.
struct How {
    program: &'static str,
    skip_verify: bool,
    downloadonly: bool,
}

impl How {
    fn argv(&self, options: &[String], action: &str, targets: &[String]) -> Vec<String> {
        let best = ["--best", "--allowerasing"];
        let forward = action == "install" || action == "update";
        let mut argv = words(&["-y"]);
        if forward && self.program == "dnf" {
            argv.extend(words(&best));
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
            argv.extend(words(&best));
        }
        argv.extend_from_slice(targets);
        argv
    }
}

fn from_repository(
    call: &mut Call<'_>,
    list: &[(String, Option<String>)],
    old: &Packages,
    plan: &mut Plan,
) -> Did<()> {
    let open = |v: &str| v.contains('*') || v.starts_with(['<', '>']);
    let asked: Vec<String> = list
        .iter()
        .filter(|(_, v)| v.as_deref().is_some_and(open))
        .map(|(n, _)| n.clone())
        .collect();
    let candidates = if asked.is_empty() {
        Packages::new()
    } else {
        available(call, &asked)?
    };
    let ignore_epoch = call.flag("ignore_epoch");
    for (name, version) in list {
        let Some(version) = version else {
            sort_in(call, name, None, name.clone(), old, plan);
            continue;
        };
        let mut version = version.trim_start_matches('=').to_owned();
        if open(&version) {
            let all = candidates.get(name).map(Vec::as_slice).unwrap_or_default();
            let (sign, wanted) = split_comparison(&version);
            let fits = |c: &&String| match version.contains('*') {
                true => crate::target::fnmatch(c, &version),
                false => holds(Some(rpm::compare(c, wanted, ignore_epoch)), sign),
            };
            let Some(found) = all.iter().find(fits) else {
                let list = if all.is_empty() {
                    "None".to_owned()
                } else {
                    all.join(", ")
                };
                let text = format!(
                    "No version matching '{name}{version}' could be found (available: {list})"
                );
                plan.errors.push(text);
                continue;
            };
            version = found.clone();
        }
        let word = versioned(name, &version, ignore_epoch);
        sort_in(call, name, Some(&version), word, old, plan);
    }
    Ok(())
}

fn sort_in(
    call: &Call<'_>,
    name: &str,
    version: Option<&str>,
    word: String,
    old: &Packages,
    plan: &mut Plan,
) {
    let (reinstall, ignore_epoch) = (is_true(call.arg("reinstall")), call.flag("ignore_epoch"));
    let own = old.get(name).map(Vec::as_slice).unwrap_or_default();
    let Some(version) = version else {
        match reinstall && !own.is_empty() {
            true => plan.again.push((name.to_owned(), word)),
            false => plan.install.push(word),
        }
        return;
    };
    let order = |v: &String| rpm::compare(version, v, ignore_epoch);
    if reinstall && !own.is_empty() {
        if own.iter().any(|v| order(v) == 0) {
            plan.again.push((name.to_owned(), word));
        }
    } else if own.is_empty()
        || own.iter().any(|v| order(v) >= 0)
        || ["kernel", "kernel-devel"].contains(&name)
    {
        plan.install.push(word);
    } else {
        plan.downgrade.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_vectors() {
        let options = words(&["--disablerepo=*", "--enablerepo=x"]);
        let how = How {
            program: "dnf",
            skip_verify: true,
            downloadonly: true,
        };
        assert_eq!(
            how.argv(&options, "install", &words(&["a"])),
            words(&[
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
        let how = How {
            program: "dnf5",
            skip_verify: false,
            downloadonly: true,
        };
        assert_eq!(
            how.argv(&[], "install", &words(&["a"])),
            words(&["-y", "install", "--best", "--allowerasing", "a"])
        );
        let how = How {
            program: "yum",
            skip_verify: false,
            downloadonly: false,
        };
        assert_eq!(
            how.argv(&[], "downgrade", &words(&["a-1"])),
            words(&["-y", "downgrade", "a-1"])
        );
        assert_eq!(versioned("a.i686", "1:2-3", false), "a-2-3.i686");
        assert_eq!(versioned("a", "1:2-3", true), "a-1:2-3");
        assert_eq!(normalized("x86_64", "a.x86_64"), "a");
        assert_eq!(normalized("x86_64", "a.i686"), "a.i686");
        assert_eq!(normalized("x86_64", "a.b"), "a.b");
    }
}
