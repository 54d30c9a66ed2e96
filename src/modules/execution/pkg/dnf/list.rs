//! Available packages and upgrades.

use super::{
    ListedPackage, normalized, options, parse_list, program, repos, run_query, split_input, to_args,
};
use crate::execution::declare::Result;
use crate::execution::nested::is_true;
use crate::execution::pkg::common::{names, option};
use crate::execution::pkg::rpm::{self, both_32, installed, is_arch, osarch};
use crate::execution::pkg::{loose_version, lowpkg};
use crate::execution::{Call, command_helpers, python};
use halite_config::paths::minion::cache;
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value};
use indexmap::IndexMap;
use std::cmp::Ordering;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum depth of the cache search.
const MAX_DEPTH: usize = 16;

pub fn normalize_name(call: &mut Call<'_>) -> Result {
    let name = rpm::name(call)?;
    Ok(normalized(&osarch(call), &name).into())
}

pub fn refresh_db(call: &mut Call<'_>) -> Result {
    let kwargs = call.bound.kwargs.clone();
    let check = kwargs.get("check_update").is_none_or(Value::truthy);
    refresh(call, &kwargs, check)
}

/// Expires the repository metadata; with `check`, also fetches it.
///
/// # Errors
/// The program cannot be started.
pub fn refresh(call: &mut Call<'_>, kwargs: &Map, check: bool) -> Result {
    // The marker asks states to refresh, which is done now.
    let _ = std::fs::remove_file(cache::pkg_refresh(&call.ctx.cachedir));
    let options = options(kwargs, false);
    let mut clean = to_args(&["--quiet", "--assumeyes", "clean", "expire-cache"]);
    clean.extend(options.clone());
    run_query(call, clean)?;
    if !check {
        return Ok(true.into());
    }
    let mut update = to_args(&["--quiet", "--assumeyes", "check-update"]);
    let grains = &call.ctx.grains;
    if grains.str("os_family") == Some("RedHat") && grains.int("osmajorrelease") == Some(7) {
        update.push("--setopt=autocheck_running_kernel=false".to_owned());
    }
    update.extend(options);
    Ok(match run_query(call, update)?.retcode {
        100 => true.into(),
        0 => Value::Nil,
        _ => false.into(),
    })
}

pub fn list_upgrades(call: &mut Call<'_>) -> Result {
    let kwargs = call.bound.kwargs.clone();
    if is_true(call.arg("refresh")) {
        refresh(call, &kwargs, false)?;
    }
    let mut argv = to_args(&["--quiet"]);
    argv.extend(options(&kwargs, false));
    let dnf = super::is_dnf()?;
    argv.extend(to_args(&[
        "list",
        if dnf { "--upgrades" } else { "updates" },
    ]));
    let text = run_query(call, argv)?.stdout;
    let mut ret = Map::new();
    for package in parse_list(&text, &osarch(call)) {
        ret.set(package.name, package.version);
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
    let mut kwargs = call.bound.kwargs.clone();
    if kwargs.remove("refresh").is_none_or(|v| is_true(&v)) {
        let check = kwargs.get("check_update").is_none_or(Value::truthy);
        refresh(call, &kwargs, check)?;
    }
    let current = installed(call)?;
    let mut argv = to_args(&["--quiet"]);
    argv.extend(options(&kwargs, false));
    argv.extend(to_args(&["list", "available"]));
    argv.extend(names.iter().cloned());
    let ran = run_query(call, argv)?;
    let own = osarch(call);
    let mut found = if ran.ok() {
        parse_list(&ran.stdout, &own)
    } else {
        Vec::new()
    };
    found.sort_by(|a, b| loose_version::compare(&b.version, &a.version));
    let mut ret = Map::new();
    for name in &names {
        let arch = name.rsplit('.').next().filter(|a| is_arch(a));
        let arch = arch.unwrap_or(&own);
        let newer = |version: &str| {
            let have = current.get(name).map(Vec::as_slice).unwrap_or_default();
            !have.iter().any(|v| rpm::compare(v, version, false) >= 0)
        };
        let fits = |a: &str| a == "noarch" || a == arch || both_32(a, &own);
        let best = found
            .iter()
            .find(|p| p.name == *name && fits(&p.arch) && newer(&p.version));
        ret.set(
            name.clone(),
            best.map(|b| b.version.clone()).unwrap_or_default(),
        );
    }
    match names.as_slice() {
        [only] => Ok(ret.get(only).cloned().unwrap_or_default()),
        _ => Ok(ret.into()),
    }
}

pub fn list_repo_pkgs(call: &mut Call<'_>) -> Result {
    let (names, kwargs) = (names(call), call.bound.kwargs.clone());
    let by_repo = available(call, &names, &kwargs)?;
    if kwargs.get("byrepo").is_some_and(Value::truthy) {
        let one = |(repo, packages): (String, Versions)| {
            let packages = packages.into_iter();
            let packages: Map = packages.map(|(n, v)| (n, newest_first(v))).collect();
            (repo, packages)
        };
        return Ok(by_repo.into_iter().map(one).collect::<Map>().into());
    }
    let all: Map = merged(by_repo).into_iter().collect();
    Ok(all.into())
}

/// Versions by package.
type Versions = IndexMap<String, Vec<String>>;

/// The versions of packages in all repositories, newest first.
///
/// # Errors
/// The repository configuration cannot be read.
pub fn available_versions(call: &mut Call<'_>, names: &[String], kwargs: &Map) -> Result<Versions> {
    available(call, names, kwargs).map(merged)
}

fn merged(by_repo: IndexMap<String, Versions>) -> Versions {
    let mut all = Versions::new();
    for (name, versions) in by_repo.into_values().flatten() {
        all.entry(name).or_default().extend(versions);
    }
    all.into_iter().map(|(n, v)| (n, newest_first(v))).collect()
}

fn newest_first(mut versions: Vec<String>) -> Vec<String> {
    versions.sort_by(|a, b| loose_version::compare(b, a));
    versions
}

/// Repositories given by a keyword; `*` means none.
fn repositories(kwargs: &Map, name: &str) -> Vec<String> {
    match kwargs.get(name).filter(|v| v.truthy()) {
        None => Vec::new(),
        Some(list @ Value::Array(_)) => split_input(list),
        Some(one) => split_input(one).into_iter().filter(|r| r != "*").collect(),
    }
}

fn available(
    call: &mut Call<'_>,
    names: &[String],
    kwargs: &Map,
) -> Result<IndexMap<String, Versions>> {
    let from = kwargs.get("fromrepo").filter(|v| v.truthy());
    let repos = match from {
        Some(from) => split_input(from),
        None => {
            let (disabled, enabled) = (
                repositories(kwargs, "disablerepo"),
                repositories(kwargs, "enablerepo"),
            );
            let all = repos::all(kwargs.get("basedir").unwrap_or(&Value::Nil), kwargs)?;
            let is_on = |repo: &Map| repo.str("enabled").unwrap_or("1") == "1";
            let wanted = |name: &String, repo: &Map| {
                enabled.contains(name) || (!disabled.contains(name) && is_on(repo))
            };
            let all = all.into_iter();
            all.filter(|(name, repo)| wanted(name, repo))
                .map(|(name, _)| name)
                .collect()
        }
    };
    let cached = kwargs.get("cacheonly").is_some_and(Value::truthy);
    let own = osarch(call);
    let mut all: IndexMap<String, Versions> = IndexMap::new();
    let mut add = |package: ListedPackage| {
        let repo = all.entry(package.repo).or_default();
        let versions = repo.entry(package.name).or_default();
        if !versions.contains(&package.version) {
            versions.push(package.version);
        }
    };
    if let Some(shown) = old_yum_options(call)? {
        for kind in ["installed", "available"] {
            let mut argv = shown.clone();
            argv.extend(cached.then(|| "-C".to_owned()));
            argv.extend(to_args(&["list", kind]));
            let ran = run_query(call, argv)?;
            let fits = |p: &ListedPackage| {
                repos.contains(&p.repo) && names.iter().any(|n| fnmatch(&p.name, n))
            };
            if ran.ok() {
                parse_list(&ran.stdout, &own)
                    .into_iter()
                    .filter(fits)
                    .for_each(&mut add);
            }
        }
        return Ok(all);
    }
    let tdnf = program()? == "tdnf";
    for repo in &repos {
        let mut argv = if tdnf {
            vec![
                "--quiet".to_owned(),
                format!("--enablerepo={repo}"),
                "list".to_owned(),
            ]
        } else {
            to_args(&[
                "--quiet",
                "--showduplicates",
                "repository-packages",
                repo,
                "list",
            ])
        };
        argv.extend(cached.then(|| "-C".to_owned()));
        argv.extend(names.iter().cloned());
        let ran = run_query(call, argv)?;
        if ran.ok() || !ran.stdout.contains("Error:") {
            parse_list(&ran.stdout, &own).into_iter().for_each(&mut add);
        }
    }
    Ok(all)
}

/// Options of `list` for a yum that cannot list a single repository.
fn old_yum_options(call: &mut Call<'_>) -> Result<Option<Vec<String>>> {
    if program()? != "yum" {
        return Ok(None);
    }
    let text = command_helpers::run(call, ["yum", "--version"])?;
    let version = text.lines().next().unwrap_or_default().trim();
    let before = |other| loose_version::compare(version, other) == Ordering::Less;
    Ok(if before("3.2.13") {
        Some(to_args(&["--quiet"]))
    } else if before("3.4.3") {
        Some(to_args(&["--quiet", "--showduplicates"]))
    } else {
        None
    })
}

pub fn list_downloaded(call: &mut Call<'_>) -> Result {
    downloaded(call).map(Value::from)
}

/// Downloaded package files by name and version.
///
/// # Errors
/// rpm cannot be started.
pub fn downloaded(call: &mut Call<'_>) -> Result<Map> {
    let mut files = Vec::new();
    collect(
        &Path::new("/var/cache").join(program()?),
        MAX_DEPTH,
        &mut files,
    );
    let mut ret = Map::new();
    for path in files {
        let text = path.to_string_lossy().into_owned();
        let (Some((name, version)), Ok(stat)) = (
            rpm::query_package_file(call, &text)?,
            std::fs::metadata(&path),
        ) else {
            continue;
        };
        let changed = stat.ctime();
        let entry = map! {
            "path" => text, "size" => stat.size(), "creation_date_time_t" => changed,
            "creation_date_time" => local(changed),
        };
        match ret.get_mut(&name) {
            Some(Value::Map(versions)) => versions.set(version, entry),
            _ => ret.set(name, map! {version => entry}),
        }
    }
    Ok(ret)
}

/// A time in Python's `isoformat`, in local time.
fn local(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    let zoned = at.to_zoned(jiff::tz::TimeZone::system());
    zoned.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// The package files below a directory. Links are not followed.
fn collect(dir: &Path, depth: usize, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut below = Vec::new();
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.is_ok_and(|k| k.is_dir()) {
            below.push(path);
        } else if path.extension().is_some_and(|e| e == "rpm") {
            into.push(path);
        }
    }
    for dir in below.iter().filter(|_| depth > 0) {
        collect(dir, depth - 1, into);
    }
}

pub fn info_installed(call: &mut Call<'_>) -> Result {
    let names = names(call);
    let [root, attr] = ["root", "attr"].map(|name| option(call, name));
    let all_versions = option(call, "all_versions").truthy();
    let mut ret = lowpkg::info(call, &names, &root, &attr, all_versions)?;
    for (_, value) in &mut ret.0 {
        match value {
            Value::Map(info) => renamed(info),
            Value::Array(list) => list.iter_mut().for_each(|item| {
                if let Value::Map(info) = item {
                    renamed(info);
                }
            }),
            _ => {}
        }
    }
    Ok(ret.into())
}

fn renamed(info: &mut Map) {
    for (key, _) in &mut info.0 {
        if key.is_str("source_rpm") {
            *key = "source".into();
        }
    }
}
