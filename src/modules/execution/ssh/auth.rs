//! Authorized keys of users.

use super::keys::{fingerprint, kind, users};
use super::{as_user, chown, user};
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, command_helpers, program, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::LazyLock;

/// Options, type, key and comment of a line.
static LINE: LazyLock<Option<regex::Regex>> =
    LazyLock::new(|| regex::Regex::new(r"^(.*?)\s?((?:sk-)?(?:ssh\-|ecds)[\w@.-]+\s.+)$").ok());

/// Position of the key in a line to replace.
static KEY: LazyLock<Option<regex::Regex>> = LazyLock::new(|| {
    regex::Regex::new(
        r"((.*)\s)?((?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+)\s([a-zA-Z0-9+/]+={0,2})(\s(.*))?",
    )
    .ok()
});

/// An `authorized_keys` line. Options given as text are split into letters, as in stock.
fn auth_line(key: &str, enc: &str, comment: &str, options: &Value) -> String {
    let list: Vec<String> = match options {
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Str(text) => text.chars().map(String::from).collect(),
        _ => Vec::new(),
    };
    let head = if list.is_empty() {
        String::new()
    } else {
        format!("{} ", list.join(","))
    };
    format!("{head}{enc} {key} {comment}\n")
}

/// A user's authorized keys file; `%u` and `%h` in its name are the user and home directory.
fn file_of(name: &str, config: &str) -> Result<String> {
    let missing = || CallError::Command(format!("User '{name}' does not exist"));
    let info = user(name)?.ok_or_else(missing)?;
    let home = info.str("home").unwrap_or_default();
    let mut path = String::new();
    let mut letters = config.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            path.push(letter);
            continue;
        }
        match letters.next() {
            Some('%') => path.push('%'),
            Some('u') => path.push_str(name),
            Some('h') => path.push_str(home),
            Some(other) => {
                let text = format!("AuthorizedKeysFile path: unknown token character \"%{other}\"");
                return Err(CallError::Command(text));
            }
            None => {
                let text = "AuthorizedKeysFile path: Last character can't be escape character";
                return Err(CallError::Command(text.to_owned()));
            }
        }
    }
    Ok(if path.starts_with('/') {
        path
    } else {
        format!("{}/{path}", home.trim_end_matches('/'))
    })
}

/// The keys of a file by key: `enc`, `comment`, `options`, `fingerprint`.
fn validated(path: &str, hash: &Value) -> Result<Map> {
    let text = std::fs::read(path)
        .map_err(|_| CallError::Command(format!("Problem reading ssh key file {path}")))?;
    let mut keys = Map::new();
    for line in String::from_utf8_lossy(&text).lines().map(str::trim) {
        let Some((options, words)) = parsed(line) else {
            continue;
        };
        let [enc, key, comment @ ..] = words.as_slice() else {
            continue;
        };
        let Some(fingerprint) = fingerprint(key, hash)? else {
            continue;
        };
        let options: Vec<String> = match options {
            "" => Vec::new(),
            list => list.split(',').map(str::to_owned).collect(),
        };
        keys.set(
            *key,
            map! {
                "enc" => *enc, "comment" => comment.join(" "), "options" => options, "fingerprint" => fingerprint,
            },
        );
    }
    Ok(keys)
}

fn parsed(line: &str) -> Option<(&str, Vec<&str>)> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let found = LINE.as_ref()?.captures(line)?;
    let options = found.get(1).map_or("", |m| m.as_str());
    Some((options, found.get(2)?.as_str().split_whitespace().collect()))
}

fn config(call: &Call<'_>) -> String {
    python::str(call.arg("config"))
}

fn hash(call: &Call<'_>) -> Value {
    call.arg("fingerprint_hash_type").clone()
}

fn keys_of(name: &str, config: &str, hash: &Value) -> Result<Option<Map>> {
    match file_of(name, config) {
        Ok(path) if Path::new(&path).is_file() => validated(&path, hash).map(Some),
        Ok(_) | Err(CallError::Command(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

pub fn auth_keys(call: &mut Call<'_>) -> Result {
    let (config, hash) = (config(call), hash(call));
    let users_arg = call.arg("user").clone();
    let single = users_arg.truthy() && !matches!(users_arg, Value::Array(_));
    let mut all = Map::new();
    for name in users(&users_arg)? {
        if let Some(keys) = keys_of(&name, &config, &hash)? {
            if single {
                return Ok(keys.into());
            }
            all.set(name, keys);
        }
    }
    Ok(all.into())
}

/// A wanted key.
struct KeyRequest {
    user: String,
    key: String,
    enc: Value,
    comment: String,
    options: Value,
    config: String,
    hash: Value,
}

impl KeyRequest {
    fn from_call(call: &Call<'_>) -> KeyRequest {
        KeyRequest {
            user: python::str(call.arg("user")),
            key: python::str(call.arg("key")),
            enc: call.arg("enc").clone(),
            comment: python::str(call.arg("comment")),
            options: call.arg("options").clone(),
            config: config(call),
            hash: hash(call),
        }
    }

    /// A key from a source file.
    fn entry(call: &Call<'_>, key: &str, entry: &Value) -> KeyRequest {
        let part = |name| {
            entry
                .as_map()
                .and_then(|m| m.get(name))
                .cloned()
                .unwrap_or_default()
        };
        KeyRequest {
            user: python::str(call.arg("user")),
            key: key.to_owned(),
            enc: part("enc"),
            comment: python::str(&part("comment")),
            options: part("options"),
            config: config(call),
            hash: hash(call),
        }
    }

    fn state(&self) -> Result<&'static str> {
        let enc = kind(&self.enc)?;
        let keys = keys_of(&self.user, &self.config, &self.hash)?.unwrap_or_default();
        let Some(Value::Map(existing)) = keys.get(&self.key) else {
            return Ok("add");
        };
        let text = |key| python::str(existing.get(key).unwrap_or(&Value::Nil));
        let options = existing.get("options").cloned().unwrap_or_default();
        let is = auth_line(&self.key, &text("enc"), &text("comment"), &options);
        if is == auth_line(&self.key, &enc, &self.comment, &self.options) {
            Ok("exists")
        } else {
            Ok("update")
        }
    }
}

pub fn check_key(call: &mut Call<'_>) -> Result {
    Ok(KeyRequest::from_call(call).state()?.into())
}

/// The keys of a source file; `None` if it is not available.
fn keys_in_source(call: &mut Call<'_>) -> Result<Option<Map>> {
    let args = vec![call.arg("source").clone(), call.arg("saltenv").clone()];
    let file = call.salt("cp.cache_file", args, Map::new())?;
    match file.as_str().filter(|f| !f.is_empty()) {
        Some(file) if Path::new(file).is_file() => validated(file, &hash(call)).map(Some),
        _ => Ok(None),
    }
}

pub fn check_key_file(call: &mut Call<'_>) -> Result {
    let mut ret = Map::new();
    for (key, entry) in keys_in_source(call)?.unwrap_or_default().iter() {
        let key = python::str(key);
        let state = KeyRequest::entry(call, &key, entry).state()?;
        ret.set(key, state);
    }
    Ok(ret.into())
}

fn pulled(call: &mut Call<'_>) -> Result<Map> {
    let failed = || CallError::Command("Failed to pull key file from salt file server".to_owned());
    keys_in_source(call)?.ok_or_else(failed)
}

pub fn set_auth_key(call: &mut Call<'_>) -> Result {
    set(&KeyRequest::from_call(call))
}

pub fn set_auth_key_from_file(call: &mut Call<'_>) -> Result {
    let keys = pulled(call)?;
    if keys.is_empty() {
        return Ok("fail".into());
    }
    let options = call
        .bound
        .kwargs
        .get("options")
        .filter(|v| v.truthy())
        .cloned();
    let mut all = Vec::new();
    for (key, entry) in keys.iter() {
        let mut request = KeyRequest::entry(call, &python::str(key), entry);
        request.options = options.clone().unwrap_or(request.options);
        all.push(python::str(&set(&request)?));
    }
    let found = ["fail", "replace", "new"]
        .into_iter()
        .find(|w| all.iter().any(|a| a.contains(w)));
    Ok(found.unwrap_or("no change").into())
}

fn set(request: &KeyRequest) -> Result {
    if request.key.split_whitespace().count() > 1 {
        return Ok("invalid".into());
    }
    let enc = kind(&request.enc)?;
    let Some(info) = user(&request.user)? else {
        return Ok("fail".into());
    };
    if fingerprint(&request.key, &request.hash)?.is_none() {
        return Ok("Invalid public key".into());
    }
    let line = auth_line(&request.key, &enc, &request.comment, &request.options);
    if line.trim_end_matches('\n').contains(['\n', '\r', '\0']) {
        return Err(CallError::Invocation(
            "A key, its comment and its options may not contain line breaks".into(),
        ));
    }
    match request.state()? {
        "exists" => Ok("no change".into()),
        "update" => replace(request, &line),
        _ => append(request, &info, &line),
    }
}

fn replace(request: &KeyRequest, line: &str) -> Result {
    let path = file_of(&request.user, &request.config)?;
    let _user = as_user(&request.user, &path)?;
    let problem = |e: std::io::Error| {
        let text = python::os_text(&e, &path);
        CallError::Command(format!("Problem reading or writing to key file: {text}"))
    };
    let old = std::fs::read_to_string(&path).map_err(problem)?;
    let mut new = String::new();
    for existing in old.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let key = KEY
            .as_ref()
            .and_then(|r| r.captures(existing))
            .and_then(|c| c.get(4));
        let is_match = !existing.starts_with('#') && key.is_some_and(|k| k.as_str() == request.key);
        if is_match {
            new.push_str(line);
        } else {
            new.push_str(existing);
            new.push('\n');
        }
    }
    command_helpers::rewrite(Path::new(&path), new.as_bytes()).map_err(problem)?;
    Ok("replace".into())
}

fn restore_context(path: &str) {
    if let Some(program) = which("restorecon") {
        let _ = program::run([program.as_str(), path]);
    }
}

fn append(request: &KeyRequest, info: &Map, line: &str) -> Result {
    let path = file_of(&request.user, &request.config)?;
    let _user = as_user(&request.user, &path)?;
    let home = info.str("home").unwrap_or_default();
    if path.starts_with(home) && !Path::new(home).is_dir() {
        return Ok("fail".into());
    }
    let dir = Path::new(&path).parent().unwrap_or(Path::new("/"));
    let name = dir.to_string_lossy().into_owned();
    if !dir.is_dir() {
        std::fs::create_dir_all(dir).map_err(|e| python::os_error(&e, &name))?;
        chown(&name, info);
        let _ = std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700));
        restore_context(&name);
    }
    let fresh = !Path::new(&path).is_file();
    let written = std::fs::OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| {
            let old = std::fs::read(&path)?;
            if old.last().is_some_and(|b| *b != b'\n') {
                file.write_all(b"\n")?;
            }
            file.write_all(line.as_bytes())
        });
    written.map_err(|e| {
        let text = python::os_text(&e, &path);
        CallError::Command(format!("Could not write to key file: {text}"))
    })?;
    if fresh {
        chown(&path, info);
        let _ = std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600));
        restore_context(&path);
    }
    Ok("new".into())
}

pub fn rm_auth_key(call: &mut Call<'_>) -> Result {
    let (user, key) = (python::str(call.arg("user")), python::str(call.arg("key")));
    Ok(remove(&user, &key, &config(call), &hash(call))?.into())
}

pub fn rm_auth_key_from_file(call: &mut Call<'_>) -> Result {
    let keys = pulled(call)?;
    if keys.is_empty() {
        return Ok("fail".into());
    }
    let user = python::str(call.arg("user"));
    let mut all = Vec::new();
    for (key, _) in keys.iter() {
        all.push(remove(
            &user,
            &python::str(key),
            &config(call),
            &hash(call),
        )?);
    }
    let answers = ["Key not removed", "Key removed"];
    let found = answers.into_iter().find(|a| all.contains(a));
    Ok(found.unwrap_or("Key not present").into())
}

fn remove(user: &str, key: &str, config: &str, hash: &Value) -> Result<&'static str> {
    if !keys_of(user, config, hash)?.is_some_and(|keys| keys.contains(key)) {
        return Ok("Key not present");
    }
    let path = file_of(user, config)?;
    let _user = as_user(user, &path)?;
    let Ok(old) = std::fs::read_to_string(&path) else {
        return Ok("Key not removed");
    };
    let mut new = String::new();
    for line in old.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let keep = match parsed(line) {
            Some((_, words)) => words.get(1) != Some(&key),
            None => line.starts_with('#'),
        };
        if keep {
            new.push_str(line);
            new.push('\n');
        }
    }
    match command_helpers::rewrite(Path::new(&path), new.as_bytes()) {
        Ok(()) => Ok("Key removed"),
        Err(_) => Ok("Key not removed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let (options, words) = parsed("from=\"a\",no-pty ssh-rsa AAAA some one").unwrap();
        assert_eq!(options, "from=\"a\",no-pty");
        assert_eq!(words, ["ssh-rsa", "AAAA", "some", "one"]);
        assert_eq!(
            parsed("sk-ssh-ed25519@openssh.com AAAA").unwrap().1.len(),
            2
        );
        assert!(parsed("# ssh-rsa AAAA").is_none());
        let options = Value::Array(vec!["a".into(), "b".into()]);
        assert_eq!(
            auth_line("K", "ssh-rsa", "c", &options),
            "a,b ssh-rsa K c\n"
        );
    }
}
