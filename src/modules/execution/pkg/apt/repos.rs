//! Listing and removing repositories.

use super::list::fetch;
use super::sources::{Entry, Line, SourceFormat, load, save};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value};
use std::path::Path;

pub fn list_repos(_: &mut Call<'_>) -> Result {
    Ok(configured_repos()?.into())
}

/// The configured repositories by URI.
pub fn configured_repos() -> Result<Map> {
    let mut repos = Map::new();
    for entry in load().iter().filter(|e| !e.invalid()) {
        for repo in entry.described()? {
            let uri = repo.str("uri").unwrap_or_default().to_owned();
            match repos.get_mut(&uri) {
                Some(Value::Array(list)) => list.push(repo.into()),
                _ => repos.set(uri, vec![Value::Map(repo)]),
            }
        }
    }
    Ok(repos)
}

/// Whether this host supports addresses like `ppa:owner/name`.
pub fn has_ppas(call: &Call<'_>) -> bool {
    let os = call.ctx.grains.str("os").unwrap_or_default();
    ["Ubuntu", "Mint", "neon"].contains(&os)
}

/// What an entry for a repository with these options will be, in the form of `pkg.get_repo`, without the file.
///
/// # Errors
/// It is no entry.
pub fn expand_repo(repo: &str, kwargs: &Map) -> Result<Map> {
    let mut line = Line::parse(repo)?;
    if line.invalid {
        return Err(CallError::Invocation(format!("{repo} is no entry")));
    }
    let words = |key: &str| {
        let value = kwargs.get(key).filter(|v| v.truthy())?;
        let text = match value {
            Value::Array(list) => list.iter().map(python::str).collect::<Vec<_>>().join(","),
            other => python::str(other),
        };
        let words = text.split(',').map(|w| w.trim().to_owned());
        Some(words.collect::<Vec<_>>())
    };
    line.comps = words("comps").unwrap_or(line.comps);
    line.architectures = words("architectures").unwrap_or(line.architectures);
    if let Some(comment) = kwargs.get("comments").filter(|v| v.truthy()) {
        line.comment = match comment {
            Value::Array(list) => list.iter().map(python::str).collect::<Vec<_>>().join(" "),
            other => python::str(other),
        };
    }
    if let Some(disabled) = kwargs.get("disabled").and_then(Value::as_bool) {
        line.disabled = disabled;
    }
    let text = |key: &str| kwargs.str(key).map(str::to_owned);
    line.dist = text("dist").unwrap_or(line.dist);
    line.uri = text("uri").unwrap_or(line.uri);
    line.signedby = text("signedby").unwrap_or(line.signedby);
    if let Some(trusted) = kwargs.get("trusted") {
        line.trusted = trusted.as_bool();
    }
    line.line = line.render();
    let entry = Entry {
        file: String::new(),
        form: SourceFormat::Line(line),
    };
    let mut map = entry.described()?.into_iter().next().unwrap_or_default();
    for key in ["file", "enabled"] {
        map.remove(key);
    }
    Ok(map)
}

/// Expands a short address like `ppa:owner/name`.
fn expanded(call: &Call<'_>, repo: &str) -> Result<String> {
    let Some(ppa) = repo.strip_prefix("ppa:").filter(|_| has_ppas(call)) else {
        return Ok(repo.to_owned());
    };
    let Some((owner, name)) = ppa.split_once('/') else {
        let text = "not enough values to unpack (expected 2, got 1)";
        return Err(CallError::raised("ValueError", text));
    };
    let dist = call.ctx.grains.str("oscodename").unwrap_or_default();
    Ok(
        match call.bound.kwargs.get("ppa_auth").filter(|v| v.truthy()) {
            Some(auth) => format!(
                "deb https://{}@private-ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main",
                python::str(auth)
            ),
            None => format!("deb http://ppa.launchpad.net/{owner}/{name}/ubuntu {dist} main"),
        },
    )
}

pub fn get_repo(call: &mut Call<'_>) -> Result {
    let repo = expanded(call, &python::str(call.arg("repo")))?;
    Ok(find(&repo)?.into())
}

/// The first repository with that type, URI and suite and one of the components.
pub fn find(repo: &str) -> Result<Map> {
    let repos = configured_repos()?;
    if repos.is_empty() {
        return Ok(Map::new());
    }
    let wanted = Line::parse(repo)?;
    let same = |text: Option<&str>, own: &str| {
        text.unwrap_or_default().trim_end_matches('/') == own.trim_end_matches('/')
    };
    for (_, list) in repos.iter() {
        for found in list
            .as_array()
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_map)
        {
            let fits = found.str("type") == Some(&wanted.kind)
                && same(found.str("uri"), &wanted.uri)
                && found.str("dist") == Some(&wanted.dist);
            let comps = found.get("comps").map(Value::str_list).unwrap_or_default();
            if fits && (wanted.comps.is_empty() || wanted.comps.iter().any(|c| comps.contains(c))) {
                return Ok(found.clone());
            }
        }
    }
    Ok(Map::new())
}

/// Whether two lists have the same items.
fn same_members(one: &[String], other: &[String]) -> bool {
    one.iter().all(|c| other.contains(c)) && other.iter().all(|c| one.contains(c))
}

/// Removes the parts of an entry that `wanted` names; whether there were any.
fn remove_matching(entry: &mut Entry, wanted: &Line) -> bool {
    let (own, comps) = (entry.comps(), &wanted.comps);
    if same_members(&own, comps) {
        let mut suites = entry.suites();
        if let Some(at) = suites.iter().position(|s| *s == wanted.dist) {
            suites.remove(at);
        }
        entry.set_suites(&suites);
        return true;
    }
    if own.iter().any(|c| comps.contains(c)) {
        let left: Vec<String> = own.into_iter().filter(|c| !comps.contains(c)).collect();
        entry.set_comps(&left);
        return true;
    }
    false
}

pub fn del_repo(call: &mut Call<'_>) -> Result {
    let given = python::str(call.arg("repo"));
    let repo = expanded(call, &given)?;
    let mut entries = load();
    let missing =
        || CallError::Command(format!("Repo {repo} doesn't exist in the sources.list(s)"));
    if entries.iter().all(Entry::invalid) {
        return Err(missing());
    }
    let wanted = Line::parse(&repo)?;
    let trimmed = |uri: &str| uri.trim_end_matches('/').to_owned();
    let mut files: Vec<String> = Vec::new();
    entries.retain_mut(|entry| {
        let uris: Vec<String> = entry.uris().iter().map(|u| trimmed(u)).collect();
        let source = given.starts_with("ppa:") && repo != given && entry.types() == ["deb-src"];
        let fits = !entry.invalid()
            && (source
                || entry.types().contains(&wanted.kind)
                    && entry.architectures() == wanted.architectures)
            && uris.contains(&trimmed(&wanted.uri))
            && entry.suites().contains(&wanted.dist);
        if !fits {
            return true;
        }
        let all = same_members(&entry.comps(), &wanted.comps);
        if !remove_matching(entry, &wanted) {
            return true;
        }
        if !files.contains(&entry.file) {
            files.push(entry.file.clone());
        }
        if all {
            !entry.suites().is_empty()
        } else {
            !entry.comps().is_empty()
        }
    });
    if files.is_empty() {
        return Err(missing());
    }
    save(&entries)?;
    let mut text = String::new();
    for file in &files {
        let left = entries.iter().any(|e| e.file == *file && !e.invalid());
        if !left && file.contains("sources.list.d/") && Path::new(file).is_file() {
            text.push_str(&format!(
                "File {file} containing repo '{repo}' has been removed."
            ));
            let _ = std::fs::remove_file(file);
        } else {
            text.push_str(&format!("Repo '{repo}' has been removed from {file}.\n"));
        }
    }
    fetch(call, &Value::Nil, false, None)?;
    Ok(text.into())
}
