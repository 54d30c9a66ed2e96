//! SUSE's packages: `zypper`.

mod table;

use super::common::{
    Did, Targets, empty, given, names, option, split_comparison, targets, wish, with_info,
};
use super::rpm::{self, changed, installed, is_arch, osarch, texts};
use crate::map;
use crate::minion::modules::declare::Result;
use crate::minion::modules::program::Ran;
use crate::minion::modules::{Call, Fault, python, step, systemd};
use crate::sys::command::Helper;
use crate::wire::{Map, Value};
use std::time::Duration;

pub use table::MODULE;

/// Exit codes of runs that went well.
const WELL: [i64; 5] = [0, 100, 101, 102, 103];
/// Exit codes that are warnings: no repositories, a failed refresh, a failed script.
const WARNINGS: [i64; 3] = [6, 106, 107];
/// Another zypper runs.
const LOCKED: i64 = 7;
/// How often, and how long in between, that one is waited for.
const TRIES: u32 = 120;
const PAUSE: Duration = Duration::from_secs(5);
/// Most packages per run.
const BATCH: usize = 500;

/// How zypper is called.
#[derive(Clone, Debug, Default)]
struct How {
    root: Option<String>,
    xml: bool,
    refresh: bool,
    scope: bool,
    readonly: bool,
    forgive: bool,
}

impl How {
    fn of(call: &Call<'_>) -> How {
        let root = option(call, "root");
        How {
            root: root.truthy().then(|| python::str(&root)),
            ..How::default()
        }
    }

    fn argv(&self, args: &[String]) -> Vec<String> {
        let mut argv = words(&["zypper", "--non-interactive"]);
        if self.xml {
            argv.push("--xmlout".to_owned());
        }
        if !self.refresh && !args.iter().any(|a| a == "--no-refresh") {
            argv.push("--no-refresh".to_owned());
        }
        if let Some(root) = &self.root {
            argv.extend(["--root".to_owned(), root.clone()]);
        }
        argv.extend_from_slice(args);
        argv
    }

    /// Runs it; waits while another one has the lock.
    fn run(&self, call: &mut Call<'_>, args: &[String]) -> Did<Ran> {
        let mut argv = Vec::new();
        if self.scope && systemd::scope(call) {
            argv.extend(words(&["systemd-run", "--scope"]));
        }
        argv.extend(self.argv(args));
        let mut helper = Helper::new(argv);
        if self.readonly {
            helper
                .env
                .push(("ZYPP_READONLY_HACK".to_owned(), Some("1".to_owned())));
        }
        let mut ran = step::helper(call, helper.clone())?;
        for _ in 0..TRIES {
            if ran.retcode != LOCKED {
                break;
            }
            std::thread::sleep(PAUSE);
            ran = step::helper(call, helper.clone())?;
        }
        let bad = !WELL.contains(&ran.retcode) && !WARNINGS.contains(&ran.retcode);
        if bad && !self.forgive {
            let why = [&ran.stderr, &ran.stdout]
                .into_iter()
                .find(|t| !t.is_empty());
            let why = why
                .cloned()
                .unwrap_or_else(|| "Check Zypper's logs.".to_owned());
            return Err(Fault::Command(format!("Zypper command failure: {why}")));
        }
        Ok(ran)
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

pub fn normalize_name(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    Ok(normalized(&osarch(call), &name).into())
}

fn normalized(own: &str, name: &str) -> String {
    match name.rsplit_once('.') {
        Some((plain, "noarch")) => plain.to_owned(),
        Some((plain, arch)) if is_arch(arch) && (arch == own || rpm::both_32(arch, own)) => {
            plain.to_owned()
        }
        _ => name.to_owned(),
    }
}

pub fn refresh_db(call: &mut Call<'_>) -> Result {
    refresh(call)
}

fn refresh(call: &mut Call<'_>) -> Result {
    // The mark asks states to refresh; that is done now.
    let _ = std::fs::remove_file(call.ctx.cachedir.join("pkg_refresh"));
    let force = match option(call, "force") {
        Value::Nil => {
            let pillar = call.ctx.pillar.get("zypper").and_then(Value::as_map);
            pillar
                .and_then(|p| p.get("refreshdb_force"))
                .is_none_or(Value::truthy)
        }
        other => other.truthy(),
    };
    let mut args = Vec::new();
    if wish(call, "gpgautoimport") {
        args.push("--gpg-auto-import-keys".to_owned());
    }
    args.push("refresh".to_owned());
    if force {
        args.push("--force".to_owned());
    }
    args.extend(texts(call, "repos"));
    let how = How {
        refresh: true,
        ..How::of(call)
    };
    let ran = how.run(call, &args)?;
    Ok(refreshed(&ran.stdout).into())
}

/// Per repository whether it was fetched.
fn refreshed(text: &str) -> Map {
    let mut ret = Map::new();
    for line in text.lines().map(str::trim) {
        let Some(name) = line.split('\'').nth(1).map(str::trim) else {
            continue;
        };
        if line.starts_with("Repository") && line.contains("is up to date") {
            ret.set(name, false);
        } else if line.starts_with("Building") && line.contains("done") {
            ret.set(name, true);
        }
    }
    ret
}

pub fn list_upgrades(call: &mut Call<'_>) -> Result {
    if call.flag("refresh") {
        refresh(call)?;
    }
    let mut args = words(&["list-updates"]);
    for repo in texts(call, "fromrepo") {
        args.extend(["--repo".to_owned(), repo]);
    }
    let how = How {
        xml: true,
        readonly: true,
        ..How::of(call)
    };
    let text = how.run(call, &args)?.stdout;
    Ok(updates(&text).into())
}

/// The `update` elements that are packages.
fn updates(xml: &str) -> Map {
    let mut ret = Map::new();
    for element in xml.split("<update ").skip(1) {
        let tag = element.split('>').next().unwrap_or_default();
        let attribute = |name: &str| {
            let head = format!("{name}=\"");
            let at = tag
                .match_indices(&head)
                .find(|(i, _)| *i == 0 || tag[..*i].ends_with(' '))?
                .0;
            tag[at + head.len()..].split('"').next()
        };
        if attribute("kind") == Some("package")
            && let (Some(name), Some(edition)) = (attribute("name"), attribute("edition"))
        {
            ret.set(name, edition);
        }
    }
    ret
}

pub fn info_available(call: &mut Call<'_>) -> Result {
    let names = names(call);
    Ok(available(call, names)?.into())
}

fn available(call: &mut Call<'_>, mut names: Vec<String>) -> Did<Map> {
    names.sort();
    names.dedup();
    let mut ret = Map::new();
    if names.is_empty() {
        return Ok(ret);
    }
    if !given(call, "refresh") || wish(call, "refresh") {
        refresh(call)?;
    }
    let how = How {
        readonly: true,
        ..How::of(call)
    };
    for batch in names.chunks(200) {
        let mut args = words(&["info", "-t", "package"]);
        args.extend_from_slice(batch);
        let text = how.run(call, &args)?.stdout;
        ret.0.extend(described(&text).0);
    }
    Ok(ret)
}

/// What `zypper info` prints, per package.
fn described(text: &str) -> Map {
    let mut ret = Map::new();
    for record in text.split("Information for package") {
        let mut info = Map::new();
        for line in record.lines().filter(|l| !l.starts_with("-----")) {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            if !value.trim().is_empty() {
                info.set(key.trim().to_lowercase(), value.trim());
            }
        }
        if let Some(installed) = info.get("installed").map(python::str) {
            info.set("installed", installed.to_lowercase().starts_with("yes"));
        }
        if let Some(name) = info.remove("name") {
            ret.set(python::str(&name), info);
        }
    }
    ret
}

pub fn latest_version(call: &mut Call<'_>) -> Result {
    let names = names(call);
    latest(call, names)
}

pub fn upgrade_available(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    Ok(latest(call, vec![name])?.truthy().into())
}

fn latest(call: &mut Call<'_>, mut names: Vec<String>) -> Result {
    names.sort();
    names.dedup();
    let info = available(call, names.clone())?;
    let mut ret = Map::new();
    for name in names {
        let own = info.get(&name).and_then(Value::as_map);
        let status = own
            .and_then(|i| i.str("status"))
            .unwrap_or_default()
            .to_lowercase();
        let newer = status.contains("not installed") || status.contains("out-of-date");
        let version = own
            .and_then(|i| i.get("version"))
            .cloned()
            .unwrap_or_default();
        ret.set(name, if newer { version } else { "".into() });
    }
    match ret.0.as_slice() {
        [(_, only)] => Ok(only.clone()),
        _ => Ok(ret.into()),
    }
}

/// The words before the packages.
fn install_args(call: &Call<'_>) -> Vec<String> {
    let mut args = Vec::new();
    let mut add = |on: bool, list: &[&str]| args.extend(if on { words(list) } else { Vec::new() });
    add(call.flag("skip_verify"), &["--no-gpg-checks"]);
    add(!call.flag("refresh"), &["--no-refresh"]);
    add(true, &["install", "--auto-agree-with-licenses"]);
    let capability = wish(call, "resolve_capabilities");
    add(true, &[if capability { "--capability" } else { "--name" }]);
    add(call.flag("downloadonly"), &["--download-only"]);
    if call.flag("fromrepo") {
        let repo = python::str(call.arg("fromrepo"));
        add(true, &["--force", "--force-resolution", "--from", &repo]);
    }
    add(wish(call, "no_recommends"), &["--no-recommends"]);
    args
}

/// What zypper is told of one package.
fn word(name: &str, version: Option<&str>) -> String {
    let Some(version) = version else {
        return name.to_owned();
    };
    let (sign, version) = split_comparison(version);
    let sign = if sign.is_empty() { "=" } else { sign };
    format!("{name}{sign}{version}")
}

pub fn install(call: &mut Call<'_>) -> Result {
    if call.flag("refresh") {
        refresh(call)?;
    }
    let (name, pkgs, sources) = (
        call.arg("name").clone(),
        call.arg("pkgs").clone(),
        call.arg("sources").clone(),
    );
    let own = osarch(call);
    let mut list: Vec<String> =
        match targets(call, &name, &pkgs, &sources, &|n| normalized(&own, n))? {
            Targets::None => return empty(),
            Targets::Repository(list) => list.iter().map(|(n, v)| word(n, v.as_deref())).collect(),
            Targets::File(files) => files,
            Targets::Advisory(ids) => ids.iter().map(|id| format!("patch:{id}")).collect(),
        };
    let old = installed(call)?;
    let how = How {
        scope: true,
        forgive: wish(call, "ignore_repo_failure"),
        ..How::of(call)
    };
    let args = install_args(call);
    let mut lower = Vec::new();
    while !list.is_empty() {
        let rest = list.split_off(list.len().min(BATCH));
        let ran = how.run(call, &[args.clone(), list].concat())?;
        lower.extend(ran.stdout.lines().filter_map(downgrade));
        list = rest;
    }
    for batch in lower.chunks(BATCH) {
        let args = [args.clone(), words(&["--force"]), batch.to_vec()].concat();
        how.run(call, &args)?;
    }
    changed(call, &old, "", Vec::new())
}

/// The package that zypper would have to go back with.
fn downgrade(line: &str) -> Option<String> {
    let (name, rest) = line
        .strip_prefix("The selected package '")?
        .split_once('\'')?;
    rest.contains("has lower version").then(|| name.to_owned())
}

pub fn remove(call: &mut Call<'_>) -> Result {
    let old = installed(call)?;
    let own = osarch(call);
    let list = rpm::to_remove(call, &old, &|n| normalized(&own, n))?;
    let word = |(name, version): (String, Option<String>)| match version.filter(|v| !v.is_empty()) {
        Some(version) => format!("{name}-{version}"),
        None => name,
    };
    let list: Vec<String> = list.into_iter().map(word).collect();
    if list.is_empty() {
        return empty();
    }
    let how = How {
        scope: true,
        ..How::of(call)
    };
    for batch in list.chunks(BATCH) {
        how.run(call, &[words(&["remove"]), batch.to_vec()].concat())?;
    }
    changed(call, &old, "", Vec::new())
}

pub fn upgrade(call: &mut Call<'_>) -> Result {
    let (dist, dry) = (call.flag("dist_upgrade"), wish(call, "dryrun"));
    let mut args = Vec::new();
    if wish(call, "skip_verify") {
        args.push("--no-gpg-checks".to_owned());
    }
    args.extend(words(&[
        if dist { "dist-upgrade" } else { "update" },
        "--auto-agree-with-licenses",
    ]));
    if call.flag("refresh") {
        refresh(call)?;
    }
    if dry {
        args.push("--dry-run".to_owned());
    }
    for repo in texts(call, "fromrepo") {
        args.extend([if dist { "--from" } else { "--repo" }.to_owned(), repo]);
    }
    let how = How {
        scope: true,
        forgive: true,
        ..How::of(call)
    };
    if dist {
        let major = call
            .ctx
            .grains
            .get("osrelease_info")
            .and_then(Value::as_array);
        let major = major
            .and_then(|m| m.first())
            .and_then(Value::as_int)
            .unwrap_or(0);
        if wish(call, "novendorchange") && major > 11 {
            args.push("--no-allow-vendor-change".to_owned());
        }
        if wish(call, "no_recommends") {
            args.push("--no-recommends".to_owned());
        }
        if dry {
            how.run(call, &[args.clone(), words(&["--debug-solver"])].concat())?;
        }
    } else {
        let (name, pkgs) = (option(call, "name"), option(call, "pkgs"));
        let own = osarch(call);
        if let Targets::Repository(list) =
            targets(call, &name, &pkgs, &Value::Nil, &|n| normalized(&own, n))?
        {
            args.extend(list.into_iter().map(|(n, _)| n));
        }
    }
    let old = installed(call)?;
    let ran = how.run(call, &args)?;
    let new = installed(call)?;
    let ret = super::common::changes(&old, &new);
    if !WELL.contains(&ran.retcode) {
        let result = map! {
            "retcode" => ran.retcode, "stdout" => ran.stdout, "stderr" => ran.stderr, "pid" => ran.pid,
        };
        let info = map! {"changes" => ret, "result" => result};
        return Err(with_info(
            "Problem encountered upgrading packages",
            &info.into(),
        ));
    }
    match dry {
        true => Ok(format!("{}\n{}", ran.stdout, ran.stderr).trim().into()),
        false => Ok(ret.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_vectors() {
        let how = How {
            xml: true,
            root: Some("/r".to_owned()),
            ..How::default()
        };
        assert_eq!(
            how.argv(&words(&["lu"])),
            words(&[
                "zypper",
                "--non-interactive",
                "--xmlout",
                "--no-refresh",
                "--root",
                "/r",
                "lu"
            ])
        );
        let how = How {
            refresh: true,
            ..How::default()
        };
        assert_eq!(
            how.argv(&words(&["refresh"])),
            words(&["zypper", "--non-interactive", "refresh"])
        );
        let how = How::default();
        assert_eq!(
            how.argv(&words(&["--no-refresh", "install"])),
            words(&["zypper", "--non-interactive", "--no-refresh", "install"])
        );
        assert_eq!(word("a", Some(">=1")), "a>=1");
        assert_eq!(word("a", Some("1")), "a=1");
        assert_eq!(word("a", None), "a");
    }

    #[test]
    fn outputs_are_read() {
        let xml = "<stream><update-status><update-list><update kind=\"package\" name=\"a\" edition=\"2-1\" arch=\"x\">\
                   <source url=\"u\"/></update><update name=\"p\" kind=\"patch\" edition=\"1\"/></update-list></stream>";
        assert_eq!(updates(xml), map! {"a" => "2-1"});
        let text = "Loading\n\nInformation for package a:\n-----------\nRepository : r\nName : a\nVersion : 2-1\nInstalled : Yes\nStatus : out-of-date (version 1-1 installed)\n";
        let info = described(text);
        let a = info.get("a").and_then(Value::as_map).unwrap();
        assert_eq!(a.str("version"), Some("2-1"));
        assert_eq!(a.get("installed"), Some(&true.into()));
        let text = "Repository 'one' is up to date.\nRetrieving repository 'two' metadata [done]\nBuilding repository 'two' cache [...done]\n";
        assert_eq!(refreshed(text), map! {"one" => false, "two" => true});
        let line = "The selected package 'a-1' from repository 'r' has lower version than the installed one.";
        assert_eq!(downgrade(line).as_deref(), Some("a-1"));
    }
}
