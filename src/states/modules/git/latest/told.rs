//! What `git.latest` tells without having done it.

use super::super::sentences;
use super::{Goal, Local, Upstream, tracking};
use crate::declare::{State, StateOutcome};
use halite_wire::map;

/// Why a forced update may be avoidable.
pub(super) fn hint(goal: &Goal, local: &str) -> String {
    if goal.rev == "HEAD" || goal.branch.is_some() || goal.rev == local {
        return String::new();
    }
    format!(
        " The desired rev ({0}) differs from the name of the local branch ({local}), if the desired rev is a branch name \
         then a forced update could possibly be avoided by setting the 'branch' argument to '{0}' instead.",
        goal.rev
    )
}

pub(super) fn not_forward(goal: &Goal, now: &Local, new: &str, done: &[String]) -> StateOutcome {
    let mut text = format!(
        "Repository would be updated to {new}, but this is not a fast-forward merge. Set 'force_reset' to True to force \
         this update.{}",
        hint(goal, &now.branch)
    );
    if !done.is_empty() {
        text.push_str(&format!("\n\nChanges already made: {}", sentences(done)));
    }
    StateOutcome::bad(text)
}

pub(super) fn uncommitted(target: &str) -> StateOutcome {
    StateOutcome::good(format!(
        "Repository {target} is up-to-date, but with uncommitted changes. Set 'force_reset' to True to purge uncommitted \
         changes."
    ))
}

/// What a test tells. `facts`: the commit is here already, HEAD moves, by a fast-forward.
pub(super) fn told(
    s: &State<'_, '_>,
    goal: &Goal,
    now: &Local,
    facts: (bool, bool, bool),
    (old, new): (&str, &str),
    always: bool,
) -> StateOutcome {
    let (here, moves, forward) = facts;
    let target = &goal.target;
    let mut lines = Vec::new();
    if now.url.as_deref() != Some(goal.url.as_str()) {
        lines.push(match &now.url {
            Some(url) => format!(
                "Remote '{}' would be changed from {url} to {}",
                goal.origin, goal.url
            ),
            None => format!("Remote '{}' would be set to {}", goal.origin, goal.url),
        });
    }
    if !here {
        lines.push(format!("Remote '{}' would be fetched", goal.origin));
    }
    if moves && !s.flag("update_head") {
        lines.push(format!(
            "Local HEAD ({old}) does not match remote HEAD ({new}) but update_head=False, HEAD would not be updated locally"
        ));
        return StateOutcome::good(sentences(&lines));
    }
    if let Some(branch) = &now.new_branch {
        lines.push(format!(
            "New branch '{branch}' would be checked out, with {} as a starting point",
            goal.shown
        ));
        if let Upstream::Branch(wanted) = &goal.upstream {
            lines.push(format!("Tracking branch would be set to {wanted}"));
            lines.push(format!("Tracking branch would be updated to {wanted}"));
        }
    } else if let Some(branch) = &now.other_branch {
        lines.push(format!("'{branch}' would be checked out"));
    }
    if moves {
        lines.push(match (here, forward && !now.dirty) {
            (false, _) => format!("Repository would be updated from {old} to {new}"),
            (true, true) => format!("Repository would be fast-forwarded from {old} to {new}"),
            (true, false) => format!("Repository would be hard-reset from {old} to {new}"),
        });
    }
    if now.new_branch.is_none()
        && let Some((_, text)) = tracking(goal, now.upstream.as_deref())
    {
        lines.push(text.replace("{}", "would be"));
    }
    if moves || now.new_branch.is_some() && now.commit != goal.commit {
        let revision = map! {"old" => now.commit.clone(), "new" => goal.commit.clone()};
        return StateOutcome::would(sentences(&lines)).changes(map! {"revision" => revision});
    }
    if now.dirty && now.new_branch.is_none() && now.other_branch.is_none() {
        if !always {
            return uncommitted(target);
        }
        return StateOutcome::would(format!(
            "{target} is up-to-date, but with uncommitted changes. Since 'force_reset' is set to True, these local changes \
             would be reset. To only reset when there are changes in the remote repository, set 'force_reset' to \
             'remote-changes'."
        ))
        .changes(map! {"forced update" => true});
    }
    let mut comment = format!("Repository {target} is up-to-date");
    if !lines.is_empty() {
        comment.push_str(&format!(
            "\n\nChanges that would be made: {}",
            sentences(&lines)
        ));
    }
    StateOutcome::good(comment)
}
