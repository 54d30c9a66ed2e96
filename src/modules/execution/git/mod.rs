//! `git`: repositories, through the program `git`.
//!
//! Unlike stock, this requires git 2.7 or newer and passes an identity to ssh through `GIT_SSH_COMMAND` instead of a
//! wrapper script.

mod args;
mod change;
mod config;
mod identity;
mod query;
mod remote;
mod run;
mod worktree;

use super::declare::{Function, Module};

pub(super) const MODULE: Module = Module {
    name: "git",
    functions: &[
        Function::new(
            "add",
            change::add,
            "Adds files to the index and returns git's output.",
        )
        .args(args::ADD),
        Function::new(
            "archive",
            change::archive,
            "Writes the tree of a revision to an archive file.",
        )
        .args(args::ARCHIVE)
        .names(&["rev"])
        .keywords(),
        Function::new(
            "branch",
            change::branch,
            "Creates, changes or deletes a branch.",
        )
        .args(args::BRANCH)
        .names(&["name"]),
        Function::new(
            "checkout",
            change::checkout,
            "Checks out a revision, or with -b in opts a new branch.",
        )
        .args(args::CHECKOUT)
        .names(&["rev"]),
        Function::new(
            "clone",
            remote::clone,
            "Clones a repository to cwd, or to the directory name below it.",
        )
        .args(args::CLONE),
        Function::new("commit", change::commit, "Commits the index, or one file.")
            .args(args::COMMIT),
        Function::new(
            "config_get",
            config::get,
            "The last value of a configuration key, or all with all=True.",
        )
        .args(args::CONFIG_GET)
        .names(&["key"])
        .keywords(),
        Function::new(
            "config_get_regexp",
            config::get_regexp,
            "The values of all configuration keys that match a regular expression.",
        )
        .args(args::CONFIG_GET_REGEXP)
        .names(&["key"])
        .keywords(),
        Function::new(
            "config_get_regex",
            config::get_regexp,
            "Alias of git.config_get_regexp.",
        )
        .inner("config_get_regexp")
        .args(args::CONFIG_GET_REGEXP)
        .names(&["key"])
        .keywords(),
        Function::new(
            "config_set",
            config::set,
            "Sets a configuration key to one or several values.",
        )
        .args(args::CONFIG_SET)
        .names(&["key"])
        .keywords(),
        Function::new(
            "config_unset",
            config::unset,
            "Removes a configuration key.",
        )
        .args(args::CONFIG_GET_REGEXP)
        .names(&["key"])
        .keywords(),
        Function::new(
            "current_branch",
            query::current_branch,
            "The name of the current branch.",
        )
        .args(args::CURRENT_BRANCH),
        Function::new(
            "describe",
            query::describe,
            "A revision's name relative to the most recent tag.",
        )
        .args(args::DESCRIBE)
        .names(&["rev"]),
        Function::new(
            "diff",
            query::diff,
            "The differences between revisions, the index, the checkout or two paths.",
        )
        .args(args::DIFF)
        .names(&["item1", "item2"]),
        Function::new(
            "discard_local_changes",
            change::discard_local_changes,
            "Discards local changes of a path.",
        )
        .args(args::DISCARD_LOCAL_CHANGES),
        Function::new(
            "fetch",
            remote::fetch,
            "Fetches from a remote; returns the changed branches and tags.",
        )
        .args(args::FETCH)
        .names(&["remote", "refspecs"]),
        Function::new(
            "init",
            change::init,
            "Creates a repository, optionally bare.",
        )
        .args(args::INIT),
        Function::new(
            "is_worktree",
            worktree::is_worktree,
            "Whether a directory is a linked worktree.",
        )
        .args(args::IS_WORKTREE),
        Function::new(
            "list_branches",
            query::list_branches,
            "The local branches, or those of remotes.",
        )
        .args(args::LIST_BRANCHES),
        Function::new("list_tags", query::list_tags, "The tags.").args(args::CURRENT_BRANCH),
        Function::new(
            "list_worktrees",
            worktree::list,
            "The worktrees and what is checked out in each.",
        )
        .args(args::LIST_WORKTREES)
        .keywords(),
        Function::new(
            "ls_remote",
            remote::ls_remote,
            "The references of a remote with their commits.",
        )
        .args(args::LS_REMOTE)
        .names(&["remote", "ref"]),
        Function::new(
            "merge",
            change::merge,
            "Merges a revision, by default the upstream branch.",
        )
        .args(args::MERGE)
        .names(&["rev"])
        .keywords(),
        Function::new(
            "merge_base",
            query::merge_base,
            "The best common ancestor of revisions, or whether one is an ancestor of the other.",
        )
        .args(args::MERGE_BASE)
        .names(&["refs", "fork_point"])
        .keywords(),
        Function::new(
            "merge_tree",
            query::merge_tree,
            "The result a merge of two revisions would have, without merging.",
        )
        .args(args::MERGE_TREE)
        .names(&["ref1", "ref2", "base"]),
        Function::new(
            "pull",
            remote::pull,
            "Fetches from the upstream branch and merges it.",
        )
        .args(args::PULL),
        Function::new("push", remote::push_ref, "Pushes a ref to a remote.")
            .args(args::PUSH)
            .names(&["remote", "ref"])
            .keywords(),
        Function::new(
            "rebase",
            change::rebase,
            "Rebases the current branch onto a revision.",
        )
        .args(args::REBASE),
        Function::new("remote_get", remote::remote_get, "The URLs of one remote.")
            .args(args::REMOTE_GET),
        Function::new(
            "remote_refs",
            remote::remote_refs,
            "The references of the repository at a URL, with their commits.",
        )
        .args(args::REMOTE_REFS)
        .names(&["url", "filter"])
        .keywords(),
        Function::new(
            "remote_set",
            remote::remote_set,
            "Sets the URLs of a remote, which is created if missing.",
        )
        .args(args::REMOTE_SET)
        .names(&["url", "remote", "push_url"]),
        Function::new("remotes", remote::remotes, "The remotes and their URLs.")
            .args(args::REMOTES),
        Function::new(
            "reset",
            change::reset,
            "Resets the current branch, with the options of git reset.",
        )
        .args(args::RESET),
        Function::new(
            "rev_parse",
            query::rev_parse,
            "The output of git rev-parse for a revision and options.",
        )
        .args(args::REV_PARSE)
        .names(&["rev"]),
        Function::new("revision", query::revision, "The commit of a revision.")
            .args(args::REVISION)
            .names(&["rev"]),
        Function::new(
            "rm",
            change::rm,
            "Removes files from the index and the checkout.",
        )
        .inner("rm_")
        .args(args::ADD),
        Function::new(
            "stash",
            change::stash,
            "Stashes changes, or runs another action of git stash.",
        )
        .args(args::STASH)
        .names(&["action"]),
        Function::new(
            "status",
            query::status,
            "The files that differ from the last commit, by type of change.",
        )
        .args(args::CURRENT_BRANCH),
        Function::new(
            "submodule",
            remote::submodule,
            "Runs a command of git submodule.",
        )
        .args(args::SUBMODULE)
        .names(&["command"])
        .keywords(),
        Function::new(
            "symbolic_ref",
            change::symbolic_ref,
            "Shows or sets the target of a symbolic reference.",
        )
        .args(args::SYMBOLIC_REF)
        .names(&["ref", "value"]),
        Function::new(
            "tag",
            change::tag,
            "Creates a tag, annotated if there is a message, or deletes it with -d in opts.",
        )
        .args(args::TAG)
        .names(&["name", "ref"]),
        Function::new(
            "version",
            query::version,
            "The version of git, as text or as its parts.",
        )
        .args(args::VERSION),
        Function::new(
            "worktree_add",
            worktree::add,
            "Creates a worktree with its own branch, or detached.",
        )
        .args(args::WORKTREE_ADD)
        .names(&["worktree_path", "ref", "reset_branch"])
        .keywords(),
        Function::new(
            "worktree_prune",
            worktree::prune,
            "Prunes worktrees whose directories no longer exist.",
        )
        .args(args::WORKTREE_PRUNE),
        Function::new(
            "worktree_rm",
            worktree::rm,
            "Removes the directory of a worktree.",
        )
        .args(args::WORKTREE_RM),
    ],
};
