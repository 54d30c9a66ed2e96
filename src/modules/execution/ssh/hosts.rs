//! Host keys: `known_hosts`.

use super::keys::fingerprint;
use super::{as_user, chown, error, user};
use crate::execution::cmd::{IdentityGuard, which};
use crate::execution::declare::{Function, Lit, Result, opt, req};
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub const GET: Function = Function::new("get_known_host_entries", get, "The known keys of a host.")
    .args(&[
        req("user"),
        req("hostname"),
        opt("config", Lit::Nil),
        opt("port", Lit::Nil),
        opt("fingerprint_hash_type", Lit::Nil),
    ]);

pub const RECEIVE: Function = Function::new(
    "recv_known_host_entries",
    receive,
    "Fetches the keys of a host.",
)
.args(&[
    req("hostname"),
    opt("enc", Lit::Nil),
    opt("port", Lit::Nil),
    opt("hash_known_hosts", Lit::Bool(true)),
    opt("timeout", Lit::Int(5)),
    opt("fingerprint_hash_type", Lit::Nil),
])
.names(&["hostname"]);

pub const HASH: Function = Function::new(
    "hash_known_hosts",
    hash_known_hosts,
    "Hashes the host names in a known_hosts file.",
)
.args(&[opt("user", Lit::Nil), opt("config", Lit::Nil)]);

const DEFAULT_PORT: i64 = 22;

/// The file, or the result that explains why there is none.
enum KnownHostsFile {
    Path(String),
    Answer(Value),
}

fn file(config: &Value, name: &Value) -> Result<KnownHostsFile> {
    let usual = if name.truthy() {
        ".ssh/known_hosts"
    } else {
        "/etc/ssh/ssh_known_hosts"
    };
    let config = if config.truthy() {
        python::str(config)
    } else {
        usual.to_owned()
    };
    if config.starts_with('/') {
        return Ok(KnownHostsFile::Path(config));
    }
    if !name.truthy() {
        return Ok(KnownHostsFile::Answer(error(
            "Cannot determine absolute path to file.",
        )?));
    }
    let name = python::str(name);
    match user(&name)? {
        Some(info) => {
            let home = info.str("home").unwrap_or_default().trim_end_matches('/');
            Ok(KnownHostsFile::Path(format!("{home}/{config}")))
        }
        None => Ok(KnownHostsFile::Answer(error(format!(
            "User {name} does not exist"
        ))?)),
    }
}

fn required(program: &str) -> Result<()> {
    match which(program) {
        Some(_) => Ok(()),
        None => Err(CallError::CommandNotFound(format!(
            "The '{program}' binary was not found in $PATH."
        ))),
    }
}

/// A host's name with a non-default port, as `ssh` writes it.
fn ssh_name(host: &Value, port: &Value) -> String {
    let host = python::str(host);
    if !port.truthy() || *port == Value::Int(DEFAULT_PORT) {
        host
    } else {
        format!("[{host}]:{}", python::str(port))
    }
}

/// Lines of name, type and key.
fn entries(text: &str, hash: &Value) -> Result<Vec<Map>> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [host, enc, key] = words.as_slice() else {
            continue;
        };
        if let Some(print) = fingerprint(key, hash)?.filter(|p| !p.is_empty()) {
            all.push(
                map! {"hostname" => *host, "key" => *key, "enc" => *enc, "fingerprint" => print},
            );
        }
    }
    Ok(all)
}

fn list(entries: &[Map]) -> Value {
    if entries.is_empty() {
        Value::Nil
    } else {
        Value::Array(entries.iter().cloned().map(Value::Map).collect())
    }
}

fn lookup(call: &mut Call<'_>, path: &str, host: &Value, port: &Value) -> Result<String> {
    command_helpers::run_tolerant(
        call,
        ["ssh-keygen", "-F", &ssh_name(host, port), "-f", path],
    )
}

fn get(call: &mut Call<'_>) -> Result {
    required("ssh-keygen")?;
    match file(call.arg("config"), call.arg("user"))? {
        KnownHostsFile::Answer(answer) => Ok(answer),
        KnownHostsFile::Path(path) => Ok(list(&matching_entries(call, &path)?)),
    }
}

/// The entries for the call's host and port.
fn matching_entries(call: &mut Call<'_>, path: &str) -> Result<Vec<Map>> {
    let (host, port) = (call.arg("hostname").clone(), call.arg("port").clone());
    let text = lookup(call, path, &host, &port)?;
    entries(&text, call.arg("fingerprint_hash_type"))
}

fn receive(call: &mut Call<'_>) -> Result {
    required("ssh-keyscan")?;
    Ok(list(&received(call)?))
}

fn received(call: &mut Call<'_>) -> Result<Vec<Map>> {
    let mut argv = command_helpers::Argv::new("ssh-keyscan");
    for (arg, option) in [("port", "-p"), ("enc", "-t")] {
        if call.flag(arg) {
            argv.add([option]).value(call.arg(arg));
        }
    }
    if call.flag("hash_known_hosts") {
        argv.add(["-H"]);
    }
    argv.add(["-T"])
        .value(call.arg("timeout"))
        .value(call.arg("hostname"));
    let mut text = String::new();
    for _ in 0..5 {
        text = command_helpers::run(call, argv.clone())?;
        if !text.is_empty() {
            break;
        }
    }
    entries(&text, call.arg("fingerprint_hash_type"))
}

fn parts(entries: &[Map], key: &str) -> Vec<Value> {
    entries.iter().filter_map(|e| e.get(key).cloned()).collect()
}

pub fn check_known_host(call: &mut Call<'_>) -> Result {
    if !call.flag("hostname") {
        return error("hostname argument required");
    }
    required("ssh-keygen")?;
    let path = match file(call.arg("config"), call.arg("user"))? {
        KnownHostsFile::Answer(answer) => return Ok(answer),
        KnownHostsFile::Path(path) => path,
    };
    let known = matching_entries(call, &path)?;
    if known.is_empty() {
        return Ok("add".into());
    }
    for arg in ["key", "fingerprint"] {
        if call.flag(arg) {
            let same = parts(&known, arg).contains(call.arg(arg));
            return Ok(if same { "exists" } else { "update" }.into());
        }
    }
    Ok("exists".into())
}

fn no_file(path: &str) -> Result {
    error(format!("Known hosts file {path} does not exist"))
}

/// [`as_user`] for the call's user, if there is one.
fn guard(call: &Call<'_>, path: &str) -> Result<Option<IdentityGuard>> {
    let name = call.arg("user");
    let named = name.truthy().then(|| python::str(name));
    named.map(|name| as_user(&name, path)).transpose()
}

fn chown_to(path: &str, name: &Value) -> Result<()> {
    if name.truthy()
        && let Some(info) = user(&python::str(name))?
    {
        chown(path, &info);
    }
    Ok(())
}

pub fn rm_known_host(call: &mut Call<'_>) -> Result {
    if !call.flag("hostname") {
        return error("hostname argument required");
    }
    let path = match file(call.arg("config"), call.arg("user"))? {
        KnownHostsFile::Answer(answer) => return Ok(answer),
        KnownHostsFile::Path(path) => path,
    };
    if !Path::new(&path).is_file() {
        return no_file(&path);
    }
    let _user = guard(call, &path)?;
    let host = ssh_name(call.arg("hostname"), call.arg("port"));
    let comment = command_helpers::run(call, ["ssh-keygen", "-R", &host, "-f", &path])?;
    chown_to(&path, call.arg("user"))?;
    Ok(map! {"status" => "removed", "comment" => comment}.into())
}

fn hash_known_hosts(call: &mut Call<'_>) -> Result {
    required("ssh-keygen")?;
    let name = call.arg("user").clone();
    match file(call.arg("config"), &name)? {
        KnownHostsFile::Answer(answer) => Ok(answer),
        KnownHostsFile::Path(path) => {
            let _user = guard(call, &path)?;
            hash_file(call, &path, &name)
        }
    }
}

fn hash_file(call: &mut Call<'_>, path: &str, name: &Value) -> Result {
    if !Path::new(path).is_file() {
        return no_file(path);
    }
    let mode = std::fs::metadata(path).map(|m| m.permissions());
    let comment = command_helpers::run(call, ["ssh-keygen", "-H", "-f", path])?;
    if let Ok(mode) = mode {
        let _ = std::fs::set_permissions(path, mode);
    }
    chown_to(path, name)?;
    Ok(map! {"status" => "updated", "comment" => comment}.into())
}

pub fn set_known_host(call: &mut Call<'_>) -> Result {
    if !call.flag("hostname") {
        return error("hostname argument required");
    }
    let (port, hide) = (call.arg("port").clone(), call.flag("hash_known_hosts"));
    if !port.is_nil() && port != Value::Int(DEFAULT_PORT) && hide {
        return error(
            "argument port can not be used in conjunction with argument hash_known_hosts",
        );
    }
    required("ssh-keygen")?;
    let path = match file(call.arg("config"), call.arg("user"))? {
        KnownHostsFile::Answer(answer) => return Ok(answer),
        KnownHostsFile::Path(path) => path,
    };
    let _user = guard(call, &path)?;
    let stored = matching_entries(call, &path)?;
    let enc = call.arg("enc").clone();
    let own: Vec<Map> = stored
        .iter()
        .filter(|e| enc.is_nil() || e.get("enc") == Some(&enc))
        .cloned()
        .collect();
    let keys = parts(&own, "key");
    let (key, print) = (call.arg("key").clone(), call.arg("fingerprint").clone());
    let exists = || -> Result { Ok(map! {"status" => "exists", "keys" => keys.clone()}.into()) };
    let mut check = false;
    let same_print = !print.truthy() || parts(&stored, "fingerprint").contains(&print);
    let same_key = !key.truthy() || keys.contains(&key);
    if !stored.is_empty() && same_print && same_key {
        check = key.is_nil() && print.is_nil();
        if !check {
            return exists();
        }
    }
    let mut fresh = Vec::new();
    if !key.truthy() {
        required("ssh-keyscan")?;
        fresh = received(call)?;
        if fresh.is_empty() {
            return error("Unable to receive remote host keys");
        }
        if print.truthy() && !parts(&fresh, "fingerprint").contains(&print) {
            return error(
                "Remote host public keys found but none of their fingerprints match the one you have provided",
            );
        }
        let new = parts(&fresh, "key");
        if check && new.iter().all(|k| keys.contains(k)) && keys.iter().all(|k| new.contains(k)) {
            return exists();
        }
    }
    let mode = std::fs::metadata(&path)
        .ok()
        .filter(|m| m.is_file())
        .map(|m| m.permissions());
    if mode.is_some() {
        remove_host(call, &path, &enc)?;
    }
    if key.truthy() {
        fresh = vec![
            map! {"hostname" => call.arg("hostname").clone(), "enc" => enc, "key" => key.clone()},
        ];
    }
    let lines = lines(&mut fresh, &port, hide);
    append(&path, &lines, call.arg("user"))?;
    chown_to(&path, call.arg("user"))?;
    let mode = mode.unwrap_or_else(|| PermissionsExt::from_mode(0o600));
    let _ = std::fs::set_permissions(&path, mode);
    if key.truthy() && hide {
        let name = call.arg("user").clone();
        hash_file(call, &path, &name)?;
    }
    Ok(map! {"status" => "updated", "old" => list(&stored), "new" => list(&fresh)}.into())
}

/// The lines to add; a non-default port is added to the name if missing.
fn lines(entries: &mut [Map], port: &Value, hide: bool) -> String {
    let mut text = String::new();
    for entry in entries {
        let part = |key| python::str(entry.get(key).unwrap_or(&Value::Nil));
        let (host, enc, key) = (part("hostname"), part("enc"), part("key"));
        if hide || port.is_nil() || *port == Value::Int(DEFAULT_PORT) || host.contains(':') {
            text.push_str(&format!("{host} {enc} {key}\n"));
        } else {
            text.push_str(&format!("[{host}]:{} {enc} {key}\n", python::str(port)));
            entry.set("port", port.clone());
        }
    }
    text
}

/// Removes a host's lines from the file.
fn remove_host(call: &mut Call<'_>, path: &str, enc: &Value) -> Result<()> {
    let (host, port) = (call.arg("hostname").clone(), call.arg("port").clone());
    let text = lookup(call, path, &host, &port)?;
    let found: Vec<&str> = text.lines().collect();
    let mut gone = Vec::new();
    for pair in found.chunks(2) {
        let [head, line] = pair else { continue };
        let number: Option<usize> = head.split_whitespace().last().and_then(|w| w.parse().ok());
        let kind = line.split_whitespace().rev().nth(1);
        if enc.is_nil() || kind.is_some_and(|k| enc.is_str(k)) {
            gone.extend(number);
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    let failed = |e: std::io::Error| {
        let text = python::os_text(&e, path);
        CallError::Command(format!(
            "Couldn't remove old entry(ies) from known hosts file: '{text}'"
        ))
    };
    let old = std::fs::read_to_string(path).map_err(failed)?;
    let lines = old.split_inclusive('\n').enumerate();
    let new: String = lines
        .filter(|(i, _)| !gone.contains(&(i + 1)))
        .map(|(_, l)| l)
        .collect();
    command_helpers::rewrite(Path::new(path), new.as_bytes()).map_err(failed)
}

fn append(path: &str, lines: &str, name: &Value) -> Result<()> {
    let dir = Path::new(path).parent().unwrap_or(Path::new("/"));
    if !dir.exists() && std::fs::create_dir_all(dir).is_ok() && name.truthy() {
        chown_to(&dir.to_string_lossy(), name)?;
        let _ = std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700));
    }
    let written = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(lines.as_bytes()));
    written.map_err(|e| {
        let text = python::os_text(&e, path);
        CallError::Command(format!("Couldn't append to known hosts file: '{text}'"))
    })
}
