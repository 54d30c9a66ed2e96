//! Linked worktrees.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::run::{Git, cwd, first_word, keyword, opts, reject_unknown_kwargs};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

/// Whether the checkout's `.git` is a file, as in a linked worktree.
fn is_linked(call: &mut Call<'_>, cwd: &str) -> Result<bool> {
    let git = Git::plain(call, &["rev-parse", "--show-toplevel"]);
    let top = match git.current_dir(cwd).ignore_retcode().text(call) {
        Ok(top) => top,
        Err(CallError::Command(_)) => return Ok(false),
        Err(fault) => return Err(fault),
    };
    let text = std::fs::read_to_string(Path::new(&top).join(".git")).unwrap_or_default();
    let line = text.lines().next().and_then(first_word);
    Ok(line.is_some_and(|(label, path)| label == "gitdir:" && path.starts_with('/')))
}

pub fn is_worktree(call: &mut Call<'_>) -> Result {
    let cwd = cwd(call).unwrap_or_default();
    Ok(is_linked(call, &cwd)?.into())
}

/// One entry of `git worktree list --porcelain`; `None` unless complete.
fn entry(text: &str) -> Option<[&str; 3]> {
    let mut parts = [""; 3];
    for line in text.lines() {
        let (kind, value) = match first_word(line.trim()) {
            Some(pair) => pair,
            None if line == "detached" => ("branch", line),
            None => continue,
        };
        let at = ["worktree", "HEAD", "branch"]
            .iter()
            .position(|k| *k == kind);
        if let Some(slot) = at.and_then(|at| parts.get_mut(at))
            && slot.is_empty()
        {
            *slot = value;
        }
    }
    parts.iter().all(|p| !p.is_empty()).then_some(parts)
}

pub fn list(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["all"])?;
    let (all, only_stale) = (keyword(call, "all").truthy(), call.flag("stale"));
    if all && only_stale {
        return Err(CallError::Command(
            "'all' and 'stale' cannot both be set to True".into(),
        ));
    }
    let text = Git::plain(call, &["worktree", "list", "--porcelain"]).text(call)?;
    let mut found = Map::new();
    for [path, head, branch] in text.trim().split("\n\n").filter_map(entry) {
        let stale = !Path::new(path).is_dir();
        if !all && stale != only_stale {
            continue;
        }
        let detached = branch == "detached";
        let mut about = map! {"stale" => stale, "HEAD" => head, "detached" => detached};
        if detached {
            about.set("branch", Value::Nil);
            let tags = Git::plain(call, &["tag", "--points-at", head]).text(call)?;
            let tags: Vec<Value> = tags.lines().map(Value::from).collect();
            if !tags.is_empty() {
                about.set("tags", tags);
            }
        } else {
            about.set("branch", branch.replacen("refs/heads/", "", 1))
        }
        found.set(path, about);
    }
    Ok(found.into())
}

pub fn add(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["branch"])?;
    let path = python::str(call.arg("worktree_path"));
    let branch = Some(keyword(call, "branch"))
        .filter(|b| b.truthy())
        .map(python::str);
    let detach = call.flag("detach");
    if branch.is_some() && detach {
        return Err(CallError::Invocation(
            "Only one of 'branch' and 'detach' is allowed".into(),
        ));
    }
    let mut git = Git::new(call, &["worktree", "add"])?;
    if detach {
        git = git.arg("--detach");
    } else {
        let last = path.rsplit('/').next().unwrap_or_default();
        git = git
            .arg(if call.flag("reset_branch") {
                "-B"
            } else {
                "-b"
            })
            .arg(branch.unwrap_or_else(|| last.to_owned()))
            .flag(call.flag("force"), "--force");
    }
    let reference = Some(call.arg("ref"))
        .filter(|r| r.truthy())
        .map(python::str);
    git.args(opts(call)?)
        .arg(path)
        .args(reference)
        .merge_stderr()
        .value(call)
}

pub fn prune(call: &mut Call<'_>) -> Result {
    let expire = Some(call.arg("expire"))
        .filter(|e| e.truthy())
        .map(python::str);
    let mut git = Git::new(call, &["worktree", "prune"])?
        .flag(call.flag("dry_run"), "--dry-run")
        .flag(call.flag("verbose"), "--verbose");
    if let Some(expire) = expire {
        git = git.arg("--expire").arg(expire);
    }
    let done = git.args(opts(call)?).run(call)?;
    let version = super::query::number(call)?;
    let mut parts = version.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    // Since 2.35.1 it prints to standard error.
    Ok(if (next(), next(), next()) > (2, 35, 0) {
        done.stderr.into()
    } else {
        done.stdout.into()
    })
}

pub fn rm(call: &mut Call<'_>) -> Result {
    let cwd = cwd(call).unwrap_or_default();
    if !Path::new(&cwd).exists() {
        return Err(CallError::Command(format!("{cwd} does not exist")));
    }
    if !is_linked(call, &cwd)? {
        return Err(CallError::Command(format!("{cwd} is not a git worktree")));
    }
    std::fs::remove_dir_all(&cwd)
        .map_err(|e| CallError::Command(format!("Unable to remove {cwd}: {e}")))?;
    Ok(true.into())
}
