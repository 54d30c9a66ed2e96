//! Repositories: sections of `*.repo` files.

use super::{is_dnf, program, run, to_args};
use crate::execution::declare::Result;
use crate::execution::pkg::common::keywords;
use crate::execution::pkg::ini::{Ini, NO_SECTION};
use crate::execution::pkg::rpm::installed;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

/// Configuration files; the first existing one counts.
const CONFIGURATION: [&str; 4] = [
    "/etc/yum/yum.conf",
    "/etc/yum.conf",
    "/etc/dnf/dnf.conf",
    "/etc/tdnf/tdnf.conf",
];
/// Default repository directories.
const DIRECTORIES: [&str; 2] = ["/etc/yum/repos.d", "/etc/yum.repos.d"];
/// Ways to locate a repository; one is required.
const LINKS: [&str; 3] = ["baseurl", "mirrorlist", "metalink"];

/// Whether duplicates in a file are errors.
fn is_strict(kwargs: &Map) -> bool {
    kwargs.get("strict_config").is_none_or(Value::truthy)
}

/// The directories of a call, or those of the configuration.
fn directories(basedir: &Value, strict: bool) -> Result<Vec<String>> {
    let split = |text: &str| text.split(',').map(|d| d.trim().to_owned()).collect();
    match basedir {
        Value::Str(text) => return Ok(split(text)),
        Value::Array(list) if !list.is_empty() => {
            return Ok(list.iter().map(python::str).collect());
        }
        Value::Array(_) | Value::Nil => {}
        _ => {
            return Err(CallError::Invocation(
                "Could not determine any repo directories".to_owned(),
            ));
        }
    }
    let Some(path) = CONFIGURATION.iter().find(|p| Path::new(p).exists()) else {
        let list = CONFIGURATION.map(|p| format!("'{p}'")).join(", ");
        return Err(CallError::Command(format!(
            "No suitable yum config file found in: ({list})"
        )));
    };
    let text = command_helpers::read(path)?;
    let mut found = Ini::new(strict);
    found.read(path, &text)?;
    let main = found.items("main")?.unwrap_or_default();
    Ok(match main.iter().find(|(name, _)| name == "reposdir") {
        Some((_, list)) => split(list),
        None => DIRECTORIES.map(str::to_owned).to_vec(),
    })
}

/// Reads a file: comments before the first section, and its sections.
fn read(path: &str, strict: bool) -> Result<(String, Map)> {
    let text = command_helpers::read(path)?;
    let mut ini = Ini::new(strict);
    match ini.read(path, &text) {
        Ok(()) => {}
        Err(CallError::Raised(class, text)) if class == NO_SECTION => {
            log::error!("Failed to parse file {path}: {text}");
            return Ok((String::new(), Map::new()));
        }
        Err(other) => return Err(other),
    }
    let sections = ini.raw().into_iter();
    let mut found: Map = sections
        .map(|(name, keys)| (name, keys.into_iter().collect::<Map>()))
        .collect();
    let mut head = String::new();
    let mut section: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix('#') {
            match &section {
                None => head.push_str(&format!("{line}\n")),
                Some(name) => {
                    if let Some(Value::Map(repo)) = found.get_mut(name) {
                        let comment = Value::from(comment.trim_start());
                        match repo.get_mut("comments") {
                            Some(Value::Array(list)) => list.push(comment),
                            _ => repo.set("comments", vec![comment]),
                        }
                    }
                }
            }
        } else if line.len() > 1 && line.starts_with('[') && line.ends_with(']') {
            section = Some(line[1..line.len() - 1].to_owned());
        }
    }
    Ok((head, found))
}

/// All repositories with their files.
///
/// # Errors
/// The configuration cannot be read.
pub fn all(basedir: &Value, kwargs: &Map) -> Result<Vec<(String, Map)>> {
    let strict = is_strict(kwargs);
    let mut all: Vec<(String, Map)> = Vec::new();
    for dir in directories(basedir, strict)? {
        if !Path::new(&dir).exists() {
            continue;
        }
        let entries = std::fs::read_dir(&dir).map_err(|e| python::os_error(&e, &dir))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.ends_with(".repo") {
                continue;
            }
            let path = format!("{dir}/{name}");
            for (key, repo) in read(&path, strict)?.1.0 {
                let (key, mut repo) = (python::str(&key), repo.into_map().unwrap_or_default());
                repo.set("file", path.as_str());
                match all.iter_mut().find(|(n, _)| *n == key) {
                    Some(known) => known.1 = repo,
                    None => all.push((key, repo)),
                }
            }
        }
    }
    Ok(all)
}

pub fn list_repos(call: &mut Call<'_>) -> Result {
    let all = all(call.arg("basedir"), &call.bound.kwargs)?;
    Ok(all.into_iter().collect::<Map>().into())
}

/// A repository's name; copr repositories have another name in their file.
fn named(repo: &str) -> Result<String> {
    let Some(copr) = repo.strip_prefix("copr:") else {
        return Ok(repo.to_owned());
    };
    let (user, name) = copr
        .split_once('/')
        .ok_or_else(|| CallError::raised("IndexError", "list index out of range"))?;
    Ok(format!("copr:copr.fedorainfracloud.org:{user}:{name}"))
}

/// The file of a repository.
fn file_of(all: &[(String, Map)], repo: &str) -> Option<String> {
    let (_, found) = all.iter().find(|(name, _)| name == repo)?;
    found.str("file").map(str::to_owned)
}

pub fn get_repo(call: &mut Call<'_>) -> Result {
    let all = all(call.arg("basedir"), &call.bound.kwargs)?;
    let repo = named(&python::str(call.arg("repo")))?;
    let Some(path) = file_of(&all, &repo) else {
        return Ok(Map::new().into());
    };
    let (_, found) = read(&path, is_strict(&call.bound.kwargs))?;
    Ok(found.get(&repo).cloned().unwrap_or_default())
}

/// A line of a file; continuation lines of a value are indented.
fn line(key: &Value, value: &Value) -> String {
    let key = python::str(key);
    match value {
        Value::Str(text) => format!("{key}={}", text.replace('\n', "\n ")),
        Value::Bool(on) => format!("{key}={}", i32::from(*on)),
        other => format!("{key}={}", python::str(other)),
    }
}

/// Comment lines.
fn comments(repo: &mut Map) -> String {
    let list = repo.remove("comments");
    let one = |text: String| format!("# {}\n", text.trim_start_matches('#').trim_start());
    list.map(|l| l.str_list())
        .unwrap_or_default()
        .into_iter()
        .map(one)
        .collect()
}

pub fn del_repo(call: &mut Call<'_>) -> Result {
    let repo = named(&python::str(call.arg("repo")))?;
    let kwargs = call.bound.kwargs.clone();
    let strict = is_strict(&kwargs);
    let dirs = directories(call.arg("basedir"), strict)?;
    let all = all(&dirs.clone().into(), &kwargs)?;
    let Some(path) = file_of(&all, &repo) else {
        let dirs = python::str(&dirs.into());
        return Ok(format!("Error: the {repo} repo does not exist in {dirs}").into());
    };
    let shared = |(name, other): &(String, Map)| *name != repo && other.str("file") == Some(&path);
    if !all.iter().any(shared) {
        std::fs::remove_file(&path).map_err(|e| python::os_error(&e, &path))?;
        return Ok(format!("File {path} containing repo {repo} has been removed").into());
    }
    let (mut content, found) = read(&path, strict)?;
    for (name, keys) in found.0 {
        if name.is_str(&repo) {
            continue;
        }
        let mut keys = keys.into_map().unwrap_or_default();
        let comments = comments(&mut keys);
        content.push_str(&format!("\n[{}]", python::str(&name)));
        for (key, value) in keys.iter() {
            content.push_str(&format!("\n{}", line(key, value)));
        }
        content.push_str(&format!("\n{comments}\n"));
    }
    command_helpers::write_file(&path, &content).map_err(|e| python::os_error(&e, &path))?;
    Ok(format!("Repo {repo} has been removed from {path}").into())
}

pub fn mod_repo(call: &mut Call<'_>) -> Result {
    let mut wanted = keywords(call);
    wanted.remove("saltenv");
    let links = LINKS.iter().filter(|l| wanted.contains(l)).count();
    if links >= 2 {
        return Err(CallError::Invocation(format!(
            "One and only one of {} can be used",
            LINKS.join(", ")
        )));
    }
    let given = python::str(call.arg("repo"));
    let repo = named(&given)?;
    let mut gone: Vec<String> = Vec::new();
    wanted.0.retain(|(key, value)| {
        let zero = matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_));
        let keep = zero || value.truthy();
        if !keep {
            gone.push(python::str(key));
        }
        keep
    });
    if let Some(link) = LINKS.iter().find(|l| wanted.contains(l)) {
        let others = LINKS.iter().filter(|l| *l != link);
        gone.extend(others.map(|l| (*l).to_owned()));
    }
    if gone.iter().any(|k| k == "name") {
        return Err(CallError::Invocation(
            "The repo name cannot be deleted".to_owned(),
        ));
    }
    let kwargs = call.bound.kwargs.clone();
    let strict = is_strict(&kwargs);
    let dirs = directories(call.arg("basedir"), strict)?;
    let known = file_of(&all(&dirs.clone().into(), &kwargs)?, &repo);
    let (path, head, mut found) = match known {
        Some(path) => {
            let (head, found) = read(&path, strict)?;
            (path, head, found)
        }
        None => created(call, &given, &repo, &dirs, &wanted)?,
    };
    let Some(Value::Map(own)) = found.get_mut(&repo) else {
        return Err(CallError::raised("KeyError", format!("'{repo}'")));
    };
    for link in LINKS.iter().filter(|l| gone.iter().any(|g| g == *l)) {
        let others: Vec<&str> = LINKS.into_iter().filter(|l| l != link).collect();
        if !others.iter().any(|l| wanted.contains(l) || own.contains(l)) {
            return Err(CallError::Invocation(format!(
                "Cannot delete {link} without specifying {}",
                others.join(" or ")
            )));
        }
    }
    for key in &gone {
        own.remove(key);
    }
    for (key, value) in wanted.0 {
        own.set(python::str(&key), value);
    }
    let mut content = head;
    for (name, keys) in &mut found.0 {
        let Value::Map(keys) = keys else { continue };
        let comments = comments(keys);
        content.push_str(&format!("[{}]\n", python::str(name)));
        for (key, value) in keys.iter() {
            content.push_str(&format!("{}\n", line(key, value)));
        }
        content.push_str(&format!("{comments}\n"));
    }
    command_helpers::write_file(&path, &content).map_err(|e| python::os_error(&e, &path))?;
    Ok(map! {path => found}.into())
}

/// The file for a new repository, with its current content.
fn created(
    call: &mut Call<'_>,
    given: &str,
    repo: &str,
    dirs: &[String],
    wanted: &Map,
) -> Result<(String, String, Map)> {
    let Some(dir) = dirs.iter().find(|d| Path::new(d).exists()) else {
        let dirs = python::str(&dirs.to_vec().into());
        return Err(CallError::Invocation(format!(
            "The repo does not exist and needs to be created, but none of the following basedir directories exist: \
             {dirs}"
        )));
    };
    if let Some(copr) = given.strip_prefix("copr:") {
        return enabled(call, copr, repo, dirs);
    }
    if !wanted.contains("name") {
        return Err(CallError::Invocation(
            "The repo does not exist and needs to be created, but a name was not given".to_owned(),
        ));
    }
    if !LINKS.iter().any(|l| wanted.contains(l)) {
        return Err(CallError::Invocation(format!(
            "The repo does not exist and needs to be created, but none of {} was given",
            LINKS.join(", ")
        )));
    }
    let path = format!("{dir}/{repo}.repo");
    Ok((path, String::new(), map! {repo => Map::new()}))
}

/// Has the program add a copr repository.
fn enabled(
    call: &mut Call<'_>,
    copr: &str,
    repo: &str,
    dirs: &[String],
) -> Result<(String, String, Map)> {
    let plugin = if is_dnf()? {
        "dnf-plugins-core"
    } else {
        "yum-plugin-copr"
    };
    if !installed(call)?.contains_key(plugin) {
        return Err(CallError::Invocation(format!(
            "{plugin} must be installed to use COPR"
        )));
    }
    let ran = run(call, to_args(&["copr", "enable", copr, "-y"]), false)?;
    if !ran.ok() {
        return Err(CallError::Command(format!(
            "Unable to add COPR '{copr}'. '{}' exited with status {}: '{}' ",
            program()?,
            ran.retcode,
            ran.stderr
        )));
    }
    let kwargs = call.bound.kwargs.clone();
    let path = file_of(&all(&dirs.to_vec().into(), &kwargs)?, repo)
        .ok_or_else(|| CallError::raised("KeyError", format!("'{repo}'")))?;
    let (head, found) = read(&path, is_strict(&kwargs))?;
    Ok((path, head, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let one = |value: Value| line(&"a".into(), &value);
        assert_eq!(one("b\nc".into()), "a=b\n c");
        assert_eq!(one(true.into()), "a=1");
        assert_eq!(one(7.into()), "a=7");
    }

    #[test]
    fn names_of_copr() {
        let name = named("copr:user/name").unwrap();
        assert_eq!(name, "copr:copr.fedorainfracloud.org:user:name");
        assert_eq!(named("base").unwrap(), "base");
        assert!(named("copr:user").is_err());
    }
}
