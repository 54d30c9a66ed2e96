//! Red Hat's packages: `dnf5`, `dnf`, `tdnf` or `yum`, whichever is there.

mod install;

use crate::minion::modules::pkg::common::{
    Did, Packages, Targets, given, names, option, outcome_of_upgrade, targets, wish,
};
use crate::minion::modules::pkg::rpm::{self, changed, installed, is_arch, osarch, texts};
pub use install::install;

use crate::minion::modules::cmd::which;
use crate::minion::modules::declare::Result;
use crate::minion::modules::nested::is_true;
use crate::minion::modules::program::Ran;
use crate::minion::modules::{Call, Fault, python, step, systemd};
use crate::sys::command::Helper;
use crate::wire::{Map, Value};

/// The program of this host.
fn program() -> Did<&'static str> {
    ["dnf5", "dnf", "tdnf", "yum"]
        .into_iter()
        .find(|p| which(p).is_some())
        .ok_or_else(|| Fault::Command("DNF nor YUM found".to_owned()))
}

fn run(call: &mut Call<'_>, words: Vec<String>, merge: bool) -> Did<Ran> {
    let mut argv = Vec::new();
    if systemd::scope(call) {
        argv.extend(["systemd-run".to_owned(), "--scope".to_owned()]);
    }
    argv.push(program()?.to_owned());
    argv.extend(words);
    step::helper(
        call,
        Helper {
            merge,
            ..Helper::new(argv)
        },
    )
}

fn look(call: &mut Call<'_>, words: Vec<String>) -> Did<Ran> {
    let ran = run(call, words, false)?;
    call.retcode = 0.into();
    Ok(ran)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

/// The options that keywords stand for; `extra` passes unknown ones on as they are.
fn options(call: &Call<'_>, extra: bool) -> Vec<String> {
    const KNOWN: [&str; 8] = [
        "fromrepo",
        "repo",
        "disablerepo",
        "enablerepo",
        "disableexcludes",
        "branch",
        "setopt",
        "get_extra_options",
    ];
    let text = |name: &str| texts(call, name).join(",");
    let mut list = Vec::new();
    let from = match text("fromrepo") {
        from if from.is_empty() => text("repo"),
        from => from,
    };
    if from.is_empty() {
        for name in ["disablerepo", "enablerepo"] {
            list.extend(texts(call, name).iter().map(|r| format!("--{name}={r}")));
        }
    } else {
        list.extend(["--disablerepo=*".to_owned(), format!("--enablerepo={from}")]);
    }
    for name in ["disableexcludes", "branch"] {
        let value = text(name);
        if !value.is_empty() {
            list.push(format!("--{name}={value}"));
        }
    }
    let set = text("setopt");
    list.extend(
        set.split(',')
            .map(str::trim)
            .filter(|s| !s.is_empty())
            .map(|s| format!("--setopt={s}")),
    );
    if extra {
        let mut rest: Vec<_> = call
            .bound
            .kwargs
            .iter()
            .map(|(k, v)| (python::str(k), v))
            .collect();
        rest.sort_by(|a, b| a.0.cmp(&b.0));
        rest.retain(|(k, _)| !k.starts_with("__") && !KNOWN.contains(&k.as_str()));
        for (key, value) in rest {
            match value {
                Value::Str(text) => list.push(format!("--{key}={text}")),
                Value::Bool(true) => list.push(format!("--{key}")),
                _ => {}
            }
        }
    }
    list
}

/// Name, architecture, version and repository of what `list` prints.
fn listed(text: &str, own: &str) -> Vec<(String, String, String)> {
    const HEADS: [&str; 5] = [
        "installed packages",
        "available packages",
        "available upgrades",
        "updated packages",
        "upgraded packages",
    ];
    let lines = text
        .lines()
        .filter(|l| !HEADS.contains(&l.to_lowercase().as_str()));
    let all: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let one = |triple: &[&str]| {
        let (name, arch) = triple[0].rsplit_once('.').unwrap_or((triple[0], own));
        let version = triple[1].trim_end_matches('-').to_owned();
        (rpm::resolved(name, arch, own), arch.to_owned(), version)
    };
    all.chunks_exact(3).map(one).collect()
}

pub fn normalize_name(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    Ok(normalized(&osarch(call), &name).into())
}

fn normalized(own: &str, name: &str) -> String {
    match name.rsplit_once('.') {
        Some((plain, arch))
            if (is_arch(arch) || arch == "noarch") && rpm::resolved(plain, arch, own) == plain =>
        {
            plain.to_owned()
        }
        _ => name.to_owned(),
    }
}

pub fn refresh_db(call: &mut Call<'_>) -> Result {
    let check = !given(call, "check_update") || wish(call, "check_update");
    refresh(call, check)
}

fn refresh(call: &mut Call<'_>, check: bool) -> Result {
    // The mark asks states to refresh; that is done now.
    let _ = std::fs::remove_file(call.ctx.cachedir.join("pkg_refresh"));
    let options = options(call, false);
    let mut clean = words(&["--quiet", "--assumeyes", "clean", "expire-cache"]);
    clean.extend(options.clone());
    look(call, clean)?;
    if !check {
        return Ok(true.into());
    }
    let mut update = words(&["--quiet", "--assumeyes", "check-update"]);
    let grains = &call.ctx.grains;
    if grains.str("os_family") == Some("RedHat") && grains.int("osmajorrelease") == Some(7) {
        update.push("--setopt=autocheck_running_kernel=false".to_owned());
    }
    update.extend(options);
    Ok(match look(call, update)?.retcode {
        100 => true.into(),
        0 => Value::Nil,
        _ => false.into(),
    })
}

pub fn list_upgrades(call: &mut Call<'_>) -> Result {
    if is_true(call.arg("refresh")) {
        refresh(call, false)?;
    }
    let mut argv = words(&["--quiet"]);
    argv.extend(options(call, false));
    let dnf = program()?.starts_with("dnf");
    argv.extend(words(&["list", if dnf { "--upgrades" } else { "updates" }]));
    let text = look(call, argv)?.stdout;
    let mut ret = Map::new();
    for (name, _, version) in listed(&text, &osarch(call)) {
        ret.set(name, version);
    }
    Ok(ret.into())
}

pub fn latest_version(call: &mut Call<'_>) -> Result {
    let names = names(call);
    latest(call, names)
}

pub fn upgrade_available(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let found = latest(call, vec![name])?;
    Ok((!found.is_str("")).into())
}

fn latest(call: &mut Call<'_>, names: Vec<String>) -> Result {
    if names.is_empty() {
        return Ok("".into());
    }
    if !given(call, "refresh") || is_true(&option(call, "refresh")) {
        refresh(call, true)?;
    }
    let current = installed(call)?;
    let mut argv = words(&["--quiet"]);
    argv.extend(options(call, false));
    argv.extend(words(&["list", "available"]));
    argv.extend(names.iter().cloned());
    let ran = look(call, argv)?;
    let own = osarch(call);
    let mut found = if ran.ok() {
        listed(&ran.stdout, &own)
    } else {
        Vec::new()
    };
    found.sort_by(|a, b| rpm::compare(&b.2, &a.2, false).cmp(&0));
    let mut ret = Map::new();
    for name in &names {
        let arch = name
            .rsplit_once('.')
            .map(|(_, a)| a)
            .filter(|a| is_arch(a))
            .unwrap_or(&own);
        let newer = |version: &str| {
            let have = current.get(name).map(Vec::as_slice).unwrap_or_default();
            !have.iter().any(|v| rpm::compare(v, version, false) >= 0)
        };
        let fits = |a: &str| a == "noarch" || a == arch || rpm::both_32(a, &own);
        let best = found
            .iter()
            .find(|(n, a, v)| n == name && fits(a) && newer(v));
        ret.set(name.clone(), best.map(|b| b.2.clone()).unwrap_or_default());
    }
    match names.as_slice() {
        [only] => Ok(ret.get(only).cloned().unwrap_or_default()),
        _ => Ok(ret.into()),
    }
}

/// The versions in the repositories, newest first.
fn available(call: &mut Call<'_>, names: &[String]) -> Did<Packages> {
    let mut argv = words(&["--quiet", "--showduplicates"]);
    argv.extend(options(call, false));
    argv.push("list".to_owned());
    argv.extend(names.iter().cloned());
    let text = look(call, argv)?.stdout;
    let mut all = Packages::new();
    for (name, _, version) in listed(&text, &osarch(call)) {
        all.entry(name).or_default().push(version);
    }
    for versions in all.values_mut() {
        versions.sort_by(|a, b| rpm::compare(b, a, false).cmp(&0));
        versions.dedup();
    }
    Ok(all)
}

/// `name-version.arch`, without the epoch unless that is not minded.
fn versioned(name: &str, version: &str, ignore_epoch: bool) -> String {
    let (name, arch) = match name.rsplit_once('.') {
        Some((plain, arch)) if is_arch(arch) => (plain, format!(".{arch}")),
        _ => (name, String::new()),
    };
    let version = match version.split_once(':') {
        Some((_, rest)) if !ignore_epoch => rest,
        _ => version,
    };
    format!("{name}-{version}{arch}")
}

pub fn remove(call: &mut Call<'_>) -> Result {
    let old = installed(call)?;
    let own = osarch(call);
    let list = rpm::to_remove(call, &old, &|n| normalized(&own, n))?;
    if list.is_empty() {
        return crate::minion::modules::pkg::common::empty();
    }
    let word = |(name, version): (String, Option<String>)| match version.filter(|v| !v.is_empty()) {
        Some(version) => versioned(&name, &version, false),
        None => name,
    };
    let mut argv = words(&["-y", "remove"]);
    argv.extend(list.into_iter().map(word));
    let ran = run(call, argv, false)?;
    let errors = if ran.ok() || ran.stderr.is_empty() {
        Vec::new()
    } else {
        vec![ran.stderr]
    };
    changed(call, &old, "Error occurred removing package(s)", errors)
}

pub fn upgrade(call: &mut Call<'_>) -> Result {
    let obsoletes = !given(call, "obsoletes") || wish(call, "obsoletes");
    upgraded(call, obsoletes)
}

pub fn update(call: &mut Call<'_>) -> Result {
    let obsoletes = call.flag("obsoletes");
    upgraded(call, obsoletes)
}

fn upgraded(call: &mut Call<'_>, obsoletes: bool) -> Result {
    let dnf = program()?.starts_with("dnf");
    let own = osarch(call);
    let take = |call: &mut Call<'_>, name: &str| {
        let value = option(call, name);
        call.bound.kwargs.remove(name);
        value
    };
    let (name, pkgs) = (take(call, "name"), take(call, "pkgs"));
    let (skip, minimal) = (
        take(call, "skip_verify").truthy(),
        take(call, "minimal").truthy(),
    );
    for used in ["obsoletes", "normalize", "diff_attr"] {
        take(call, used);
    }
    if dnf && !obsoletes {
        let mut set = texts(call, "setopt")
            .join(",")
            .split(',')
            .map(str::to_owned)
            .collect::<Vec<_>>();
        set.retain(|s| !s.is_empty() && !s.starts_with("obsoletes="));
        set.push("obsoletes=False".to_owned());
        call.bound.kwargs.set("setopt", set.join(","));
    }
    let options = options(call, true);
    if is_true(call.arg("refresh")) {
        refresh(call, true)?;
    }
    let old = installed(call)?;
    let mut argv = words(&["--quiet", "-y"]);
    argv.extend(options);
    if skip {
        argv.push("--nogpgcheck".to_owned());
    }
    argv.push(action(dnf || obsoletes, minimal).to_owned());
    if let Targets::Repository(list) =
        targets(call, &name, &pkgs, &Value::Nil, &|n| normalized(&own, n))?
    {
        argv.extend(list.into_iter().map(|(n, _)| n));
    }
    let ran = run(call, argv, false)?;
    let new = installed(call)?;
    outcome_of_upgrade(&ran, &old, &new)
}

fn action(upgrade: bool, minimal: bool) -> &'static str {
    match (upgrade, minimal) {
        (true, false) => "upgrade",
        (true, true) => "upgrade-minimal",
        (false, false) => "update",
        (false, true) => "update-minimal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let text = "Available Packages\nbash.x86_64      5.2-1.el9     baseos\nglibc.i686\n     2:2.3-1   @updates\nfoo.noarch 1- r\n";
        let found = listed(text, "x86_64");
        let own = |n: &str, a: &str, v: &str| (n.to_owned(), a.to_owned(), v.to_owned());
        let wanted = [
            own("bash", "x86_64", "5.2-1.el9"),
            own("glibc.i686", "i686", "2:2.3-1"),
            own("foo", "noarch", "1"),
        ];
        assert_eq!(found, wanted);
    }
}
