//! Registries: logging in, and what is known of accounts there.

use super::super::{Call, CallError, python};
use super::containers::{as_map, maps};
use super::engine::{Engine, encoded, option, query};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, base64, json, map};
use std::path::PathBuf;

/// The registry of images without one.
const HUB: &str = "https://index.docker.io/v1/";

/// The registry of a repository, as it is called in `config.json`.
fn registry_of(repository: &str) -> String {
    let host = repository.split_once('/').map(|(host, _)| host);
    match host {
        Some(host) if host.contains(['.', ':']) || host == "localhost" => host.to_owned(),
        _ => HUB.to_owned(),
    }
}

/// A registry without protocol and path.
fn bare(registry: &str) -> &str {
    let rest = registry
        .split_once("://")
        .map_or(registry, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// Where Docker's command keeps what it knows.
fn config_file() -> PathBuf {
    let dir = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    dir.unwrap_or_else(|| home().join(".docker"))
        .join("config.json")
}

fn config() -> Result<Map> {
    let path = config_file();
    let wrong = |what: &str| CallError::Command(format!("{}: {what}", path.display()));
    match std::fs::read(&path) {
        Ok(text) => json::parse::<Value>(&text)
            .ok()
            .and_then(Value::into_map)
            .ok_or_else(|| wrong("no JSON object; mend or remove it")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Map::new()),
        Err(e) => Err(wrong(&e.to_string())),
    }
}

/// The header that tells the engine who we are at the registry of a repository, if that is known.
///
/// # Errors
/// The minion's configuration cannot be read.
pub fn credentials(call: &mut Call<'_>, repository: &str) -> Result<Option<String>> {
    let registry = registry_of(repository);
    let found = match configured(call)?
        .into_iter()
        .find(|(name, _)| bare(name) == bare(&registry))
    {
        Some((_, account)) => Some(account),
        None => logged_in(&registry),
    };
    let Some(mut account) = found else {
        return Ok(None);
    };
    account.set("serveraddress", registry);
    let text = base64::encode(&encoded(&account)?);
    // The engine wants the letters for URLs.
    Ok(Some(text.replace('+', "-").replace('/', "_")))
}

/// The account that `docker login` has left.
fn logged_in(registry: &str) -> Option<Map> {
    let config = config().ok()?;
    let auths = config.get("auths")?.as_map()?;
    let (_, entry) = auths
        .iter()
        .find(|(key, _)| bare(&python::str(key)) == bare(registry))?;
    let entry = entry.as_map()?;
    if let Some(token) = entry.str("identitytoken").filter(|t| !t.is_empty()) {
        return Some(map! {"identitytoken" => token});
    }
    let auth = base64::decode(entry.str("auth")?.as_bytes()).ok()?;
    let auth = String::from_utf8(auth).ok()?;
    let (user, password) = auth.split_once(':')?;
    Some(map! {"username" => user, "password" => password})
}

/// The accounts of the option `docker-registries`.
fn configured(call: &mut Call<'_>) -> Result<Vec<(String, Map)>> {
    let mut found = Vec::new();
    if let Some(Value::Map(all)) = option(call, "docker-registries")? {
        for (name, account) in all.0 {
            let account = as_map(account);
            let mut own = Map::new();
            for key in ["username", "password", "email"] {
                if let Some(value) = account.get(key) {
                    own.set(key, python::str(value));
                }
            }
            found.push((python::str(&name), own));
        }
    }
    Ok(found)
}

pub(super) fn login(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let known = configured(call)?;
    let wanted: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
    let wanted = match wanted.is_empty() {
        true => known.iter().map(|(name, _)| name.clone()).collect(),
        false => wanted,
    };
    let (mut errors, mut results) = (Vec::new(), Map::new());
    for name in wanted {
        let account = known
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, account)| account);
        let Some(account) = account else {
            errors.push(Value::from(format!("No match found for registry '{name}'")));
            continue;
        };
        let missing = ["username", "password"]
            .into_iter()
            .find(|key| !account.contains(key));
        if let Some(key) = missing {
            errors.push(format!("Missing {key} for registry '{name}'").into());
            continue;
        }
        let server = if name == "hub" { HUB } else { &name };
        let mut body = account.clone();
        body.set("serveraddress", server);
        let good = match engine.post("/auth", Some(&body))? {
            Ok(_) => match remember(server, account) {
                Ok(()) => true,
                Err(why) => {
                    errors.push(why.into());
                    false
                }
            },
            Err(refusal) => {
                errors.push(refusal.message.into());
                false
            }
        };
        results.set(name, good);
    }
    Ok(told(call, errors, results))
}

fn told(call: &mut Call<'_>, errors: Vec<Value>, results: Map) -> Value {
    let code = i64::from(!errors.is_empty());
    if code != 0 {
        call.retcode = code.into();
    }
    map! {"retcode" => code, "Errors" => errors, "Results" => results}.into()
}

/// Changes the accounts in `config.json`, which only its owner may read.
fn change(edit: impl FnOnce(&mut Map)) -> std::result::Result<(), String> {
    let path = config_file();
    let mut all = config().map_err(|e| e.to_string())?;
    let mut auths = all.remove("auths").map(as_map).unwrap_or_default();
    edit(&mut auths);
    all.set("auths", auths);
    let text = encoded(&all).map_err(|e| e.message().to_owned())?;
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(wrong)?;
    }
    crate::execution::command_helpers::write_private(&path.to_string_lossy(), &text).map_err(wrong)
}

fn remember(server: &str, account: &Map) -> std::result::Result<(), String> {
    let text = |key: &str| account.str(key).unwrap_or_default();
    let auth = base64::encode(format!("{}:{}", text("username"), text("password")).as_bytes());
    change(|auths| auths.set(server, map! {"auth" => auth}))
}

pub(super) fn logout(call: &mut Call<'_>) -> Result {
    let wanted: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
    let wanted = match wanted.is_empty() {
        true => configured(call)?
            .into_iter()
            .map(|(name, _)| name)
            .collect(),
        false => wanted,
    };
    let (mut errors, mut results) = (Vec::new(), Map::new());
    for name in wanted {
        let server = if name == "hub" { HUB } else { &name };
        let done = change(|auths| {
            auths
                .0
                .retain(|(key, _)| bare(&python::str(key)) != bare(server));
        });
        results.set(name, done.is_ok());
        errors.extend(done.err().map(Value::from));
    }
    Ok(told(call, errors, results))
}

pub(super) fn search(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let term = call.text("name").unwrap_or_default();
    let said = engine.get(&format!("/images/search?{}", query(&[("term", term)])))??;
    let mut found = Map::new();
    for one in maps(said) {
        let is = |key: &str| one.get(key).is_some_and(Value::truthy);
        if (call.flag("official") && !is("is_official"))
            || (call.flag("trusted") && !is("is_trusted"))
        {
            continue;
        }
        let get = |key: &str| one.get(key).cloned().unwrap_or_default();
        let shown = map! {
            "Description" => get("description"), "Official" => is("is_official"), "Stars" => get("star_count"),
            "Trusted" => is("is_trusted"),
        };
        found.set(python::str(&get("name")), shown);
    }
    if found.is_empty() {
        return Err(CallError::Command(format!(
            "No images matched the search string '{}'",
            call.text("name").unwrap_or_default()
        )));
    }
    Ok(found.into())
}
