//! Functions on remote repositories.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::run::{Git, cwd, first_word, keyword, list, opts, redacted, reject_unknown_kwargs};
use halite_wire::map;
use halite_wire::{Map, Value};
use regex::Regex;

/// Adds user and password to a URL (`salt/utils/url.py add_http_basic_auth`).
fn with_auth(url: &str, user: Option<String>, password: Option<String>) -> Result<String> {
    if user.is_none() && password.is_none() {
        return Ok(url.to_owned());
    }
    let rest = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => rest,
        _ => {
            return Err(CallError::Invocation(
                "Basic Auth only supported for HTTPS".into(),
            ));
        }
    };
    let Some(user) = user else {
        return Err(CallError::Type("quote_from_bytes() expected bytes".into()));
    };
    let password = password.map(|p| format!(":{}", quoted(&p)));
    Ok(format!(
        "https://{}{}@{rest}",
        quoted(&user),
        password.unwrap_or_default()
    ))
}

fn quoted(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-~".contains(&b);
    let letters = text.bytes().map(|b| {
        if plain(b) {
            char::from(b).to_string()
        } else {
            format!("%{b:02X}")
        }
    });
    letters.collect()
}

fn address(call: &Call<'_>, name: &str) -> Result<String> {
    let url = python::str(call.arg(name));
    with_auth(&url, call.text("https_user"), call.text("https_pass"))
}

pub fn clone(call: &mut Call<'_>) -> Result {
    let cwd = cwd(call).unwrap_or_default();
    if !call.flag("url") {
        return Err(CallError::Invocation("Missing 'url' argument".into()));
    }
    let url = address(call, "url")?;
    let mut git = Git::new(call, &["clone"])?
        .args(opts(call)?)
        .arg("--")
        .arg(url);
    git = match call.text("name") {
        Some(name) => {
            std::fs::create_dir_all(&cwd).map_err(|e| python::os_error(&e, &cwd))?;
            git.arg(name).current_dir(cwd)
        }
        None => git.arg(cwd).current_dir("/tmp"),
    };
    git.done(call)
}

pub fn fetch(call: &mut Call<'_>) -> Result {
    let opts = opts(call)?
        .into_iter()
        .filter(|o| o != "-f" && o != "--force");
    let remote = Some(call.arg("remote"))
        .filter(|r| r.truthy())
        .map(python::str);
    let refspecs = match call.arg("refspecs") {
        Value::Nil => Vec::new(),
        refspecs => list(refspecs),
    };
    let output = Git::new(call, &["fetch"])?
        .flag(call.flag("force"), "--force")
        .args(opts)
        .args(remote)
        .args(refspecs)
        .merge_stderr()
        .text(call)?;
    Ok(fetched(&output).into())
}

/// The lines of `git fetch` that report changes.
fn fetched(output: &str) -> Map {
    const LINE: &str =
        r"^[\s*]*(?:([0-9a-f]+)\.\.([0-9a-f]+)|\[(?:new (tag|branch)|tag update)\])\s+(.+)->";
    let Ok(line) = Regex::new(LINE) else {
        return Map::new();
    };
    let mut found = Map::new();
    for parts in output.split('\n').filter_map(|l| line.captures(l)) {
        let part = |n: usize| parts.get(n).map(|m| m.as_str());
        let name = part(4).unwrap_or_default().trim_end();
        match (part(1), part(2), part(3)) {
            (_, _, Some("tag")) => push(&mut found, "new tags", name),
            (_, _, Some(_)) => push(&mut found, "new branches", name),
            (Some(old), Some(new), _) => {
                if !found.contains("updated branches") {
                    found.set("updated branches", Map::new());
                }
                if let Some(Value::Map(updated)) = found.get_mut("updated branches") {
                    updated.set(name, map! {"old" => old, "new" => new});
                }
            }
            _ => push(&mut found, "updated tags", name),
        }
    }
    found
}

fn push(found: &mut Map, key: &str, name: &str) {
    match found.get_mut(key) {
        Some(Value::Array(names)) => names.push(name.into()),
        _ => found.set(key, vec![Value::from(name)]),
    }
}

/// References by name, with their commits.
fn references(output: &str) -> Map {
    let mut found = Map::new();
    for (commit, name) in output.lines().filter_map(first_word) {
        found.set(name, commit);
    }
    found
}

pub fn ls_remote(call: &mut Call<'_>) -> Result {
    let remote = address(call, "remote")?;
    let reference = Some(call.arg("ref"))
        .filter(|r| r.truthy())
        .map(python::str);
    let output = Git::new(call, &["ls-remote"])?
        .args(opts(call)?)
        .arg(remote)
        .args(reference)
        .text(call)?;
    Ok(references(&output).into())
}

pub fn remote_refs(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["filter"])?;
    let filter = Some(keyword(call, "filter"))
        .filter(|f| f.truthy())
        .map(python::str);
    let output = Git::plain(call, &["ls-remote"])
        .flag(call.flag("heads"), "--heads")
        .flag(call.flag("tags"), "--tags")
        .arg(address(call, "url")?)
        .args(filter)
        .text(call)?;
    Ok(references(&output).into())
}

pub fn pull(call: &mut Call<'_>) -> Result {
    Git::new(call, &["pull"])?.args(opts(call)?).value(call)
}

pub fn push_ref(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &[])?;
    let mut git = Git::new(call, &["push"])?.args(opts(call)?);
    for name in ["remote", "ref"] {
        let Some(word) = call.text(name) else {
            // Both may be missing in stock too, which then fails.
            let at = git.len();
            return Err(CallError::Type(format!(
                "sequence item {at}: expected str instance, NoneType found"
            )));
        };
        git = git.arg(word);
    }
    git.value(call)
}

pub fn submodule(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["init"])?;
    if keyword(call, "init").truthy() {
        return Err(CallError::Invocation(
            "The 'init' argument is no longer supported. Either set 'command' to 'init', or include \
             '--init' in the 'opts' argument and set 'command' to 'update'."
                .into(),
        ));
    }
    Git::new(call, &["submodule"])?
        .arg(python::str(call.arg("command")))
        .args(opts(call)?)
        .value(call)
}

fn list_remotes(call: &mut Call<'_>, redact: bool) -> Result<Map> {
    let output = Git::plain(call, &["remote", "--verbose"]).text(call)?;
    let mut found = Map::new();
    for (remote, info) in output.lines().filter_map(first_word) {
        let Some((url, action)) = info.trim_end().rsplit_once(char::is_whitespace) else {
            continue;
        };
        let action = action
            .trim_start_matches('(')
            .trim_end_matches(')')
            .to_lowercase();
        if action != "fetch" && action != "push" {
            log::warn!("Unknown action '{action}' for remote '{remote}'");
            continue;
        }
        let url = if redact {
            redacted(url.trim_end())
        } else {
            url.trim_end().to_owned()
        };
        if !found.contains(remote) {
            found.set(remote, Map::new());
        }
        if let Some(Value::Map(urls)) = found.get_mut(remote) {
            urls.set(action, url);
        }
    }
    Ok(found)
}

pub fn remotes(call: &mut Call<'_>) -> Result {
    let redact = call.flag("redact_auth");
    Ok(list_remotes(call, redact)?.into())
}

fn remote_by_name(call: &mut Call<'_>, redact: bool) -> Result {
    let remote = python::str(call.arg("remote"));
    list_remotes(call, redact)?.remove(&remote).ok_or_else(|| {
        CallError::Command(format!(
            "Remote '{remote}' not present in git checkout located at {}",
            cwd(call).unwrap_or_default()
        ))
    })
}

pub fn remote_get(call: &mut Call<'_>) -> Result {
    let redact = call.flag("redact_auth");
    remote_by_name(call, redact)
}

pub fn remote_set(call: &mut Call<'_>) -> Result {
    let remote = python::str(call.arg("remote"));
    // Stock does not expand the directory for commands that change something.
    let cwd = call.arg("cwd").clone();
    if list_remotes(call, true)?.contains(&remote) {
        Git::plain(call, &["remote", "rm", &remote])
            .current_dir(cwd.clone())
            .run(call)?;
    }
    let url = address(call, "url")?;
    Git::plain(call, &["remote", "add", &remote, &url])
        .current_dir(cwd.clone())
        .run(call)?;
    if call.flag("push_url") {
        let url = python::str(call.arg("push_url"));
        let url = with_auth(
            &url,
            call.text("push_https_user"),
            call.text("push_https_pass"),
        )?;
        let words = ["remote", "set-url", "--push", &remote, &url];
        Git::plain(call, &words).current_dir(cwd).run(call)?;
    }
    remote_by_name(call, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::pytext::repr_map;

    #[test]
    fn addresses_with_secrets() {
        let (user, password) = (Some("a@b".to_owned()), Some("p/ ä".to_owned()));
        let url = with_auth("https://h/x", user.clone(), password).unwrap();
        assert_eq!(url, "https://a%40b:p%2F%20%C3%A4@h/x");
        assert!(with_auth("http://h/x", user, None).is_err());
    }

    #[test]
    fn lines_of_fetch() {
        let output = "From /x\n   1a..2b  main       -> origin/main\n * [new branch]      b -> origin/b\n \
                      * [new tag]         v1 -> v1\n t [tag update]      v0 -> v0\n";
        assert_eq!(
            repr_map(&fetched(output)),
            "{'updated branches': {'main': {'old': '1a', 'new': '2b'}}, 'new branches': ['b'], \
             'new tags': ['v1']}"
        );
    }
}
