//! The policy for files.

use super::{grep, groups};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python, shell};
use halite_wire::{Map, Value, map};

const FILE_TYPES: &[(&str, &str)] = &[
    ("a", "all files"),
    ("f", "regular file"),
    ("d", "directory"),
    ("c", "character device"),
    ("b", "block device"),
    ("s", "socket"),
    ("l", "symbolic link"),
    ("p", "named pipe"),
];

fn described(letter: &str) -> Result<&'static str> {
    let found = FILE_TYPES.iter().find(|(known, _)| *known == letter);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<&str> = FILE_TYPES.iter().map(|(letter, _)| *letter).collect();
        CallError::Invocation(format!(
            "Invalid file type code '{letter}'; expected one of: {}",
            known.join(", ")
        ))
    })
}

/// `selinux.filetype_id_to_string`.
pub fn file_type(call: &mut Call<'_>) -> Result {
    Ok(described(&python::str(call.arg("filetype")))?.into())
}

/// `user:role:type:level` as a map.
fn parsed(context: &str) -> Result<Map> {
    let parts: Vec<&str> = context.splitn(4, ':').collect();
    let &[user, role, kind, level] = parts.as_slice() else {
        return Err(invalid(context));
    };
    if parts.iter().any(|part| part.is_empty()) || level.contains(':') {
        return Err(invalid(context));
    }
    Ok(map! {"sel_user" => user, "sel_role" => role, "sel_type" => kind, "sel_level" => level})
}

fn invalid(context: &str) -> CallError {
    CallError::Invocation(format!(
        "Invalid SELinux context string: {context}. Expected \"sel_user:sel_role:sel_type:sel_level\""
    ))
}

fn listed(call: &mut Call<'_>) -> Result<String> {
    let text = shell::stdout(call, &["semanage", "fcontext", "--list"])?;
    // What stock asks through grep.
    call.retcode = 0.into();
    Ok(text)
}

/// `selinux.fcontext_get_policy`.
pub fn get(call: &mut Call<'_>) -> Result {
    let name = regex::escape(&python::str(call.arg("name")));
    let kind = match call.text("filetype").filter(|letter| !letter.is_empty()) {
        Some(letter) => described(&letter)?,
        None => "[[:alpha:] ]+",
    };
    let part = |name| {
        call.text(name)
            .filter(|text| !text.is_empty())
            .unwrap_or("[^:]+".to_owned())
    };
    let context = format!(
        "{}:[^:]+:{}:{}",
        part("sel_user"),
        part("sel_type"),
        part("sel_level")
    );
    let text = listed(call)?;
    let found = grep(&format!("^{name}[ ]+{kind}[ ]+{context}[ |\t]*$"), &text)?;
    if found.is_empty() {
        return Ok(Value::Nil);
    }
    let Some(parts) = groups(&format!("^({name}) +([a-z ]+) (.*)$"), &found)? else {
        let text = "Output from the fcontext command did not match the expected format";
        return Err(CallError::Command(text.to_owned()));
    };
    let part = |at: usize| parts.get(at).map(|p| p.trim()).unwrap_or_default();
    let mut entry = map! {"filespec" => part(1), "filetype" => part(2)};
    entry.0.extend(parsed(part(3))?.0);
    Ok(entry.into())
}

/// `selinux.fcontext_add_policy`.
pub fn add(call: &mut Call<'_>) -> Result {
    let name = format!("{} ", python::str(call.arg("name")));
    let known = listed(call)?.lines().any(|line| line.contains(&name));
    change(call, if known { "--modify" } else { "--add" })
}

/// `selinux.fcontext_delete_policy`.
pub fn delete(call: &mut Call<'_>) -> Result {
    change(call, "--delete")
}

fn change(call: &mut Call<'_>, action: &str) -> Result {
    let mut argv = ["semanage", "fcontext", action].map(str::to_owned).to_vec();
    if let Some(letter) = call.text("filetype").filter(|letter| letter != "a") {
        described(&letter)?;
        argv.extend(["--ftype".to_owned(), letter]);
    }
    for (arg, option) in [
        ("sel_type", "--type"),
        ("sel_user", "--seuser"),
        ("sel_level", "--range"),
    ] {
        if let Some(value) = call.text(arg) {
            argv.extend([option.to_owned(), value]);
        }
    }
    argv.push(python::str(call.arg("name")));
    shell::run_all_map(call, &argv)
}

fn restorecon(call: &Call<'_>, options: &[&str]) -> Vec<String> {
    let mut argv = vec!["restorecon".to_owned()];
    argv.extend(options.iter().map(|o| (*o).to_owned()));
    if call.flag("recursive") {
        argv.push("-R".to_owned());
    }
    argv.push(python::str(call.arg("name")));
    argv
}

/// `selinux.fcontext_policy_is_applied`.
pub fn pending(call: &mut Call<'_>) -> Result<String> {
    let argv = restorecon(call, &["-n", "-v"]);
    Ok(shell::run_all(call, &argv)?.stdout)
}

/// `selinux.fcontext_apply_policy`.
pub fn apply(call: &mut Call<'_>) -> Result {
    let pending = pending(call)?;
    let argv = restorecon(call, &["-v", "-F"]);
    let mut done = shell::run_all_map(call, &argv)?
        .into_map()
        .unwrap_or_default();
    if done.int("retcode") != Some(0) {
        return Ok(done.into());
    }
    let pattern = if pending.starts_with("Would relabel") {
        "Would relabel (.*) from (.*) to (.*)$"
    } else if pending.starts_with("restorecon reset") {
        "restorecon reset (.*) context (.*)->(.*)$"
    } else {
        done.set("retcode", 1);
        done.set("error", "Unrecognized response from restorecon command.");
        return Ok(done.into());
    };
    let mut changes = Map::new();
    for line in pending.lines() {
        let Some(parts) = groups(pattern, line)? else {
            continue;
        };
        let [_, name, old, new] = parts.as_slice() else {
            continue;
        };
        let (old, new) = (parsed(old)?, parsed(new)?);
        let other = |map: &Map, than: &Map| -> Map {
            let differs =
                |(key, value): &&(Value, Value)| than.get(&python::str(key)) != Some(value);
            Map(map.iter().filter(differs).cloned().collect())
        };
        let change = map! {"old" => other(&old, &new), "new" => other(&new, &old)};
        changes.set(name.as_str(), change);
    }
    if !changes.is_empty() {
        done.set("changes", changes);
    }
    Ok(done.into())
}
