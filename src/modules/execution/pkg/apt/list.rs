//! Installed and available packages.

use super::{quiet, run_quiet};
use crate::execution::declare::Result;
use crate::execution::nested::is_true;
use crate::execution::pkg::common::{
    Packages, has_keyword, holds, names, option, value, version as versions,
};
use crate::execution::program::DEFAULT_TIMEOUT;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_config::paths::minion::cache;
use halite_sys::command::HelperError;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

const ADMIN: &str = "/var/lib/dpkg";
const LISTS: &str = "/var/lib/apt/lists";

/// The packages dpkg knows, by state.
#[derive(Clone, Debug, Default)]
pub struct PackageStates {
    pub installed: Packages,
    pub removed: Packages,
    pub purge_desired: Packages,
}

fn grain<'a>(call: &'a Call<'_>, name: &str) -> &'a str {
    call.ctx.grains.str(name).unwrap_or_default()
}

/// The name with its architecture if that is foreign on an amd64 host.
pub fn with_arch(call: &Call<'_>, name: &str, arch: &str) -> String {
    let foreign = grain(call, "cpuarch") == "x86_64"
        && grain(call, "osarch") == "amd64"
        && arch != "all"
        && arch != "amd64";
    if foreign {
        format!("{name}:{arch}")
    } else {
        name.to_owned()
    }
}

/// When dpkg's database was changed: its file, and the directory of changes that are not in it yet.
#[derive(Clone, Debug, PartialEq)]
struct Stamp([(u64, i64, i64, u64); 2]);

impl Stamp {
    /// `None` if there is no database.
    fn now() -> Option<Stamp> {
        let dir = std::env::var_os("DPKG_ADMINDIR").map_or_else(|| ADMIN.into(), PathBuf::from);
        let one = |name: &str| {
            let meta = std::fs::metadata(dir.join(name)).ok()?;
            Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()))
        };
        Some(Stamp([one("status")?, one("updates").unwrap_or_default()]))
    }
}

/// The packages as dpkg told last; a run of states asks for them again and again.
static LAST: Mutex<Option<(Stamp, PackageStates)>> = Mutex::new(None);

/// Forgets the last list: a program that changes packages runs.
pub fn forget() {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// The packages that dpkg knows; it is asked only if its database has changed.
pub fn known(call: &mut Call<'_>) -> Result<PackageStates> {
    let stamp = Stamp::now();
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let (Some((at, known)), Some(now)) = (last, &stamp)
        && at == *now
    {
        return Ok(known);
    }
    let known = query(call)?;
    if let Some(stamp) = stamp {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some((stamp, known.clone()));
    }
    Ok(known)
}

/// Asks dpkg.
fn query(call: &mut Call<'_>) -> Result<PackageStates> {
    let format = "${Status} ${Package} ${Version} ${Architecture}\n";
    let ran = command_helpers::run_all(call, ["dpkg-query", "--showformat", format, "-W"])?;
    let mut known = PackageStates::default();
    for line in ran.stdout.lines() {
        let cols: Vec<&str> = line.split_whitespace().collect();
        let [want, _, status, name, version, arch, ..] = cols.as_slice() else {
            continue;
        };
        let list = if (want.contains("install") || want.contains("hold"))
            && status.contains("installed")
        {
            // "deinstall" contains "install": packages marked for removal are still installed.
            &mut known.installed
        } else if want.contains("deinstall") {
            &mut known.removed
        } else if want.contains("purge") && *status == "installed" {
            &mut known.purge_desired
        } else {
            continue;
        };
        let name = with_arch(call, name, arch);
        list.entry(name).or_default().push((*version).to_owned());
    }
    for list in [
        &mut known.installed,
        &mut known.removed,
        &mut known.purge_desired,
    ] {
        for versions in list.values_mut() {
            versions.sort();
            versions.dedup();
        }
    }
    Ok(known)
}

/// The installed packages, after those to be purged.
pub fn installed(call: &mut Call<'_>) -> Result<Packages> {
    let known = known(call)?;
    let mut all = known.purge_desired;
    all.extend(known.installed);
    Ok(all)
}

/// The packages selected by the options of `pkg.list_pkgs`.
fn chosen(call: &mut Call<'_>) -> Result<Packages> {
    let (removed, purge) = (
        is_true(&option(call, "removed")),
        is_true(&option(call, "purge_desired")),
    );
    let known = known(call)?;
    if removed {
        return Ok(known.removed);
    }
    let mut all = known.purge_desired;
    if !purge {
        all.extend(known.installed);
    }
    Ok(all)
}

pub fn list_pkgs(call: &mut Call<'_>) -> Result {
    let as_list = is_true(call.arg("versions_as_list"));
    Ok(value(&chosen(call)?, as_list).into())
}

pub fn version(call: &mut Call<'_>) -> Result {
    let installed = if call.bound.varargs.is_empty() {
        Packages::new()
    } else {
        chosen(call)?
    };
    Ok(versions(call, &installed))
}

pub fn normalize_name(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    Ok(normalized(grain(call, "osarch"), &name).into())
}

/// A name without `:arch` if that is the host's architecture.
pub fn normalized(osarch: &str, name: &str) -> String {
    match name.rsplit_once(':') {
        Some((plain, arch)) if arch == osarch || arch == "all" || arch == "any" => plain.to_owned(),
        _ => name.to_owned(),
    }
}

pub fn parse_arch(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    Ok(match name.rsplit_once(':') {
        Some((name, arch)) => map! {"name" => name, "arch" => arch},
        None => map! {"name" => name, "arch" => Value::Nil},
    }
    .into())
}

/// Compares two versions with dpkg; `None` if it cannot.
pub fn compare(
    call: &mut Call<'_>,
    one: &str,
    other: &str,
    ignore_epoch: bool,
) -> Result<Option<i64>> {
    let cut = |text: &str| match text.split_once(':') {
        Some((_, rest)) if ignore_epoch => rest.to_owned(),
        _ => text.to_owned(),
    };
    let (one, other) = (cut(one), cut(other));
    for (sign, order) in [("lt", -1), ("eq", 0), ("gt", 1)] {
        let argv = ["dpkg", "--compare-versions", &one, sign, &other];
        if command_helpers::run_all_tolerant(call, argv)?.ok() {
            return Ok(Some(order));
        }
    }
    Ok(None)
}

pub fn version_cmp(call: &mut Call<'_>) -> Result {
    let (one, other) = (python::str(call.arg("pkg1")), python::str(call.arg("pkg2")));
    let ignore_epoch = call.flag("ignore_epoch");
    Ok(compare(call, &one, &other, ignore_epoch)?.into())
}

pub fn latest_version(call: &mut Call<'_>) -> Result {
    if has_keyword(call, "repo") {
        let text = "The 'repo' argument is invalid, use 'fromrepo' instead";
        return Err(CallError::Invocation(text.to_owned()));
    }
    let names = names(call);
    let refresh = !has_keyword(call, "refresh") || is_true(&option(call, "refresh"));
    let show_installed = is_true(&option(call, "show_installed"));
    let fromrepo = option(call, "fromrepo");
    let valid = option(call, "cache_valid_time");
    latest(
        call,
        names,
        refresh.then_some(valid),
        show_installed,
        &fromrepo,
    )
}

/// `pkg.latest_version` for names; refreshes first if `refresh` is an age limit.
pub fn latest(
    call: &mut Call<'_>,
    mut names: Vec<String>,
    refresh: Option<Value>,
    show_installed: bool,
    fromrepo: &Value,
) -> Result {
    if names.is_empty() {
        return Ok("".into());
    }
    let mut ret: Map = names.iter().map(|n| (n.clone(), "")).collect();
    let installed = installed(call)?;
    if let Some(valid) = refresh {
        fetch(call, &valid, false, None)?;
    }
    let mut argv: Vec<String> = ["apt-cache", "-q", "policy"].map(str::to_owned).to_vec();
    argv.extend(names.iter().cloned());
    if fromrepo.truthy() {
        argv.extend([
            "-o".to_owned(),
            format!("APT::Default-Release={}", python::str(fromrepo)),
        ]);
    }
    let candidates = candidates(&run_quiet(call, argv)?.stdout, &names);
    loop {
        let mut more = Vec::new();
        let mut gone = Vec::new();
        for name in &names {
            let candidate = candidates.get(name).cloned();
            if candidate.is_none() {
                let head = format!("{name}:");
                more.extend(candidates.keys().filter(|k| k.starts_with(&head)).cloned());
                gone.push(name.clone());
            }
            let candidate = candidate.unwrap_or_default();
            let versions = installed.get(name).cloned().unwrap_or_default();
            let mut newer = versions.is_empty() || show_installed;
            if !newer && !candidate.is_empty() {
                newer = true;
                for version in &versions {
                    if holds(compare(call, version, &candidate, false)?, ">=") {
                        newer = false;
                        break;
                    }
                }
            }
            if newer {
                ret.set(name.clone(), candidate);
            }
        }
        if more.is_empty() && gone.is_empty() {
            break;
        }
        names.extend(more);
        for name in gone {
            if let Some(at) = names.iter().position(|n| *n == name) {
                names.remove(at);
            }
        }
    }
    match names.as_slice() {
        [only] => Ok(ret.get(only).cloned().unwrap_or_default()),
        _ => Ok(ret.into()),
    }
}

/// The candidates printed by `apt-cache policy`.
fn candidates(text: &str, names: &[String]) -> indexmap::IndexMap<String, String> {
    let mut found = indexmap::IndexMap::new();
    let mut package = String::new();
    let short = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_suffix(':')
            .filter(|_| !line.starts_with("Version table"))
        {
            if names.iter().any(|n| n == name || short(n) == short(name)) {
                package = name.to_owned();
            }
        } else if line.starts_with("Candidate") {
            let version = line.split_whitespace().skip(1).last().unwrap_or_default();
            let version = if version.to_lowercase() == "(none)" {
                ""
            } else {
                version
            };
            found.insert(package.clone(), version.to_owned());
        }
    }
    found
}

pub fn upgrade_available(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let latest = latest(call, vec![name], Some(Value::Nil), false, &Value::Nil)?;
    Ok((!latest.is_str("")).into())
}

pub fn list_upgrades(call: &mut Call<'_>) -> Result {
    if is_true(call.arg("refresh")) {
        let valid = option(call, "cache_valid_time");
        fetch(call, &valid, false, None)?;
    }
    let what = if call.flag("dist_upgrade") {
        "dist-upgrade"
    } else {
        "upgrade"
    };
    let mut argv = ["apt-get", "--just-print", what]
        .map(str::to_owned)
        .to_vec();
    if let Some(repo) = call.bound.kwargs.get("fromrepo") {
        argv.extend([
            "-o".to_owned(),
            format!("APT::Default-Release={}", python::str(repo)),
        ]);
    }
    let ran = super::change(call, argv)?;
    if !ran.ok() {
        let why = [&ran.stderr, &ran.stdout]
            .into_iter()
            .find(|t| !t.is_empty());
        let why = why.map_or(String::new(), |t| format!(": {t}"));
        return Err(CallError::Command(format!("Failed to get upgrades{why}")));
    }
    Ok(upgrades(&ran.stdout).into())
}

/// Parses lines like `Conf name (version ...)`.
fn upgrades(text: &str) -> Map {
    let mut map = Map::new();
    for line in text.lines() {
        let Some((name, rest)) = line.strip_prefix("Conf ").and_then(|l| l.split_once(" (")) else {
            continue;
        };
        let version = rest.split(' ').next().unwrap_or_default();
        if !name.contains(' ') && !version.is_empty() {
            map.set(name, version);
        }
    }
    map
}

pub fn refresh_db(call: &mut Call<'_>) -> Result {
    let (valid, failhard) = (
        call.arg("cache_valid_time").clone(),
        is_true(call.arg("failhard")),
    );
    let timeout = call.bound.kwargs.get("timeout").and_then(Value::as_int);
    Ok(fetch(call, &valid, failhard, timeout)?.into())
}

/// Runs `apt-get update`, unless the lists are younger than `valid` seconds.
///
/// # Errors
/// apt-get fails, or with `failhard` a single list.
pub fn fetch(
    call: &mut Call<'_>,
    valid: &Value,
    failhard: bool,
    timeout: Option<i64>,
) -> Result<Map> {
    // The marker asks states to refresh, which is done now.
    let _ = std::fs::remove_file(cache::pkg_refresh(&call.ctx.cachedir));
    if valid.truthy() && is_fresh(valid) {
        return Ok(Map::new());
    }
    let configured = call.ctx.opts.int("aptpkg_refresh_db_timeout");
    let seconds = timeout
        .or(configured)
        .unwrap_or(30)
        .clamp(1, 86_400)
        .unsigned_abs();
    let update = quiet(["apt-get", "-q", "update"]);
    let out = match update.run(Duration::from_secs(seconds)) {
        Err(HelperError::TimedOut(..)) => {
            run_quiet(call, ["apt-get", "-q", "clean"])?;
            update.run(DEFAULT_TIMEOUT)
        }
        done => done,
    };
    let out = out.map_err(|e| CallError::Command(e.to_string()))?;
    call.retcode = out.code.into();
    if out.code != 0 {
        let text = String::from_utf8_lossy(&out.stderr);
        return Err(CallError::Command(text.trim_end().to_owned()));
    }
    let (map, failed) = refreshed(&String::from_utf8_lossy(&out.stdout));
    if failhard && !failed.is_empty() {
        return Err(CallError::Command(format!(
            "Error getting repos: {}",
            failed.join(", ")
        )));
    }
    Ok(map)
}

fn is_fresh(valid: &Value) -> bool {
    let Ok(valid) = python::int(valid) else {
        return false;
    };
    let changed = std::fs::metadata(LISTS).and_then(|m| m.modified());
    let age = changed
        .ok()
        .and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| i64::try_from(age.as_secs()).is_ok_and(|age| age < valid))
}

/// True for fetched lists, nil for up-to-date ones, false for failed ones.
fn refreshed(text: &str) -> (Map, Vec<String>) {
    let mut map = Map::new();
    let mut failed = Vec::new();
    for line in text.lines() {
        let cols: Vec<&str> = line.split_whitespace().collect();
        let Some((first, rest)) = cols.split_first() else {
            continue;
        };
        let mut ident = rest.join(" ");
        if first.contains("Get") {
            if let Some(at) = ident.find(" [").filter(|_| ident.ends_with("B]")) {
                ident.truncate(at);
            }
            map.set(ident, true);
        } else if first.contains("Ign") {
            map.set(ident, false);
        } else if first.contains("Hit") {
            map.set(ident, Value::Nil);
        } else if first.contains("Err") {
            failed.push(ident.clone());
            map.set(ident, false);
        }
    }
    (map, failed)
}

pub fn list_repo_pkgs(call: &mut Call<'_>) -> Result {
    let names = names(call);
    Ok(value(&in_repositories(call, &names)?, true).into())
}

/// The package versions in the repositories; of all packages if no names are given.
pub fn in_repositories(call: &mut Call<'_>, names: &[String]) -> Result<Packages> {
    let mut argv = vec!["apt-cache".to_owned()];
    argv.push(if names.is_empty() { "dump" } else { "show" }.to_owned());
    argv.extend(names.iter().cloned());
    let ran = run_quiet(call, argv)?;
    call.retcode = 0.into();
    let mut found = Packages::new();
    let mut package = String::new();
    for line in ran.stdout.lines() {
        if let Some(name) = line.strip_prefix("Package: ").filter(|n| !n.is_empty()) {
            package = name.to_owned();
        } else if let Some(version) = line.trim().strip_prefix("Version:")
            && version.starts_with(char::is_whitespace)
        {
            found
                .entry(package.clone())
                .or_default()
                .push(version.trim().to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_is_read() {
        let text = "bash:\n  Installed: 5.2\n  Candidate: 5.3\n  Version table:\n *** 5.2 500\nlibc6:i386:\n  Candidate: (none)\n";
        let found = candidates(text, &["bash".into(), "libc6".into()]);
        assert_eq!(found["bash"], "5.3");
        assert_eq!(found["libc6:i386"], "");
    }

    #[test]
    fn updates_are_read() {
        let text = "Hit:1 http://a x InRelease\nGet:2 http://b y InRelease [5,2 kB]\nIgn:3 http://c z\nErr:4 http://d q\n  Could not\n";
        let (map, failed) = refreshed(text);
        assert_eq!(map.get("http://a x InRelease"), Some(&Value::Nil));
        assert_eq!(map.get("http://b y InRelease"), Some(&true.into()));
        assert_eq!(failed, ["http://d q"]);
        let map = upgrades("Inst a [1] (2 x)\nConf a (2 Debian:12 [amd64])\n");
        assert_eq!(map, map! {"a" => "2"});
    }
}
