//! `git.present`, `git.cloned` and `git.detached`.

use super::{
    emptied, git, is_bare, is_checkout, is_empty, output, remote, revision, sentences, text,
};
use crate::declare::{Result, State, StateOutcome, old_new};
use halite_modules::execution::file::paths;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};
use std::path::Path;

pub(super) fn present(s: &mut State<'_, '_>) -> Result {
    let (name, bare) = (s.name(), s.flag("bare"));
    let there = if bare {
        is_bare(&name)
    } else {
        is_checkout(&name)
    };
    if Path::new(&name).is_dir() && there {
        return Ok(StateOutcome::good(""));
    }
    let mut changes = map! {"new" => name.as_str()};
    let what = if bare { "bare " } else { "" };
    if Path::new(&name).is_dir() && !is_empty(&name) {
        if !s.flag("force") {
            return Ok(StateOutcome::bad(format!(
                "Target '{name}' exists, is non-empty, and is not a git repository. Set the 'force' option to True to \
                 remove this directory's contents and proceed with initializing a repository"
            )));
        }
        changes.set("forced init", true);
        if s.test {
            return Ok(StateOutcome::would(format!(
                "Target directory {name} exists. Since force=True, the contents of {name} would be deleted, and a \
                 {what}repository would be initialized in its place."
            ))
            .changes(changes));
        }
        emptied(&name)?;
    } else if s.test {
        let text = format!("New {what}repository would be created");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let mut kwargs = s.pick(&["bare", "template", "separate_git_dir", "shared"]);
    kwargs.0.retain(|(_, v)| !v.is_nil());
    git(s, "init", vec![name.as_str().into()], kwargs)?;
    let mut lines = vec![format!("Initialized {what}repository in {name}")];
    for (arg, what) in [
        ("template", "Template directory"),
        ("separate_git_dir", "Gitdir"),
    ] {
        if let Some(value) = s.text(arg) {
            lines.push(format!("{what} set to {value}"));
        }
    }
    Ok(StateOutcome::good(sentences(&lines)).changes(changes))
}

pub(super) fn cloned(s: &mut State<'_, '_>) -> Result {
    let (name, branch) = (s.name(), s.text("branch"));
    let target = s.text("target").unwrap_or_default();
    if !paths::is_abs(&target) {
        return Ok(StateOutcome::bad("'target' path must be absolute"));
    }
    if Path::new(&target).exists() {
        if let Err(fault) = git(s, "status", vec![target.as_str().into()], Map::new()) {
            return Ok(StateOutcome::bad(text(fault)?));
        }
        let now = git(
            s,
            "current_branch",
            vec![target.as_str().into()],
            Map::new(),
        )?;
        let now = python::str(&now);
        let Some(branch) = branch else {
            return Ok(StateOutcome::good(format!(
                "Repository already exists at {target}"
            )));
        };
        if now == branch {
            return Ok(StateOutcome::good(format!(
                "Repository already exists at {target} and is checked out to branch '{branch}'"
            )));
        }
        let changes = map! {"branch" => old_new(now, branch.as_str())};
        if s.test {
            let text = format!("Branch would be changed to '{branch}'");
            return Ok(StateOutcome::would(text).changes(changes));
        }
        let known = revision(s, &target, &branch)?.is_some();
        let mut kwargs = Map::new();
        let rev = if known {
            Value::from(branch.as_str())
        } else {
            kwargs.set("opts", vec![Value::from("-b"), branch.as_str().into()]);
            format!("origin/{branch}").into()
        };
        return match git(s, "checkout", vec![target.into(), rev], kwargs) {
            Ok(_) => {
                let text = format!("Branch changed to '{branch}'");
                Ok(StateOutcome::good(text).changes(changes))
            }
            Err(fault) => Ok(StateOutcome::bad(format!(
                "Failed to change branch to '{branch}': {}",
                text(fault)?
            ))),
        };
    }
    let changes = map! {"new" => format!("{name} => {target}")};
    let with = branch
        .as_ref()
        .map_or(String::new(), |b| format!(" with branch '{b}'"));
    if s.test {
        let text = format!("{name} would be cloned to {target}{with}");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let mut kwargs = Map::new();
    if let Some(branch) = branch {
        kwargs.set("opts", vec![Value::from("--branch"), branch.into()]);
    }
    match remote(
        s,
        "clone",
        vec![target.as_str().into(), name.as_str().into()],
        kwargs,
    ) {
        Ok(_) => {
            let text = format!("{name} cloned to {target}{with}");
            Ok(StateOutcome::good(text).changes(changes))
        }
        Err(fault) => Ok(StateOutcome::bad(format!(
            "Clone failed: {}",
            output(fault)?
        ))),
    }
}

pub(super) fn detached(s: &mut State<'_, '_>) -> Result {
    if let Some(outcome) = super::unknown(s) {
        return Ok(outcome);
    }
    let (name, target) = (s.name(), s.text("target").unwrap_or_default());
    let (rev, origin) = (
        s.text("rev").unwrap_or_default(),
        s.text("remote").unwrap_or_default(),
    );
    if !paths::is_abs(&target) {
        return Ok(StateOutcome::bad(format!(
            "Target '{target}' is not an absolute path"
        )));
    }
    let mut lines = Vec::new();
    let mut changes = Map::new();
    let mut before = None;
    let dir = Value::from(target.as_str());
    if is_checkout(&target) {
        before = revision(s, &target, "HEAD")?;
        let tracked = format!("{origin}/{rev}");
        let wanted = [revision(s, &target, &rev)?, revision(s, &target, &tracked)?];
        if before.is_some() && wanted.contains(&before) {
            return Ok(StateOutcome::good(
                "Already checked out at correct revision",
            ));
        }
        let remotes = git(s, "remotes", vec![dir.clone()], Map::new())?;
        let url = remotes
            .as_map()
            .and_then(|m| m.get(&origin))
            .and_then(Value::as_map);
        let url = url.and_then(|m| m.str("fetch")).map(str::to_owned);
        if url.as_deref() != Some(name.as_str()) {
            if s.test {
                return Ok(StateOutcome::would(format!(
                    "Remote {origin} would be set to {name}"
                )));
            }
            let args = vec![dir.clone(), name.as_str().into()];
            super::set_remote(s, args, &origin)?;
            let old = url.unwrap_or_else(|| "None".to_owned());
            lines.push(format!("Remote {origin} updated from '{old}' to '{name}'"));
        }
        if s.flag("fetch_remote") {
            if s.test {
                return Ok(StateOutcome::would(format!(
                    "Repository remote {origin} would be fetched"
                )));
            }
            let kwargs = map! {"remote" => origin.as_str(), "force" => true};
            match remote(s, "fetch", vec![dir.clone()], kwargs) {
                Ok(done) if done.truthy() => lines.push(format!(
                    "Remote {origin} was fetched, resulting in updated refs"
                )),
                Ok(_) => {}
                Err(fault) => {
                    return Ok(StateOutcome::bad(format!("Fetch failed: {}", text(fault)?)));
                }
            }
        }
    } else {
        if Path::new(&target).is_dir() && !is_empty(&target) {
            if !s.flag("force_clone") {
                return Ok(StateOutcome::bad(format!(
                    "Target '{target}' exists, is non-empty and is not a git repository. Set the 'force_clone' option to \
                     True to remove this directory's contents and proceed with cloning the remote repository"
                )));
            }
            if s.test {
                return Ok(StateOutcome::would(format!(
                    "Target directory {target} exists. Since force_clone=True, the contents of {target} would be \
                     deleted, and {name} would be cloned into this directory."
                )));
            }
            emptied(&target)?;
            changes.set("forced clone", true);
        }
        if s.test {
            return Ok(StateOutcome::would(format!(
                "Repository {name} would be cloned to {target}"
            )));
        }
        let opts = vec![
            Value::from("--no-checkout"),
            "-o".into(),
            origin.as_str().into(),
        ];
        let args = vec![dir.clone(), name.as_str().into()];
        if let Err(fault) = remote(s, "clone", args, map! {"opts" => opts}) {
            return Ok(StateOutcome::bad(format!(
                "Clone failed: {}",
                output(fault)?
            )));
        }
        lines.push(format!("{name} cloned to {target}"));
    }
    let mut wanted = revision(s, &target, &rev)?;
    if wanted.is_none() || before.is_none() {
        // A branch is that of the remote.
        let tracked = revision(s, &target, &format!("{origin}/{rev}"))?;
        wanted = tracked.or(wanted);
    }
    let Some(wanted) = wanted else {
        return Ok(StateOutcome::bad(format!(
            "Revision '{rev}' does not exist"
        )));
    };
    if before.as_deref() != Some(wanted.as_str()) {
        if s.flag("hard_reset") {
            let kwargs = map! {"opts" => vec![Value::from("--hard"), "HEAD".into()]};
            git(s, "reset", vec![dir.clone()], kwargs)?;
            lines.push("Repository was reset to HEAD before checking out revision".to_owned());
        }
        let kwargs = map! {"force" => s.flag("force_checkout")};
        let args = vec![dir.clone(), wanted.as_str().into()];
        git(s, "checkout", args, kwargs)?;
        lines.push(format!("Commit ID {wanted} was checked out at {target}"));
    }
    if s.flag("submodules") {
        let kwargs = map! {"opts" => vec![Value::from("--init"), "--recursive".into()]};
        let args = vec![dir, "update".into()];
        if let Err(fault) = remote(s, "submodule", args, kwargs) {
            return Ok(StateOutcome::bad(format!(
                "Failed to update submodules: {}",
                text(fault)?
            )));
        }
    }
    let old = before.map_or(Value::Nil, Value::from);
    changes.set("HEAD", map! {"old" => old, "new" => wanted});
    Ok(StateOutcome::good(sentences(&lines)).changes(changes))
}
