//! `git`: repositories and their configuration (`salt/states/git.py`).

mod config;
mod latest;
mod simple;

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

pub(super) const MODULE: StateModule = StateModule {
    name: "git",
    functions: &[
        StateFunction::new(
            "latest",
            latest::latest,
            "Ensures that a checkout is at the newest commit of a revision.",
        )
        .args(args![
            target,
            rev = "HEAD",
            branch = None,
            user = None,
            password = None,
            update_head = True,
            force_checkout = False,
            force_clone = False,
            force_fetch = False,
            force_reset = False,
            submodules = False,
            bare = False,
            mirror = False,
            remote = "origin",
            fetch_tags = True,
            sync_tags = True,
            depth = None,
            identity = None,
            https_user = None,
            https_pass = None,
            refspec_branch = "*",
            refspec_tag = "*",
            output_encoding = None
        ])
        .keywords(),
        StateFunction::new(
            "cloned",
            simple::cloned,
            "Ensures that a repository is cloned, at any commit.",
        )
        .args(args![
            target,
            branch = None,
            user = None,
            password = None,
            identity = None,
            https_user = None,
            https_pass = None,
            output_encoding = None
        ]),
        StateFunction::new(
            "detached",
            simple::detached,
            "Ensures that a commit is checked out without a branch.",
        )
        .args(args![
            rev,
            target,
            remote = "origin",
            user = None,
            password = None,
            force_clone = False,
            force_checkout = False,
            fetch_remote = True,
            hard_reset = False,
            submodules = False,
            identity = None,
            https_user = None,
            https_pass = None,
            output_encoding = None
        ])
        .keywords(),
        StateFunction::new(
            "present",
            simple::present,
            "Ensures that a repository exists.",
        )
        .args(args![
            force = False,
            bare = True,
            template = None,
            separate_git_dir = None,
            shared = None,
            user = None,
            password = None,
            output_encoding = None
        ]),
        StateFunction::new("config_set", config::set, "Ensures a value of a setting.")
            .args(args![
                value = None,
                multivar = None,
                repo = None,
                user = None,
                password = None,
                output_encoding = None
            ])
            .keywords(),
        StateFunction::new(
            "config_unset",
            config::unset,
            "Ensures that settings have no value.",
        )
        .args(args![
            value_regex = None,
            repo = None,
            user = None,
            password = None,
            output_encoding = None
        ])
        .keywords(),
    ],
};

/// Calls a function of `git` as the user of the state, with these keywords.
fn git(s: &mut State<'_, '_>, fun: &str, args: Vec<Value>, mut kwargs: Map) -> Result<Value> {
    for key in ["user", "password", "output_encoding"] {
        if s.arg(key).truthy() {
            kwargs.set(key, s.arg(key).clone());
        }
    }
    s.salt_with(&format!("git.{fun}"), args, kwargs)
}

/// The same for a function that talks to the remote repository.
fn remote(s: &mut State<'_, '_>, fun: &str, args: Vec<Value>, mut kwargs: Map) -> Result<Value> {
    for key in ["identity", "https_user", "https_pass"] {
        if s.arg(key).truthy() {
            kwargs.set(key, s.arg(key).clone());
        }
    }
    let saltenv = s.saltenv();
    kwargs.set("saltenv", saltenv);
    git(s, fun, args, kwargs)
}

/// The text of an error that a state shows.
fn text(fault: CallError) -> Result<String> {
    match fault {
        CallError::Command(text) | CallError::Invocation(text) => Ok(text),
        fault => Err(fault),
    }
}

/// What git said itself, without the command.
fn output(fault: CallError) -> Result<String> {
    let said = text(fault)?;
    Ok(match said.split_once("' failed: ") {
        Some((head, rest)) if head.starts_with("Command '") => rest.to_owned(),
        _ => said,
    })
}

/// Sets the address of a remote repository.
fn set_remote(s: &mut State<'_, '_>, args: Vec<Value>, name: &str) -> Result<()> {
    let mut kwargs = map! {"remote" => name};
    for key in ["https_user", "https_pass"] {
        if s.arg(key).truthy() {
            kwargs.set(key, s.arg(key).clone());
        }
    }
    git(s, "remote_set", args, kwargs)?;
    Ok(())
}

/// The commit of a revision; `None` if there is no such revision.
fn revision(s: &mut State<'_, '_>, target: &str, rev: &str) -> Result<Option<String>> {
    let rev = format!("{rev}^{{commit}}");
    let kwargs = map! {"opts" => vec![Value::from("--verify")], "ignore_retcode" => true};
    match git(s, "rev_parse", vec![target.into(), rev.into()], kwargs) {
        Ok(sha) => Ok(Some(python::str(&sha)).filter(|sha| !sha.is_empty())),
        Err(CallError::Command(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn short(sha: &str) -> &str {
    sha.get(..7).unwrap_or(sha)
}

/// Sentences in one comment; a single one has no stop.
fn sentences(list: &[String]) -> String {
    match list {
        [one] => one.clone(),
        many => many
            .iter()
            .map(|one| format!("{one}."))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

/// Whether a directory is a repository or a worktree of one.
fn is_checkout(target: &str) -> bool {
    Path::new(target).join(".git").exists()
}

/// Whether a directory is a repository without a worktree.
fn is_bare(target: &str) -> bool {
    let dir = Path::new(target);
    dir.join("refs").is_dir() && dir.join("HEAD").is_file() && dir.join("objects").is_dir()
}

/// Whether a directory has no entries.
fn is_empty(target: &str) -> bool {
    std::fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes what is in a directory.
fn emptied(target: &str) -> Result<()> {
    let entries = std::fs::read_dir(target).map_err(|e| python::os_error(&e, target))?;
    for entry in entries.flatten() {
        let path = entry.path().to_string_lossy().into_owned();
        halite_modules::execution::file::remove(&path)?;
    }
    Ok(())
}

/// Rejects keywords that the function does not have; the engine's own ones are gone already.
fn unknown(s: &State<'_, '_>) -> Option<StateOutcome> {
    if s.kwargs.is_empty() {
        return None;
    }
    let list = s.kwargs.iter();
    let list = list.map(|(k, v)| format!("{}={}", python::str(k), python::str(v)));
    let list: Vec<String> = list.collect();
    Some(StateOutcome::bad(format!(
        "The following keyword arguments are not valid: {}",
        list.join(", ")
    )))
}
