//! Keys that repositories are signed with: from `apt-key` if it exists, else files below `/etc/apt/keyrings`.

use super::run_quiet;
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::pkg::common::{cached, has_keyword, option};
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const DIR: &str = "/etc/apt/keyrings";

fn directory(value: &Value) -> PathBuf {
    match value {
        Value::Str(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => PathBuf::from(DIR),
    }
}

/// `int(text)` if possible.
fn number(text: &str) -> Value {
    match text.trim() {
        "" => Value::Nil,
        text => text.parse::<i64>().map_or_else(|_| text.into(), Value::Int),
    }
}

/// Parses `gpg --with-colons` by key id.
fn parse(text: &str) -> Map {
    let mut keys: Vec<Map> = Vec::new();
    for line in text.lines() {
        let items: Vec<Value> = line.split(':').map(number).collect();
        let item = |at: usize| items.get(at).cloned().unwrap_or_default();
        let kind = item(0);
        match kind.as_str().unwrap_or_default() {
            "pub" | "sub" => {
                let key = map! {
                    "algorithm" => item(3),
                    "bits" => item(2),
                    "capability" => item(11),
                    "date_creation" => item(5),
                    "date_expiration" => item(6),
                    "keyid" => python::str(&item(4)),
                    "validity" => item(1),
                };
                match keys.last_mut() {
                    Some(last) if kind.is_str("sub") => last.set("subkey", key),
                    _ => keys.push(key),
                }
            }
            "fpr" => match keys.last_mut() {
                Some(last) => match last.get_mut("subkey") {
                    Some(Value::Map(sub)) => sub.set("fingerprint", item(9)),
                    _ => last.set("fingerprint", item(9)),
                },
                None => continue,
            },
            "uid" => {
                if let Some(last) = keys.last_mut() {
                    last.set("uid", item(9));
                    last.set("uid_hash", item(7));
                }
            }
            _ => {}
        }
    }
    let mut map = Map::new();
    for key in keys {
        map.set(key.str("keyid").unwrap_or_default().to_owned(), key.clone());
    }
    map
}

fn key_listing(call: &mut Call<'_>, path: &Path) -> Result<String> {
    let path = path.to_string_lossy();
    let argv = [
        "gpg",
        "--no-default-keyring",
        "--keyring",
        &path,
        "--list-keys",
        "--with-colons",
    ];
    Ok(command_helpers::run_all(call, argv)?.stdout)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries.flatten().map(|e| e.path()).collect()
}

pub fn get_repo_keys(call: &mut Call<'_>) -> Result {
    let aptkey = call.flag("aptkey") && which("apt-key").is_some();
    let dir = directory(call.arg("keydir"));
    Ok(list_keys(call, aptkey, &dir)?.map_or(false.into(), Value::Map))
}

/// The known keys; `None` without a directory of keys.
fn list_keys(call: &mut Call<'_>, aptkey: bool, dir: &Path) -> Result<Option<Map>> {
    if aptkey {
        let argv = [
            "apt-key",
            "adv",
            "--batch",
            "--list-public-keys",
            "--with-fingerprint",
            "--with-fingerprint",
            "--with-colons",
            "--fixed-list-mode",
        ];
        return Ok(Some(parse(&run_quiet(call, argv)?.stdout)));
    }
    if !dir.is_dir() {
        return Ok(None);
    }
    let mut text = Vec::new();
    for file in files(dir) {
        text.push(key_listing(call, &file)?);
    }
    Ok(Some(parse(&text.join(" "))))
}

pub fn add_repo_key(call: &mut Call<'_>) -> Result {
    let aptkey = call.flag("aptkey");
    let dir = directory(call.arg("keydir"));
    let request = KeyRequest {
        path: call.text("path").filter(|v| !v.is_empty()),
        text: call.text("text").filter(|v| !v.is_empty()),
        keyserver: call.text("keyserver").filter(|v| !v.is_empty()),
        keyid: call.text("keyid").filter(|v| !v.is_empty()),
        keyfile: call.text("keyfile").filter(|v| !v.is_empty()),
        saltenv: call.arg("saltenv").clone(),
    };
    Ok(add(call, aptkey, &dir, request)?.into())
}

/// Where a key comes from and where it goes.
#[derive(Default)]
struct KeyRequest {
    path: Option<String>,
    text: Option<String>,
    keyserver: Option<String>,
    keyid: Option<String>,
    keyfile: Option<String>,
    saltenv: Value,
}

fn add(call: &mut Call<'_>, aptkey: bool, dir: &Path, request: KeyRequest) -> Result<bool> {
    if !aptkey && !dir.is_dir() && halite_sys::daemon::make_dir(dir, 0o755).is_err() {
        return Ok(false);
    }
    let aptkey = aptkey && which("apt-key").is_some();
    if let Some(id) = &request.keyid {
        let all = list_keys(call, aptkey, dir)?.unwrap_or_default();
        if all.iter().any(|(k, _)| python::str(k).ends_with(id)) {
            return Ok(true);
        }
    }
    let mut keyring = None;
    let mut helper = super::quiet(["apt-key"]);
    let mut words = |list: &[&str]| helper.argv.extend(list.iter().map(|w| (*w).to_owned()));
    if let Some(path) = &request.path {
        let Some(file) = cached(call, path, request.saltenv)? else {
            return Ok(false);
        };
        if !aptkey {
            return copy_in(call, &file, dir, request.keyfile);
        }
        words(&["add", &file]);
    } else if let Some(text) = request.text {
        words(&["add", "-"]);
        helper.stdin = Some(text.into_bytes());
    } else if let Some(server) = &request.keyserver {
        let Some(id) = &request.keyid else {
            let text = format!("No keyid or keyid too short for keyserver: {server}");
            return Err(CallError::Invocation(text));
        };
        if aptkey {
            words(&["adv", "--batch", "--keyserver", server, "--recv", id]);
        } else {
            let Some(name) = request.keyfile else {
                return Ok(false);
            };
            let path = dir.join(name);
            let ring = path.to_string_lossy().into_owned();
            helper.argv.clear();
            helper.argv.extend(
                [
                    "gpg",
                    "--no-default-keyring",
                    "--keyring",
                    &ring,
                    "--keyserver",
                    server,
                    "--recv-keys",
                    id,
                ]
                .map(str::to_owned),
            );
            keyring = Some(path);
        }
    } else if let Some(id) = &request.keyid {
        return Err(CallError::Invocation(format!(
            "No keyserver specified for keyid: {id}"
        )));
    } else {
        let text = "add_repo_key() takes at least 1 argument (0 given)";
        return Err(CallError::Type(text.to_owned()));
    }
    let ran = super::run(call, helper)?;
    if let Some(path) = keyring.filter(|_| ran.ok()) {
        let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(0o644));
    }
    Ok(ran.ok())
}

/// Copies a key file to the keyrings, dearmored unless its name keeps the armor.
fn copy_in(call: &mut Call<'_>, file: &str, dir: &Path, name: Option<String>) -> Result<bool> {
    let own = Path::new(file)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let name = name.unwrap_or(own);
    let failed = |e: std::io::Error| python::os_error(&e, file);
    let mut content = std::fs::read(file).map_err(failed)?;
    let armoured =
        std::str::from_utf8(&content).is_ok_and(|t| t.trim_matches('-').starts_with("BEGIN PGP"));
    if armoured && !name.ends_with(".asc") {
        if which("gpg").is_none() {
            return Ok(false);
        }
        let plain = format!("{file}.decrypted");
        command_helpers::run_all(
            call,
            ["gpg", "--yes", "--output", &plain, "--dearmor", file],
        )?;
        content = std::fs::read(&plain).map_err(|e| python::os_error(&e, &plain))?;
    }
    let path = dir.join(name);
    let text = path.to_string_lossy().into_owned();
    std::fs::write(&path, content)
        .and_then(|()| std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)))
        .map_err(|e| python::os_error(&e, &text))?;
    Ok(true)
}

pub fn del_repo_key(call: &mut Call<'_>) -> Result {
    let aptkey = call.flag("aptkey");
    let dir = directory(call.arg("keydir"));
    if !aptkey && !dir.is_dir() {
        return Ok(false.into());
    }
    let aptkey = aptkey && which("apt-key").is_some();
    if option(call, "keyid_ppa").truthy() {
        if !call
            .arg("name")
            .as_str()
            .is_some_and(|n| n.starts_with("ppa:"))
        {
            let text = "keyid_ppa requires that a PPA be passed";
            return Err(CallError::Invocation(text.to_owned()));
        }
        let text = "keys of PPAs are not looked up at Launchpad; pass the key id as keyid";
        return Err(CallError::Command(text.to_owned()));
    }
    if !has_keyword(call, "keyid") {
        let text = "keyid or keyid_ppa and PPA name must be passed";
        return Err(CallError::Invocation(text.to_owned()));
    }
    let id = option(call, "keyid");
    let text = python::str(&id);
    if aptkey {
        let ran = run_quiet(call, ["apt-key", "del", &text])?;
        if !ran.ok() {
            let why = if ran.stderr.is_empty() {
                String::new()
            } else {
                format!(": {}", ran.stderr)
            };
            return Err(CallError::Command(format!(
                "Failed to remove keyid {{0}}{why}"
            )));
        }
        return Ok(id);
    }
    if ![8, 16].contains(&text.len()) {
        return Ok(false.into());
    }
    for file in files(&dir) {
        let all = parse(&key_listing(call, &file)?);
        if all.iter().any(|(k, _)| python::str(k).ends_with(&text)) {
            let name = file.to_string_lossy().into_owned();
            std::fs::remove_file(&file).map_err(|e| python::os_error(&e, &name))?;
            return Ok(id);
        }
    }
    Ok(false.into())
}

/// Ensures that the key of `pkg.mod_repo` exists, given by `keyid`, `key_url` or `key_text`.
///
/// # Errors
/// The key is not available.
pub fn for_repo(call: &mut Call<'_>, signedby: &str, aptkey: bool) -> Result<()> {
    let ring = PathBuf::from(signedby);
    let dir = match ring.parent() {
        Some(dir) if !signedby.is_empty() => dir.to_owned(),
        _ => PathBuf::from(DIR),
    };
    if has_keyword(call, "keyid") {
        let (ids, server) = (option(call, "keyid"), option(call, "keyserver"));
        if !ids.truthy() || !server.truthy() {
            let text = "both keyserver and keyid options required.";
            return Err(CallError::raised("NameError", text));
        }
        let ids = match ids {
            Value::Array(list) => list,
            one => vec![one],
        };
        for id in ids {
            let id = match id {
                Value::Int(number) => format!("{number:#x}"),
                other => python::str(&other),
            };
            received(call, &id, &python::str(&server), aptkey, &dir, signedby)?;
        }
    } else if has_keyword(call, "key_url") {
        let url = python::str(&option(call, "key_url"));
        let env = call.arg("saltenv").clone();
        if aptkey {
            let file = cached(call, &url, env)?.unwrap_or_default();
            let ran = run_quiet(call, ["apt-key", "add", &file])?;
            if !ran.stdout.to_uppercase().starts_with("OK") {
                let text = format!("Error: failed to add key from {url}");
                return Err(CallError::Command(text));
            }
        } else {
            let name = ring.file_name().map(|n| n.to_string_lossy().into_owned());
            let request = KeyRequest {
                path: Some(url.clone()),
                keyfile: name,
                saltenv: env,
                ..KeyRequest::default()
            };
            if !add(call, false, &dir, request)? {
                return Err(CallError::Command(format!(
                    "Error: Could not add key: {url}"
                )));
            }
        }
    } else if has_keyword(call, "key_text") {
        let text = python::str(&option(call, "key_text"));
        let mut helper = super::quiet(["apt-key", "add", "-"]);
        helper.stdin = Some(text.clone().into_bytes());
        let ran = super::run(call, helper)?;
        if !ran.stdout.to_uppercase().starts_with("OK") {
            return Err(CallError::Command(format!(
                "Error: failed to add key:\n{text}"
            )));
        }
    }
    Ok(())
}

/// Fetches a key from a server unless known.
fn received(
    call: &mut Call<'_>,
    id: &str,
    server: &str,
    aptkey: bool,
    dir: &Path,
    ring: &str,
) -> Result<()> {
    if !aptkey {
        if list_keys(call, false, dir)?.is_some_and(|all| all.contains(id)) {
            return Ok(());
        }
        let request = KeyRequest {
            keyserver: Some(server.to_owned()),
            keyid: Some(id.to_owned()),
            keyfile: Some(ring.to_owned()),
            ..KeyRequest::default()
        };
        return if add(call, false, dir, request)? {
            Ok(())
        } else {
            Err(CallError::Command(format!(
                "Error: Could not add key: {id}"
            )))
        };
    }
    let exported = run_quiet(call, ["apt-key", "export", id])?.stdout;
    if exported.starts_with("-----BEGIN PGP") {
        return Ok(());
    }
    let argv = [
        "apt-key",
        "adv",
        "--batch",
        "--keyserver",
        server,
        "--logger-fd",
        "1",
        "--recv-keys",
        id,
    ];
    let ran = run_quiet(call, argv)?;
    if ran.ok() {
        Ok(())
    } else {
        Err(CallError::Command(format!(
            "Error: key retrieval failed: {}",
            ran.stdout
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read() {
        let text = "tru::1:1:0:3:1:5\npub:-:4096:1:DC30D7C23CBBABEE:1421000000::::::scSC:\nfpr:::::::::4ACF:\n\
                    uid:-::::1421000000::HASH::Some One <a@b>:\nsub:-:2048:1:ABCD:1421000001:::::e:\nfpr:::::::::5555:\n";
        let all = parse(text);
        let key = all.get("DC30D7C23CBBABEE").and_then(Value::as_map).unwrap();
        assert_eq!(key.str("fingerprint"), Some("4ACF"));
        assert_eq!(key.str("uid"), Some("Some One <a@b>"));
        assert_eq!(key.int("bits"), Some(4096));
        let sub = key.get("subkey").and_then(Value::as_map).unwrap();
        assert_eq!(sub.int("fingerprint"), Some(5555));
    }
}
