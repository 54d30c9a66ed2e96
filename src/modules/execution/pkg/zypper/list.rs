//! Lists of installed and available packages with versions.

use super::find::{info_records, products};
use super::repos::refresh_with;
use super::run::{ZypperOptions, to_args};
use super::{find, root_arg};
use crate::execution::declare::Result;
use crate::execution::nested::is_true;
use crate::execution::pkg::common::{
    Packages, empty, keywords, names, option, option_is_true, version as versions,
};
use crate::execution::pkg::rpm::{self, osarch};
use crate::execution::pkg::{loose_version, lowpkg};
use crate::execution::{Call, CallError, command_helpers, python};
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// The root directory of another system.
    pub root: Value,
    /// `patch`, `pattern` and `product`, in addition to packages.
    pub includes: Vec<String>,
    /// Attributes to show instead of just the version.
    pub attr: Value,
}

pub fn list_pkgs(call: &mut Call<'_>) -> Result {
    if is_true(&option(call, "removed")) || is_true(&option(call, "purge_desired")) {
        return empty();
    }
    let includes = match call.arg("includes") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        // Stock splits text into letters, which name nothing.
        _ => Vec::new(),
    };
    let wanted = ListOptions {
        root: call.arg("root").clone(),
        includes,
        attr: option(call, "attr"),
    };
    let as_list = is_true(call.arg("versions_as_list"));
    Ok(list_with_options(call, &wanted, as_list)?.into())
}

pub fn version(call: &mut Call<'_>) -> Result {
    let wanted = ListOptions {
        root: root_arg(call),
        attr: option(call, "attr"),
        ..ListOptions::default()
    };
    let mut all = Packages::new();
    if !call.bound.varargs.is_empty() {
        for (name, versions) in list_with_options(call, &wanted, true)?.iter() {
            let versions = versions.str_list();
            all.insert(python::str(name), versions);
        }
    }
    Ok(match versions(call, &all) {
        value if value.truthy() => value,
        _ => Map::new().into(),
    })
}

/// The packages and whatever else is wanted, with versions.
///
/// # Errors
/// rpm or zypper failed.
pub fn list_with_options(call: &mut Call<'_>, wanted: &ListOptions, as_list: bool) -> Result<Map> {
    let mut all = installed(call, &wanted.root)?;
    for include in &wanted.includes {
        let entries = match include.as_str() {
            "product" => product_entries(call, &wanted.root)?,
            "pattern" | "patch" => element_entries(call, include, &wanted.root)?,
            _ => Vec::new(),
        };
        for (name, entry) in entries {
            all.set(format!("{include}:{name}"), vec![Value::from(entry)]);
        }
    }
    let attr = match &wanted.attr {
        Value::Nil => return Ok(versions_only(&all, as_list)),
        all if all.is_str("all") => None,
        Value::Array(list) if list.is_empty() => return Ok(versions_only(&all, as_list)),
        Value::Array(list) => Some(list.iter().map(python::str).collect::<Vec<_>>()),
        other => {
            let text = python::str(other);
            Some(text.split(',').map(|w| w.trim().to_owned()).collect())
        }
    };
    Ok(with_attributes(&all, attr.as_deref()))
}

/// All attributes of the installed packages.
fn installed(call: &mut Call<'_>, root: &Value) -> Result<Map> {
    let mut argv = lowpkg::rpm(root);
    let format = format!("{}\n", rpm::FORMAT);
    argv.extend(["-qa", "--queryformat", &format].map(str::to_owned));
    let own = osarch(call);
    let text = command_helpers::run(call, argv)?;
    let mut all: BTreeMap<usize, (String, Vec<Map>)> = BTreeMap::new();
    let mut places: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for package in text.lines().filter_map(|l| rpm::package(l, &own)) {
        if package.name.starts_with("gpg-pubkey") {
            continue;
        }
        let count = places.len();
        let at = *places.entry(package.name.clone()).or_insert(count);
        let entry = rpm::attributes(&package, None);
        all.entry(at)
            .or_insert_with(|| (package.name.clone(), Vec::new()))
            .1
            .push(entry);
    }
    let mut ret = Map::new();
    for (name, mut entries) in all.into_values() {
        let version = |m: &Map| m.str("version").unwrap_or_default().to_owned();
        entries.sort_by_key(version);
        ret.set(
            name,
            entries.into_iter().map(Value::from).collect::<Vec<_>>(),
        );
    }
    Ok(ret)
}

fn product_entries(call: &mut Call<'_>, root: &Value) -> Result<Vec<(String, Map)>> {
    let mut entries = Vec::new();
    for product in products(call, false, root)? {
        let get = |key: &str| {
            let value = product.get(key).cloned();
            value.ok_or_else(|| CallError::raised("KeyError", format!("'{key}'")))
        };
        let entry = map! {
            "epoch" => get("epoch")?, "version" => get("version")?, "release" => get("release")?,
            "arch" => get("arch")?, "install_date" => Value::Nil, "install_date_time_t" => Value::Nil,
        };
        entries.push((python::str(&get("name")?), entry));
    }
    Ok(entries)
}

fn element_entries(call: &mut Call<'_>, kind: &str, root: &Value) -> Result<Vec<(String, Map)>> {
    let names = match kind {
        "pattern" => find::installed_patterns(call, root)?,
        _ => find::patches(call, root, true)?,
    };
    let mut entries = Vec::new();
    for name in names.iter().map(|(name, _)| python::str(name)) {
        let info = available(call, vec![format!("{kind}:{name}")], root)?;
        let missing = |key: &str| CallError::raised("KeyError", format!("'{key}'"));
        let info = info.get(&name).and_then(Value::as_map);
        let info = info.ok_or_else(|| missing(&name))?;
        let get = |key: &str| info.get(key).cloned().ok_or_else(|| missing(key));
        let entry = map! {
            "epoch" => Value::Nil, "version" => get("version")?, "release" => Value::Nil,
            "arch" => get("arch")?, "install_date" => Value::Nil, "install_date_time_t" => Value::Nil,
        };
        entries.push((name, entry));
    }
    Ok(entries)
}

/// The versions only.
fn versions_only(all: &Map, as_list: bool) -> Map {
    let one = |entry: &Value| {
        let entry = entry.as_map().cloned().unwrap_or_default();
        let part = |key: &str| entry.get(key).filter(|v| v.truthy()).map(python::str);
        let epoch = part("epoch").map(|e| format!("{e}:")).unwrap_or_default();
        let release = part("release").map(|r| format!("-{r}")).unwrap_or_default();
        format!("{epoch}{}{release}", part("version").unwrap_or_default())
    };
    let versions = |entries: &Value| -> Value {
        let entries = entries.as_array().unwrap_or_default();
        let versions: Vec<String> = entries.iter().map(one).collect();
        if as_list {
            versions.into()
        } else {
            versions.join(",").into()
        }
    };
    all.iter().map(|(k, v)| (k.clone(), versions(v))).collect()
}

/// The wanted attributes; all if `None`.
fn with_attributes(all: &Map, wanted: Option<&[String]>) -> Map {
    let keep = |key: &Value| {
        let named = |w: &[String]| w.iter().any(|w| key.is_str(w));
        key.is_str("version") || key.is_str("arch") || wanted.is_none_or(named)
    };
    let mut ret = Map::new();
    for (full, entries) in all.iter() {
        let full = python::str(full);
        let (name, arch) = rpm::name_and_arch(&full);
        let mut key = full.as_str();
        let mut list = Vec::new();
        for entry in entries.as_array().unwrap_or_default() {
            let mut entry = entry.as_map().cloned().unwrap_or_default();
            entry.0.retain(|(k, _)| keep(k));
            if arch.is_some() && entry.str("arch") == arch {
                key = name;
            }
            list.push(Value::from(entry));
        }
        match ret.get_mut(key) {
            Some(Value::Array(known)) => known.extend(list),
            _ => ret.set(key, list),
        }
    }
    ret
}

pub fn list_upgrades(call: &mut Call<'_>) -> Result {
    if call.flag("refresh") {
        // Stock passes the root where force is expected.
        let force = call.arg("root").clone();
        let keywords = keywords(call);
        refresh_with(call, force, keywords)?;
    }
    let mut args = to_args(&["list-updates"]);
    match keywords(call).get("fromrepo") {
        None => {}
        Some(Value::Str(repo)) => args.extend(["--repo".to_owned(), repo.clone()]),
        Some(Value::Array(list)) => {
            for repo in list {
                args.extend(["--repo".to_owned(), python::str(repo)]);
            }
        }
        Some(other) => {
            let class = python::type_name(other);
            return Err(CallError::Type(format!("'{class}' object is not iterable")));
        }
    }
    let how = ZypperOptions::query(call.arg("root"));
    let mut ret = Map::new();
    for update in how.xml(call, &args)?.all("update") {
        if update.attribute("kind") == "package" {
            ret.set(update.attribute("name"), update.attribute("edition"));
        }
    }
    Ok(ret.into())
}

pub fn info_installed(call: &mut Call<'_>) -> Result {
    let (names, root, attr) = (names(call), root_arg(call), option(call, "attr"));
    let all_versions = option_is_true(call, "all_versions");
    let mut ret = lowpkg::info(call, &names, &root, &attr, all_versions)?;
    let rename = |info: &mut Value| {
        if let Value::Map(info) = info {
            for (key, _) in info.0.iter_mut().filter(|(k, _)| k.is_str("source_rpm")) {
                *key = "source".into();
            }
        }
    };
    for (_, value) in &mut ret.0 {
        match value {
            Value::Array(list) => list.iter_mut().for_each(rename),
            other => rename(other),
        }
    }
    Ok(ret.into())
}

pub fn info_available(call: &mut Call<'_>) -> Result {
    let names = names(call);
    Ok(info_for_call(call, names)?.into())
}

/// The result of `pkg.info_available`, with the call's keywords.
fn info_for_call(call: &mut Call<'_>, names: Vec<String>) -> Result<Map> {
    if names.is_empty() {
        return Ok(Map::new());
    }
    let (keywords, root) = (keywords(call), root_arg(call));
    if keywords.get("refresh").is_none_or(Value::truthy) {
        refresh_with(call, root.clone(), keywords)?;
    }
    available(call, names, &root)
}

fn available(call: &mut Call<'_>, mut names: Vec<String>, root: &Value) -> Result<Map> {
    names.sort();
    names.dedup();
    let how = ZypperOptions::query(root);
    let mut ret = Map::new();
    for batch in names.chunks(200) {
        let mut args = to_args(&["info", "-t", "package"]);
        args.extend_from_slice(batch);
        for (name, info) in info_records(&how.text(call, &args)?) {
            ret.set(name, info);
        }
    }
    Ok(ret)
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
    let info = info_for_call(call, names.clone())?;
    let mut ret = Map::new();
    for name in names {
        let own = info.get(&name).and_then(Value::as_map);
        let status = own.and_then(|i| i.str("status")).unwrap_or_default();
        let status = status.to_lowercase();
        let newer = status.contains("not installed") || status.contains("out-of-date");
        let version = own.and_then(|i| i.get("version")).cloned();
        ret.set(
            name,
            if newer {
                version.unwrap_or_default()
            } else {
                "".into()
            },
        );
    }
    match ret.0.as_slice() {
        [(_, only)] => Ok(only.clone()),
        _ => Ok(ret.into()),
    }
}

pub fn list_repo_pkgs(call: &mut Call<'_>) -> Result {
    let (names, kwargs) = (names(call), keywords(call));
    let repo = kwargs
        .get("fromrepo")
        .filter(|v| v.truthy())
        .map(python::str);
    let mut args = to_args(&["se", "-s"]);
    args.extend(names.iter().cloned());
    let found = ZypperOptions::new(&root_arg(call)).xml(call, &args)?;
    let mut repos: Vec<(String, Packages)> = Vec::new();
    for solvable in found.all("solvable") {
        let of = |key: &str| solvable.attributes.iter().find(|(k, _)| k == key);
        let (Some(_), Some(_), Some(_)) = (of("repository"), of("name"), of("edition")) else {
            continue;
        };
        let (own, name) = (solvable.attribute("repository"), solvable.attribute("name"));
        let wanted = names.is_empty() || names.iter().any(|n| fnmatch(name, n));
        let other = repo.as_deref().is_some_and(|r| r != own);
        if solvable.attribute("kind") != "package" || other || !wanted {
            continue;
        }
        let at = repos.iter().position(|(r, _)| r == own).unwrap_or_else(|| {
            repos.push((own.to_owned(), Packages::new()));
            repos.len() - 1
        });
        let versions = repos[at].1.entry(name.to_owned()).or_default();
        let edition = solvable.attribute("edition");
        if !versions.iter().any(|v| v == edition) {
            versions.push(edition.to_owned());
        }
    }
    let value = |packages: Packages| -> Map {
        let mut ret = Map::new();
        for (name, mut versions) in packages {
            versions.sort_by(|a, b| loose_version::compare(b, a));
            ret.set(name, versions);
        }
        ret
    };
    if kwargs.get("byrepo").is_some_and(Value::truthy) {
        let list = repos.into_iter().map(|(repo, all)| (repo, value(all)));
        return Ok(list.collect::<Map>().into());
    }
    let mut together = Packages::new();
    for (name, versions) in repos.into_iter().flat_map(|(_, all)| all) {
        together.entry(name).or_default().extend(versions);
    }
    Ok(value(together).into())
}

pub fn list_provides(call: &mut Call<'_>) -> Result {
    let mut argv = lowpkg::rpm(call.arg("root"));
    argv.extend(["-qa", "--queryformat", "%{PROVIDES}_|-%{NAME}\n"].map(str::to_owned));
    let text = command_helpers::run(call, argv)?;
    let mut ret = Map::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split("_|-").collect();
        let [provided, name] = parts.as_slice() else {
            let what = match parts.len() {
                0 | 1 => "not enough values to unpack (expected 2, got 1)",
                _ => "too many values to unpack (expected 2)",
            };
            return Err(CallError::raised("ValueError", what));
        };
        if provided == name {
            continue;
        }
        match ret.get_mut(provided) {
            Some(Value::Array(list)) => list.push((*name).into()),
            _ => ret.set(*provided, vec![Value::from(*name)]),
        }
    }
    Ok(ret.into())
}

pub fn list_downloaded(call: &mut Call<'_>) -> Result {
    let root = call.arg("root").clone();
    Ok(downloaded(call, &root)?.into())
}

/// The package files in zypper's cache.
///
/// # Errors
/// A file is not a package.
pub fn downloaded(call: &mut Call<'_>, root: &Value) -> Result<Map> {
    let cache = if root.truthy() {
        Path::new(&python::str(root)).join("var/cache/zypp/packages/")
    } else {
        Path::new("/var/cache/zypp/packages/").to_owned()
    };
    let mut files = Vec::new();
    walk(&cache, &mut files);
    let mut ret = Map::new();
    for path in files {
        let text = path.to_string_lossy().into_owned();
        let Some((name, version)) = rpm::query_package_file(call, &text)? else {
            let why = "'NoneType' object is not subscriptable";
            return Err(CallError::Type(why.to_owned()));
        };
        let meta = std::fs::metadata(&path).map_err(|e| python::os_error(&e, &text))?;
        let info = map! {
            "path" => text, "size" => i64::try_from(meta.size()).unwrap_or(i64::MAX),
            "creation_date_time_t" => meta.ctime(), "creation_date_time" => lowpkg::utc(meta.ctime()),
        };
        match ret.get_mut(&name) {
            Some(Value::Map(versions)) => versions.set(version, info),
            _ => ret.set(name, Value::Map([(version, info)].into_iter().collect())),
        }
    }
    Ok(ret)
}

/// The package files below a directory. Links to directories are not followed.
fn walk(dir: &Path, files: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut below = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => below.push(path),
            Ok(_) if path.extension().is_some_and(|e| e == "rpm") => files.push(path),
            _ => {}
        }
    }
    for dir in below {
        walk(&dir, files);
    }
}

pub fn normalize_name(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    Ok(normalized(&osarch(call), &name).into())
}

/// A name without this host's architecture.
pub fn normalized(own: &str, name: &str) -> String {
    match name.rsplit_once('.') {
        Some((plain, "noarch")) => plain.to_owned(),
        Some((plain, arch)) if rpm::is_arch(arch) && (arch == own || rpm::both_32(arch, own)) => {
            plain.to_owned()
        }
        _ => name.to_owned(),
    }
}

pub fn version_cmp(call: &mut Call<'_>) -> Result {
    let (one, other) = (python::str(call.arg("ver1")), python::str(call.arg("ver2")));
    Ok(rpm::compare(&one, &other, call.flag("ignore_epoch")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_shown_as_asked() {
        let entry = map! {
            "epoch" => "1", "version" => "2", "release" => "3", "arch" => "i686", "install_date" => Value::Nil,
        };
        let all =
            map! {"a.i686" => vec![Value::from(entry.clone())], "b" => vec![Value::from(entry)]};
        assert_eq!(
            versions_only(&all, false),
            map! {"a.i686" => "1:2-3", "b" => "1:2-3"}
        );
        let shown = with_attributes(&all, Some(&["epoch".to_owned()]));
        let short = map! {"epoch" => "1", "version" => "2", "arch" => "i686"};
        let list = vec![Value::from(short)];
        assert_eq!(shown, map! {"a" => list.clone(), "b" => list});
        assert_eq!(normalized("x86_64", "a.noarch"), "a");
        assert_eq!(normalized("x86_64", "a.i686"), "a.i686");
        assert_eq!(normalized("i586", "a.i686"), "a");
    }
}
