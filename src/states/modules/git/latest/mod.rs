//! `git.latest`.

mod clone;
mod told;

use super::{
    emptied, git, is_bare, is_checkout, is_empty, output, remote, revision, sentences, short, text,
    unknown,
};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::file::paths;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;
use told::{hint, not_forward, told, uncommitted};

/// What the checkout shall track.
#[derive(Clone, PartialEq)]
pub(super) enum Upstream {
    /// What it tracks now.
    Any,
    Nothing,
    Branch(String),
}

/// The revision that is wanted.
pub(super) struct Goal {
    pub url: String,
    pub target: String,
    pub rev: String,
    pub origin: String,
    pub branch: Option<String>,
    /// The commit; none for bare repositories.
    pub commit: Option<String>,
    /// How it is shown: `origin/main (0123456)`.
    pub shown: String,
    pub upstream: Upstream,
    pub is_tag: bool,
    pub bare: bool,
    pub mirror: bool,
    /// The tags of the remote repository.
    pub tags: Vec<String>,
}

impl Goal {
    fn dir(&self) -> Value {
        self.target.as_str().into()
    }

    fn commit(&self) -> &str {
        self.commit.as_deref().unwrap_or_default()
    }
}

type Early<T> = std::result::Result<T, StateOutcome>;

fn bad<T>(text: impl Into<String>) -> Result<Early<T>> {
    Ok(Err(StateOutcome::bad(text)))
}

pub(super) fn latest(s: &mut State<'_, '_>) -> Result {
    if let Some(outcome) = unknown(s) {
        return Ok(outcome);
    }
    let goal = match goal(s)? {
        Ok(goal) => goal,
        Err(outcome) => return Ok(outcome),
    };
    let there = if goal.bare {
        is_bare(&goal.target)
    } else {
        is_checkout(&goal.target)
    };
    match (there, goal.bare) {
        (false, _) => clone::clone(s, &goal),
        (true, true) => fetch_bare(s, &goal),
        (true, false) => update(s, &goal),
    }
}

fn goal(s: &mut State<'_, '_>) -> Result<Early<Goal>> {
    let url = s.name();
    let (target, rev, origin) = (
        s.text("target").unwrap_or_default(),
        s.text("rev").unwrap_or_default(),
        s.text("remote").unwrap_or_default(),
    );
    for (name, value) in [("rev", &rev), ("remote", &origin)] {
        if value.is_empty() {
            return bad(format!(
                "'{value}' is not a valid value for the '{name}' argument"
            ));
        }
    }
    if !paths::is_abs(&target) {
        return bad(format!("target '{target}' is not an absolute path"));
    }
    if s.flag("https_user") && !url.starts_with("https://") {
        return bad("Basic Auth only supported for HTTPS");
    }
    let refs = match remote(
        s,
        "remote_refs",
        vec![url.as_str().into()],
        map! {"heads" => false, "tags" => false},
    ) {
        Ok(refs) => refs.into_map().unwrap_or_default(),
        Err(fault) => return bad(format!("Failed to check remote refs: {}", output(fault)?)),
    };
    let find = |name: String| refs.str(&name).map(str::to_owned);
    let mirror = s.flag("mirror");
    let mut goal = Goal {
        bare: mirror || s.flag("bare"),
        mirror,
        branch: s.text("branch").filter(|b| !b.is_empty()),
        commit: None,
        shown: String::new(),
        upstream: Upstream::Any,
        is_tag: false,
        tags: refs
            .iter()
            .filter_map(|(k, _)| k.as_str()?.strip_prefix("refs/tags/"))
            .filter(|name| !name.ends_with("^{}"))
            .map(str::to_owned)
            .collect(),
        url,
        target,
        rev,
        origin,
    };
    let depth = s.flag("depth");
    if goal.bare {
        return Ok(Ok(goal));
    }
    let rev = goal.rev.clone();
    if rev == "HEAD" {
        if depth {
            return bad(
                "When 'depth' is used, 'rev' must be set to the name of a branch or tag on the remote repository",
            );
        }
        goal.commit = find("HEAD".to_owned());
        goal.shown = format!("remote HEAD ({})", short(goal.commit()));
    } else if let Some(commit) = find(format!("refs/heads/{rev}")) {
        goal.shown = format!("{}/{rev} ({})", goal.origin, short(&commit));
        goal.upstream = Upstream::Branch(format!("{}/{rev}", goal.origin));
        goal.commit = Some(commit);
    } else if let Some(commit) =
        find(format!("refs/tags/{rev}^{{}}")).or_else(|| find(format!("refs/tags/{rev}")))
    {
        goal.shown = format!("{rev} ({})", short(&commit));
        goal.upstream = Upstream::Nothing;
        goal.is_tag = true;
        goal.commit = Some(commit);
    } else if rev.len() >= 4 && rev.len() <= 40 && rev.bytes().all(|b| b.is_ascii_hexdigit()) {
        goal.shown = short(&rev).to_owned();
        goal.upstream = Upstream::Nothing;
        goal.commit = Some(rev.clone());
    }
    if goal.commit.is_none() {
        return bad(format!(
            "No revision matching '{rev}' exists in the remote repository"
        ));
    }
    Ok(Ok(goal))
}

/// The branch that a branch tracks.
fn tracked(s: &mut State<'_, '_>, goal: &Goal, branch: &str) -> Result<Option<String>> {
    let rev = format!("{branch}@{{upstream}}");
    let kwargs = map! {"opts" => vec![Value::from("--abbrev-ref")], "ignore_retcode" => true};
    match git(s, "rev_parse", vec![goal.dir(), rev.into()], kwargs) {
        Ok(found) => Ok(Some(python::str(&found)).filter(|f| !f.is_empty())),
        Err(CallError::Command(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// How the tracked branch has to change, as a sentence with `{}` for the verb.
pub(super) fn tracking(goal: &Goal, now: Option<&str>) -> Option<(Option<String>, String)> {
    match (&goal.upstream, now) {
        (Upstream::Branch(wanted), now) if now != Some(wanted.as_str()) => {
            let verb = if now.is_some() { "updated" } else { "set" };
            let text = format!("Tracking branch {{}} {verb} to {wanted}");
            Some((Some(wanted.clone()), text))
        }
        (Upstream::Nothing, Some(_)) => Some((None, "Tracking branch {} unset".to_owned())),
        _ => None,
    }
}

fn track(s: &mut State<'_, '_>, goal: &Goal, branch: &str, to: Option<&str>) -> Result<()> {
    let opts: Vec<Value> = match to {
        Some(to) => vec!["--set-upstream-to".into(), to.into()],
        None => vec!["--unset-upstream".into()],
    };
    let args = vec![goal.dir(), branch.into()];
    git(s, "branch", args, map! {"opts" => opts})?;
    Ok(())
}

fn submodules(s: &mut State<'_, '_>, goal: &Goal) -> Result<Option<StateOutcome>> {
    if !s.flag("submodules") {
        return Ok(None);
    }
    let kwargs = map! {"opts" => vec![Value::from("--init"), "--recursive".into()]};
    match remote(s, "submodule", vec![goal.dir(), "update".into()], kwargs) {
        Ok(_) => Ok(None),
        Err(fault) => Ok(Some(StateOutcome::bad(format!(
            "Failed to update submodules: {}",
            text(fault)?
        )))),
    }
}

/// Fetches branches and tags; whether that changed something.
fn fetch(s: &mut State<'_, '_>, goal: &Goal) -> Result<Early<bool>> {
    let branch = s.text("refspec_branch").unwrap_or_else(|| "*".to_owned());
    let tag = s.text("refspec_tag").unwrap_or_else(|| "*".to_owned());
    let place = format!("refs/remotes/{}/{branch}", goal.origin);
    let mut refspecs: Vec<Value> = vec![format!("refs/heads/{branch}:{place}").into()];
    if s.flag("fetch_tags") {
        refspecs.push(format!("+refs/tags/{tag}:refs/tags/{tag}").into());
    }
    let mut opts: Vec<Value> = Vec::new();
    if s.flag("depth") {
        opts.extend(["--depth".into(), python::str(s.arg("depth")).into()]);
    }
    let kwargs = map! {
        "remote" => goal.origin.as_str(), "force" => s.flag("force_fetch"), "refspecs" => refspecs, "opts" => opts,
    };
    match remote(s, "fetch", vec![goal.dir()], kwargs) {
        Ok(done) => Ok(Ok(done.truthy())),
        Err(fault) => {
            let said = output(fault)?;
            bad(if s.flag("force_fetch") {
                format!("Fetch failed: {said}")
            } else {
                format!(
                    "Fetch failed. Set 'force_fetch' to True to force the fetch if the failure was due to not being able \
                     to fast-forward. Output of the fetch command follows:\n\n{said}"
                )
            })
        }
    }
}

/// The current branch.
fn current(s: &mut State<'_, '_>, goal: &Goal) -> Result<String> {
    let found = git(s, "current_branch", vec![goal.dir()], Map::new())?;
    Ok(python::str(&found))
}

fn hard_reset(s: &mut State<'_, '_>, goal: &Goal) -> Result<()> {
    let opts = vec![Value::from("--hard"), goal.commit().into()];
    git(s, "reset", vec![goal.dir()], map! {"opts" => opts})?;
    Ok(())
}

fn fetch_bare(s: &mut State<'_, '_>, goal: &Goal) -> Result {
    let target = &goal.target;
    let up = format!("Repository {target} is up-to-date");
    if s.test {
        return Ok(StateOutcome::good(format!(
            "{up}\n\nChanges that would be made: Bare repository at {target} would be fetched"
        )));
    }
    let old = revision(s, target, "HEAD")?;
    let changed = match fetch(s, goal)? {
        Ok(changed) => changed,
        Err(outcome) => return Ok(outcome),
    };
    let new = revision(s, target, "HEAD")?;
    let what = if changed {
        ", resulting in updated refs"
    } else {
        ""
    };
    let line = format!("Bare repository at {target} was fetched{what}");
    if old == new {
        return Ok(StateOutcome::good(format!("{up}\n\nChanges made: {line}")));
    }
    let revision = map! {"old" => old, "new" => new};
    Ok(StateOutcome::good(line).changes(map! {"revision" => revision}))
}

/// What is known about the checkout before anything is done.
pub(super) struct Local {
    pub commit: Option<String>,
    pub branch: String,
    /// The commit that is compared with the wanted one: of the branch that will be checked out.
    pub base: Option<String>,
    pub new_branch: Option<String>,
    pub other_branch: Option<String>,
    pub dirty: bool,
    pub url: Option<String>,
    pub upstream: Option<String>,
    pub tags: Vec<String>,
}

fn local(s: &mut State<'_, '_>, goal: &Goal) -> Result<Local> {
    let dir = goal.dir();
    let commit = revision(s, &goal.target, "HEAD")?;
    let branch = current(s, goal)?;
    let branches = git(s, "list_branches", vec![dir.clone()], Map::new())?.str_list();
    let tags = git(s, "list_tags", vec![dir.clone()], Map::new())?.str_list();
    let other = goal.branch.clone().filter(|b| *b != branch);
    let new_branch = other.clone().filter(|b| !branches.contains(b));
    let other_branch = other.filter(|b| branches.contains(b));
    let base = match (&new_branch, &other_branch) {
        (Some(_), _) => goal.commit.clone(),
        (_, Some(other)) => revision(s, &goal.target, other)?,
        _ => commit.clone(),
    };
    let diff = git(s, "diff", vec![dir.clone(), "HEAD".into()], Map::new())?;
    let remotes = git(s, "remotes", vec![dir], map! {"redact_auth" => false})?;
    let url = remotes
        .as_map()
        .and_then(|m| m.get(&goal.origin))
        .and_then(Value::as_map);
    let url = url.and_then(|m| m.str("fetch")).map(str::to_owned);
    let of = other_branch.clone().unwrap_or_else(|| branch.clone());
    let upstream = match &new_branch {
        Some(_) => None,
        None => tracked(s, goal, &of)?,
    };
    Ok(Local {
        dirty: diff.truthy(),
        commit,
        branch,
        base,
        new_branch,
        other_branch,
        url,
        upstream,
        tags,
    })
}

fn update(s: &mut State<'_, '_>, goal: &Goal) -> Result {
    let mut now = local(s, goal)?;
    let target = &goal.target;
    let force = s.flag("force_reset");
    let always = s.arg("force_reset") == &Value::Bool(true);
    let known = revision(s, target, goal.commit())?;
    let here = known.is_some();
    if goal.is_tag && now.tags.contains(&goal.rev) {
        let own = revision(s, target, &goal.rev)?;
        if own.as_deref() != Some(goal.commit()) && !force {
            return Ok(StateOutcome::bad(format!(
                "'{}' is a tag, but the remote SHA1 for this tag ({}) doesn't match the local SHA1 ({}). Set 'force_reset' \
                 to True to force this update.",
                goal.rev,
                short(goal.commit()),
                short(own.as_deref().unwrap_or("None"))
            )));
        }
    }
    let wanted = known.unwrap_or_else(|| goal.commit().to_owned());
    let matches = now.base.as_deref() == Some(wanted.as_str());
    let moves = now.new_branch.is_none() && !matches;
    let old = short(now.base.as_deref().unwrap_or("None")).to_owned();
    let new = short(&wanted).to_owned();
    if moves && now.dirty && !force && s.flag("update_head") {
        return Ok(StateOutcome::bad(format!(
            "Repository would be updated from {old} to {new}, but there are uncommitted changes. Set 'force_reset' to True \
             (or 'remote-changes') to force this update and discard these changes.{}",
            hint(goal, &now.branch)
        )));
    }
    let forward = !here || !moves || ancestor(s, goal, now.base.as_deref())?;
    if moves && here && !forward && !force && s.flag("update_head") {
        return Ok(not_forward(goal, &now, &new, &[]));
    }
    if s.test {
        return Ok(told(
            s,
            goal,
            &now,
            (here, moves, forward),
            (&old, &new),
            always,
        ));
    }
    if !moves && now.dirty && !always && now.new_branch.is_none() && now.other_branch.is_none() {
        return Ok(uncommitted(target));
    }
    let mut lines = Vec::new();
    let mut changes = Map::new();
    if now.url.as_deref() != Some(goal.url.as_str()) {
        let args = vec![goal.dir(), goal.url.as_str().into()];
        super::set_remote(s, args, &goal.origin)?;
        lines.push(match &now.url {
            Some(url) => format!(
                "Remote '{}' changed from {url} to {}",
                goal.origin, goal.url
            ),
            None => format!("Remote '{}' set to {}", goal.origin, goal.url),
        });
    }
    let gone: Vec<String> = now
        .tags
        .iter()
        .filter(|t| !goal.tags.contains(t))
        .cloned()
        .collect();
    let fresh: Vec<String> = goal
        .tags
        .iter()
        .filter(|t| !now.tags.contains(t))
        .cloned()
        .collect();
    let new_tags = s.flag("fetch_tags") && !fresh.is_empty();
    if !here || new_tags {
        match fetch(s, goal)? {
            Ok(true) => lines.push(format!(
                "{} was fetched, resulting in updated refs",
                goal.url
            )),
            Ok(false) => {}
            Err(outcome) => return Ok(outcome),
        }
        if new_tags {
            changes.set("new_tags", fresh);
        }
        if revision(s, target, goal.commit())?.is_none() {
            return Ok(StateOutcome::bad(format!(
                "Fetch did not successfully retrieve rev '{}' from {}",
                goal.rev, goal.url
            )));
        }
    }
    if s.flag("sync_tags") && s.flag("fetch_tags") && !gone.is_empty() {
        for tag in &gone {
            let opts = vec![Value::from("-d")];
            git(
                s,
                "tag",
                vec![goal.dir(), tag.as_str().into()],
                map! {"opts" => opts},
            )?;
        }
        lines.push(format!(
            "The following tags were removed from the local checkout: {}",
            gone.join(", ")
        ));
        changes.set("deleted_tags", gone);
    }
    if moves && !s.flag("update_head") {
        return Ok(StateOutcome::good(format!(
            "Remote head ({new}) is already present and local HEAD ({old}) does not match, but update_head=False. HEAD has \
             not been updated locally."
        )));
    }
    let forward = !moves || ancestor(s, goal, now.base.as_deref())?;
    if moves && !forward && !force {
        return Ok(not_forward(goal, &now, &new, &lines).changes(changes));
    }
    checkout(s, goal, &mut now, &mut lines)?;
    let resets = moves && (!forward || (here && now.dirty)) || (!moves && now.dirty && always);
    if now.dirty && force {
        if !resets {
            let opts = vec![Value::from("--hard"), "HEAD".into()];
            git(s, "reset", vec![goal.dir()], map! {"opts" => opts})?;
        }
        lines.push("Uncommitted changes were discarded".to_owned());
    }
    if resets {
        hard_reset(s, goal)?;
        changes.set("forced update", true);
        lines.push(format!("Repository was hard-reset to {}", goal.shown));
    }
    if let Some((to, text)) = tracking(goal, now.upstream.as_deref()) {
        track(s, goal, &now.branch, to.as_deref())?;
        if now.new_branch.is_none() {
            lines.push(text.replace("{}", "was"));
        }
    }
    if moves && !resets {
        let kwargs = map! {"rev" => goal.commit(), "opts" => vec![Value::from("--ff-only")]};
        if let Err(fault) = git(s, "merge", vec![goal.dir()], kwargs) {
            return Ok(
                StateOutcome::bad(format!("Merge failed: {}", text(fault)?)).changes(changes)
            );
        }
        lines.push(format!("Repository was fast-forwarded to {}", goal.shown));
    }
    if let Some(outcome) = submodules(s, goal)? {
        return Ok(outcome.changes(changes));
    }
    let after = revision(s, target, "HEAD")?;
    if after != now.commit {
        changes.set("revision", map! {"old" => now.commit, "new" => after});
        return Ok(StateOutcome::good(sentences(&lines)).changes(changes));
    }
    let mut comment = format!("Repository {target} is up-to-date");
    if !lines.is_empty() {
        comment.push_str(&format!("\n\nChanges made: {}", sentences(&lines)));
    }
    Ok(StateOutcome::good(comment).changes(changes))
}

/// Checks out the branch of the state if it is not the current one.
fn checkout(
    s: &mut State<'_, '_>,
    goal: &Goal,
    now: &mut Local,
    lines: &mut Vec<String>,
) -> Result<()> {
    let force = s.flag("force_checkout");
    if let Some(branch) = now.new_branch.clone() {
        let kwargs =
            map! {"force" => force, "opts" => vec![Value::from("-b"), branch.as_str().into()]};
        git(
            s,
            "checkout",
            vec![goal.dir(), goal.commit().into()],
            kwargs,
        )?;
        lines.push(format!(
            "New branch '{branch}' was checked out, with {} as a starting point",
            goal.shown
        ));
        now.branch = branch;
    } else if let Some(branch) = now.other_branch.clone() {
        let args = vec![goal.dir(), branch.as_str().into()];
        git(s, "checkout", args, map! {"force" => force})?;
        lines.push(format!("'{branch}' was checked out"));
        now.branch = branch;
    }
    Ok(())
}

/// Whether the wanted commit comes after a commit.
fn ancestor(s: &mut State<'_, '_>, goal: &Goal, base: Option<&str>) -> Result<bool> {
    let Some(base) = base else { return Ok(true) };
    let refs = vec![Value::from(base), goal.commit().into()];
    let kwargs = map! {"refs" => refs, "is_ancestor" => true, "ignore_retcode" => true};
    Ok(git(s, "merge_base", vec![goal.dir()], kwargs)?.truthy())
}
