//! Smaller queries: file owners, repository data, downloaded packages.

use super::list::fetch;
use super::{dpkg, run_quiet};
use crate::execution::cmd::which as program;
use crate::execution::declare::Result;
use crate::execution::pkg::common::{empty, keywords, names, reject_unknown_kwargs};
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub fn owner(call: &mut Call<'_>) -> Result {
    let paths = names(call);
    if paths.is_empty() {
        return Ok("".into());
    }
    let mut ret = Map::new();
    for path in paths {
        let ran = command_helpers::run_all(call, ["dpkg", "-S", &path])?;
        let mut package = ran.stdout.split(':').next().unwrap_or_default();
        if package.to_lowercase().contains("no path found") {
            package = "";
        }
        ret.set(path, package);
    }
    match ret.0.as_slice() {
        [(_, only)] => Ok(only.clone()),
        _ => Ok(ret.into()),
    }
}

pub fn which(call: &mut Call<'_>) -> Result {
    let path = python::str(call.arg("path"));
    if !path.starts_with('/') || !Path::new(&path).exists() {
        return Ok(false.into());
    }
    let ran = super::change(call, ["dpkg", "-S", &path].map(str::to_owned).to_vec())?;
    if ran.stdout.contains("no path found matching pattern") {
        return Ok(Value::Nil);
    }
    Ok(ran.stdout.split(':').next().unwrap_or_default().into())
}

pub fn show(call: &mut Call<'_>) -> Result {
    let mut kwargs = keywords(call);
    let refresh = kwargs.remove("refresh").is_some_and(|v| v.truthy());
    let filter: Vec<String> = match kwargs.remove("filter") {
        None => Vec::new(),
        Some(Value::Array(list)) => list.iter().map(lower).collect(),
        Some(other) => {
            let text = python::str(&other);
            text.split(',').map(|w| w.trim().to_lowercase()).collect()
        }
    };
    reject_unknown_kwargs(&kwargs)?;
    if refresh {
        fetch(call, &Value::Nil, false, None)?;
    }
    let names = names(call);
    if names.is_empty() {
        return empty();
    }
    let mut argv = vec!["apt-cache".to_owned(), "show".to_owned()];
    argv.extend(names);
    let ran = run_quiet(call, argv)?;
    Ok(filter_fields(&ran.stdout, &filter).into())
}

fn lower(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_lowercase(),
        other => python::str(other),
    }
}

/// Records of `apt-cache show` by package and version.
fn filter_fields(text: &str, filter: &[String]) -> Map {
    let mut ret = Map::new();
    let mut info = Map::new();
    for line in text.lines().map(str::trim).chain([""]) {
        if line.is_empty() {
            add(&mut ret, std::mem::take(&mut info));
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let low = key.to_lowercase();
        if low == "package" || low == "version" || filter.is_empty() || filter.contains(&low) {
            info.set(key, value);
        }
    }
    ret
}

fn add(ret: &mut Map, mut info: Map) {
    let (Some(name), Some(version)) = (info.remove("Package"), info.remove("Version")) else {
        return;
    };
    let (name, version) = (python::str(&name), python::str(&version));
    if !ret.contains(&name) {
        ret.set(name.clone(), Map::new());
    }
    let Some(Value::Map(package)) = ret.get_mut(&name) else {
        return;
    };
    if !package.contains(&version) {
        package.set(version.clone(), Map::new());
    }
    let Some(Value::Map(slot)) = package.get_mut(&version) else {
        return;
    };
    for (key, value) in info.0 {
        slot.set(python::str(&key), value);
    }
}

pub fn list_downloaded(call: &mut Call<'_>) -> Result {
    let root = call.text("root").filter(|r| !r.is_empty());
    let dir = match root {
        Some(root) => PathBuf::from(root).join("var/cache/apt"),
        None => PathBuf::from("/var/cache/apt"),
    };
    let mut files = Vec::new();
    walk(&dir, &mut files);
    let mut ret = Map::new();
    for path in files {
        let text = path.to_string_lossy().into_owned();
        let info = dpkg::bin_pkg_info(call, &text)?;
        let meta = std::fs::metadata(&path).map_err(|e| python::os_error(&e, &text))?;
        let time = jiff::Timestamp::from_second(meta.ctime()).unwrap_or_default();
        if !ret.contains(&info.name) {
            ret.set(info.name.clone(), Map::new());
        }
        if let Some(Value::Map(versions)) = ret.get_mut(&info.name) {
            versions.set(
                info.version,
                map! {
                    "path" => text,
                    "size" => meta.size(),
                    "creation_date_time_t" => meta.ctime(),
                    "creation_date_time" => time.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
                },
            );
        }
    }
    Ok(ret.into())
}

/// Package files below a directory. Links to directories are not followed.
fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut dirs = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            dirs.push(path);
        } else if path.extension().is_some_and(|e| e == "deb") {
            out.push(path);
        }
    }
    for dir in dirs {
        walk(&dir, out);
    }
}

pub fn services_need_restart(call: &mut Call<'_>) -> Result {
    if program("checkrestart").is_none() {
        return Err(CallError::CommandNotFound(
            "'checkrestart' is needed. It is part of the 'debian-goodies' package which can be installed from \
             official repositories."
                .to_owned(),
        ));
    }
    let ran = command_helpers::run_all(call, ["checkrestart", "--machine", "--package"])?;
    let mut services: Vec<String> = Vec::new();
    for line in ran
        .stdout
        .lines()
        .filter_map(|l| l.strip_prefix("SERVICE:"))
    {
        let name = line.split(',').next().unwrap_or_default().to_owned();
        if !services.contains(&name) {
            services.push(name);
        }
    }
    Ok(services.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_split() {
        let text =
            "Package: a\nVersion: 1\nSize: 5\nDescription: x\n long\n\nPackage: a\nVersion: 2\n";
        let all = filter_fields(text, &[]);
        let a = all.get("a").and_then(Value::as_map).unwrap();
        assert_eq!(a.len(), 2);
        let some = filter_fields(text, &["size".to_owned()]);
        let wanted = map! {"1" => map! {"Size" => "5"}, "2" => Map::new()};
        assert_eq!(some.get("a").and_then(Value::as_map), Some(&wanted));
    }
}
