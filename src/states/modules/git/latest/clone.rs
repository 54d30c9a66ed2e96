//! `git.latest` where there is no repository yet.

use super::*;

pub(super) fn clone(s: &mut State<'_, '_>, goal: &Goal) -> Result {
    let (url, target) = (&goal.url, &goal.target);
    let path = Path::new(target);
    if path.is_file() {
        return Ok(StateOutcome::bad(format!(
            "Target '{target}' exists and is a regular file, cannot proceed"
        )));
    }
    let mut changes = Map::new();
    if path.is_dir() && !is_empty(target) {
        if !s.flag("force_clone") {
            return Ok(StateOutcome::bad(format!(
                "Target '{target}' exists, is non-empty and is not a git repository. Set the 'force_clone' option to True \
                 to remove this directory's contents and proceed with cloning the remote repository"
            )));
        }
        changes.set("forced clone", true);
    }
    changes.set("new", format!("{url} => {target}"));
    if s.test {
        let text = if changes.contains("forced clone") {
            format!(
                "Target directory {target} exists. Since force_clone=True, the contents of {target} would be deleted, and \
                 {url} would be cloned into this directory."
            )
        } else {
            format!("Repository {url} would be cloned to {target}")
        };
        return Ok(StateOutcome::would(text).changes(changes));
    }
    if changes.contains("forced clone") {
        emptied(target)?;
    }
    let mut opts: Vec<Value> = Vec::new();
    if goal.mirror {
        opts.push("--mirror".into());
    } else if goal.bare {
        opts.push("--bare".into());
    }
    if goal.origin != "origin" {
        opts.extend(["--origin".into(), goal.origin.as_str().into()]);
    }
    if s.flag("depth") {
        let depth = python::str(s.arg("depth"));
        opts.extend([
            "--depth".into(),
            depth.into(),
            "--branch".into(),
            goal.rev.as_str().into(),
        ]);
    }
    let args = vec![goal.dir(), url.as_str().into()];
    if let Err(fault) = remote(s, "clone", args, map! {"opts" => opts}) {
        return Ok(StateOutcome::bad(format!(
            "Clone failed: {}",
            output(fault)?
        )));
    }
    let what = match (goal.mirror, goal.bare) {
        (true, _) => " as mirror",
        (_, true) => " as bare repository",
        _ => "",
    };
    let mut lines = vec![format!("{url} cloned to {target}{what}")];
    if !goal.bare {
        let (dir, commit) = (goal.dir(), goal.commit());
        let now = current(s, goal)?;
        if let Some(branch) = goal.branch.as_ref().filter(|b| **b != now) {
            let kwargs = map! {"opts" => vec![Value::from("-B"), branch.as_str().into()]};
            git(s, "checkout", vec![dir.clone(), commit.into()], kwargs)?;
            lines.push(format!(
                "Branch '{branch}' checked out, with {} as a starting point",
                goal.shown
            ));
        } else if revision(s, target, "HEAD")? != revision(s, target, commit)? {
            hard_reset(s, goal)?;
            lines.push(format!("Repository was reset to {}", goal.shown));
        }
        let branch = current(s, goal)?;
        let upstream = tracked(s, goal, &branch)?;
        if let Some((to, text)) = tracking(goal, upstream.as_deref()) {
            track(s, goal, &branch, to.as_deref())?;
            lines.push(text.replace("{}", "was"));
        }
        if let Some(outcome) = submodules(s, goal)? {
            return Ok(outcome.changes(changes));
        }
    }
    let new = revision(s, target, "HEAD")?;
    if let Some(new) = new {
        changes.set("revision", map! {"old" => Value::Nil, "new" => new});
    }
    Ok(StateOutcome::good(sentences(&lines)).changes(changes))
}
