//! Repositories: those in `/etc/zypp/repos.d`, and changes through `zypper`.

use super::run::{ZypperOptions, to_args};
use crate::execution::declare::Result;
use crate::execution::pkg::common::keywords;
use crate::execution::pkg::ini::Ini;
use crate::execution::{Call, CallError, python};
use halite_config::paths::minion::cache;
use halite_wire::{Map, Value};
use std::path::Path;

/// Directory of repository files below the root.
const REPOS: &str = "etc/zypp/repos.d";

/// All configured repositories.
pub fn configured(root: &Value) -> Result<Ini> {
    let folder = if root.truthy() {
        Path::new(&python::str(root)).join(REPOS)
    } else {
        Path::new("/").join(REPOS)
    };
    let mut ini = Ini::default();
    let Ok(entries) = std::fs::read_dir(&folder) else {
        log::warn!("Repositories not found in {}", folder.display());
        return Ok(ini);
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().ends_with(".repo") {
            continue;
        }
        // As in stock, unreadable files are skipped.
        let path = entry.path();
        if let Ok(text) = std::fs::read_to_string(&path) {
            ini.read(&path.to_string_lossy(), &text)?;
        }
    }
    Ok(ini)
}

/// A repository's options; empty if it does not exist.
fn info(ini: &Ini, alias: &str) -> Result<Map> {
    let mut ret = Map::new();
    let Some(items) = ini.items(alias)? else {
        return Ok(ret);
    };
    for (key, value) in items
        .into_iter()
        .chain([("alias".to_owned(), alias.to_owned())])
    {
        match value.as_str() {
            "0" | "1" => ret.set(key, value == "1"),
            "NONE" => ret.set(key, Value::Nil),
            _ => ret.set(key, value),
        }
    }
    Ok(ret)
}

pub fn list_repos(call: &mut Call<'_>) -> Result {
    let ini = configured(call.arg("root"))?;
    let mut ret = Map::new();
    for alias in ini.sections() {
        let info = info(&ini, &alias)?;
        ret.set(alias, info);
    }
    Ok(ret.into())
}

pub fn get_repo(call: &mut Call<'_>) -> Result {
    let alias = python::str(call.arg("repo"));
    Ok(info(&configured(call.arg("root"))?, &alias)?.into())
}

pub fn del_repo(call: &mut Call<'_>) -> Result {
    let (repo, root) = (python::str(call.arg("repo")), call.arg("root").clone());
    delete(call, &repo, &root)
}

fn delete(call: &mut Call<'_>, repo: &str, root: &Value) -> Result {
    if configured(root)?.sections().iter().any(|s| s == repo) {
        let args = to_args(&["rr", "--loose-auth", "--loose-query", repo]);
        let answer = ZypperOptions::new(root).xml(call, &args)?;
        let messages = answer.all("message");
        if let (Some(message), false) = (messages.first(), answer.all("progress").is_empty()) {
            let mut ret = Map::new();
            ret.set(repo, true);
            ret.set("message", message.text.clone().unwrap_or_default());
            return Ok(ret.into());
        }
    }
    Err(CallError::Command(format!(
        "Repository '{repo}' not found."
    )))
}

pub fn mod_repo(call: &mut Call<'_>) -> Result {
    let repo = python::str(call.arg("repo"));
    let keywords = keywords(call);
    modify(call, &repo, keywords)
}

fn modify(call: &mut Call<'_>, repo: &str, mut kwargs: Map) -> Result {
    let root = kwargs
        .get("root")
        .filter(|r| r.truthy())
        .cloned()
        .unwrap_or_default();
    let added = !configured(&root)?.sections().iter().any(|s| s == repo);
    if added {
        add(call, repo, &kwargs, &root)?;
    }
    let mut known = info(&configured(&root)?, repo)?;
    if let Some(url) = kwargs.get("baseurl").filter(|_| !added) {
        let old = known.get("baseurl");
        let old = old.ok_or_else(|| CallError::raised("KeyError", "'baseurl'"))?;
        if url != old {
            if kwargs.contains("root") {
                return Err(duplicate_argument("mod_repo"));
            }
            for (key, value) in kwargs.iter() {
                known.set(python::str(key), value.clone());
            }
            if !known.contains("cache") {
                known.set("cache", false);
            }
            delete(call, repo, &root)?;
            return modify(call, repo, known);
        }
    }
    let options = options(&kwargs);
    if !options.is_empty() {
        let mut args = to_args(&["mr"]);
        args.extend(options.iter().cloned());
        args.push(repo.to_owned());
        let how = ZypperOptions {
            refresh: true,
            ..ZypperOptions::new(&root)
        };
        how.xml(call, &args)?;
    }
    let refresh = kwargs.get("gpgautoimport") == Some(&Value::Bool(true));
    if refresh {
        if kwargs.contains("root") {
            return Err(duplicate_argument("refresh_db"));
        }
        kwargs.set("repos", repo);
        let force = kwargs.remove("force").unwrap_or_default();
        refresh_with(call, force, kwargs)?;
    }
    let mut ret = info(&configured(&root)?, repo)?;
    if !refresh && !added && options.is_empty() {
        let comment = "Specified arguments did not result in modification of repo";
        ret.set("comment", comment);
    }
    Ok(ret.into())
}

/// Stock passes the root twice there.
fn duplicate_argument(function: &str) -> CallError {
    CallError::Type(format!(
        "salt.loaded.int.module.zypperpkg.{function}() got multiple values for keyword argument 'root'"
    ))
}

/// Arguments for `zypper mr`.
fn options(kwargs: &Map) -> Vec<String> {
    let mut options = Vec::new();
    for (key, on, off) in [
        ("enabled", "--enable", "--disable"),
        ("refresh", "--refresh", "--no-refresh"),
        ("cache", "--keep-packages", "--no-keep-packages"),
        ("gpgcheck", "--gpgcheck", "--no-gpgcheck"),
    ] {
        if let Some(value) = kwargs.get(key) {
            options.push(if value.truthy() { on } else { off }.to_owned());
        }
    }
    if let Some(priority) = kwargs.get("priority") {
        options.push(format!("--priority={}", python::str(priority)));
    }
    if let Some(name) = kwargs.get("humanname") {
        options.push(format!("--name='{}'", python::str(name)));
    }
    if let Some(name) = kwargs.get("name") {
        options.extend(["--name".to_owned(), python::str(name)]);
    }
    options
}

fn add(call: &mut Call<'_>, repo: &str, kwargs: &Map, root: &Value) -> Result<()> {
    let named = ["url", "mirrorlist", "baseurl"];
    let url = named.iter().find_map(|n| kwargs.get(n));
    let Some(url) = url.filter(|u| u.truthy()).map(python::str) else {
        return Err(CallError::Command(format!(
            "Repository '{repo}' not found, and neither 'baseurl' nor 'mirrorlist' was specified"
        )));
    };
    let Some(new) = address(&url) else {
        return Err(CallError::Command(format!(
            "Repository '{repo}' not found and URL for baseurl/mirrorlist is malformed"
        )));
    };
    let ini = configured(root)?;
    for alias in ini.sections() {
        let known = info(&ini, &alias)?;
        if !new.has_path {
            // Stock fails in its attempt to add a slash.
            let why = "'function' object has no attribute 'ParseResult'";
            return Err(CallError::raised("AttributeError", why));
        }
        let old = known.get("baseurl");
        let old = old.ok_or_else(|| CallError::raised("KeyError", "'baseurl'"))?;
        if address(&python::str(old)).is_some_and(|old| old.text == new.text) {
            return Err(CallError::Command(format!(
                "Repository '{repo}' already exists as '{alias}'."
            )));
        }
    }
    ZypperOptions::new(root).xml(call, &to_args(&["ar", &url, repo]))?;
    if configured(root)?.sections().iter().any(|s| s == repo) {
        Ok(())
    } else {
        Err(CallError::Command(format!(
            "Failed add new repository '{repo}' for unspecified reason. Please check zypper logs."
        )))
    }
}

/// A URL as compared by `urllib.parse`.
struct Address {
    text: String,
    has_path: bool,
}

/// `None` without a scheme.
fn address(url: &str) -> Option<Address> {
    let (scheme, rest) = url.split_once(':')?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(fits) {
        return None;
    }
    // An empty host counts as none.
    let (host, path) = match rest.strip_prefix("//") {
        None => ("", rest),
        Some(rest) => rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())),
    };
    let plain = path.split(['?', '#', ';']).next().unwrap_or_default();
    Some(Address {
        text: format!(
            "{}://{host}|{}",
            scheme.to_lowercase(),
            path.trim_end_matches(['?', '#'])
        ),
        has_path: !plain.is_empty(),
    })
}

pub fn refresh_db(call: &mut Call<'_>) -> Result {
    let mut keywords = keywords(call);
    for name in ["root", "gpgautoimport"] {
        keywords.set(name, call.arg(name).clone());
    }
    let force = call.arg("force").clone();
    refresh_with(call, force, keywords)
}

/// Refreshes repositories; returns for each whether it is new. Keywords are those of `pkg.refresh_db` and any others.
///
/// # Errors
/// zypper failed.
pub fn refresh_with(call: &mut Call<'_>, force: Value, kwargs: Map) -> Result {
    if kwargs.contains("force") {
        return Err(CallError::Type(
            "refresh_db() got multiple values for argument 'force'".to_owned(),
        ));
    }
    // The marker asks states to refresh, which is done now.
    let _ = std::fs::remove_file(cache::pkg_refresh(&call.ctx.cachedir));
    let force = match force {
        Value::Nil => {
            let pillar = call.ctx.pillar.get("zypper").and_then(Value::as_map);
            let own = pillar.and_then(|p| p.get("refreshdb_force"));
            own.is_none_or(Value::truthy)
        }
        other => other.truthy(),
    };
    let mut args = Vec::new();
    if kwargs.get("gpgautoimport").is_some_and(Value::truthy) {
        args.push("--gpg-auto-import-keys".to_owned());
    }
    args.push("refresh".to_owned());
    if force {
        args.push("--force".to_owned());
    }
    match kwargs.get("repos") {
        None => {}
        Some(Value::Array(list)) => args.extend(list.iter().map(python::str)),
        Some(other) => args.push(python::str(other)),
    }
    let how = ZypperOptions {
        refresh: true,
        success: &[0, 6],
        ..ZypperOptions::new(&root_in(&kwargs))
    };
    Ok(refreshed(&how.text(call, &args)?).into())
}

fn root_in(kwargs: &Map) -> Value {
    kwargs.get("root").cloned().unwrap_or_default()
}

/// Whether each repository was fetched.
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

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn outputs_are_read() {
        let text = "Repository 'one' is up to date.\nRetrieving repository 'two' metadata [.done]\n\
                    Forcing building of repository cache\nBuilding repository 'two' cache [....done]\n\
                    All repositories have been refreshed.";
        assert_eq!(refreshed(text), map! {"one" => false, "two" => true});
    }

    #[test]
    fn addresses() {
        let text = |url: &str| address(url).map(|a| a.text);
        assert_eq!(text("HTTP://h/p"), text("http://h/p"));
        assert_eq!(text("file:///p"), text("file:/p"));
        assert_ne!(text("http://h/p"), text("http://h/p/"));
        assert!(address("/p").is_none() && address("p").is_none() && address("1:p").is_none());
        assert!(!address("http://h").unwrap().has_path);
        assert!(address("http://h/").unwrap().has_path);
    }

    #[test]
    fn changes() {
        let kwargs = map! {"enabled" => false, "refresh" => true, "priority" => 5, "name" => "a b", "cache" => 0};
        assert_eq!(
            options(&kwargs),
            [
                "--disable",
                "--refresh",
                "--no-keep-packages",
                "--priority=5",
                "--name",
                "a b"
            ]
        );
    }
}
