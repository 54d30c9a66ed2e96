//! `git`: repositories, by the program `git`.
//!
//! Beyond stock: git 2.7 or newer is taken for granted, and an identity goes to ssh through
//! `GIT_SSH_COMMAND`, without a wrapper script.

mod change;
mod config;
mod query;
mod remote;
mod run;
mod worktree;

use super::declare::{Arg, Function, Module, args};

const CONFIG_GET_REGEXP: &[Arg] = args![
    key,
    value_regex = None,
    cwd = None,
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];

pub(super) const MODULE: Module = Module {
    name: "git",
    functions: &[
        Function::new(
            "add",
            change::add,
            "Puts files into the index, and gives back what git says about them.",
        )
        .args(args![
            cwd,
            filename,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "archive",
            change::archive,
            "Writes the tree of a revision into an archive file.",
        )
        .args(args![
            cwd,
            output,
            rev = "HEAD",
            prefix = None,
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "branch",
            change::branch,
            "Makes, changes or removes a branch.",
        )
        .args(args![
            cwd,
            name = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "checkout",
            change::checkout,
            "Checks out a revision, or with -b in opts a new branch.",
        )
        .args(args![
            cwd,
            rev = None,
            force = False,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "clone",
            remote::clone,
            "Clones a repository into cwd, or into the directory name below it.",
        )
        .args(args![
            cwd,
            url = None,
            name = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            identity = None,
            https_user = None,
            https_pass = None,
            ignore_retcode = False,
            saltenv = "base",
            output_encoding = None
        ]),
        Function::new("commit", change::commit, "Commits the index, or one file.").args(args![
            cwd,
            message,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            filename = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "config_get",
            config::get,
            "The last value of a key of the configuration, or with all=True every one.",
        )
        .args(args![
            key,
            cwd = None,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "config_get_regexp",
            config::get_regexp,
            "The values of all keys of the configuration that fit a regular expression.",
        )
        .args(CONFIG_GET_REGEXP)
        .keywords(),
        Function::new(
            "config_get_regex",
            config::get_regexp,
            "Another name for git.config_get_regexp.",
        )
        .inner("config_get_regexp")
        .args(CONFIG_GET_REGEXP)
        .keywords(),
        Function::new(
            "config_set",
            config::set,
            "Sets a key of the configuration to one value or several.",
        )
        .args(args![
            key,
            value = None,
            multivar = None,
            cwd = None,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "config_unset",
            config::unset,
            "Takes a key out of the configuration.",
        )
        .args(args![
            key,
            value_regex = None,
            cwd = None,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "current_branch",
            query::current_branch,
            "The name of the branch that is checked out.",
        )
        .args(args![
            cwd,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "describe",
            query::describe,
            "A revision by the tag before it.",
        )
        .args(args![
            cwd,
            rev = "HEAD",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "diff",
            query::diff,
            "What differs between revisions, the index, the checkout or two paths.",
        )
        .args(args![
            cwd,
            item1 = None,
            item2 = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            no_index = False,
            cached = False,
            paths = None,
            output_encoding = None
        ]),
        Function::new(
            "discard_local_changes",
            change::discard_local_changes,
            "Checks out a path anew.",
        )
        .args(args![
            cwd,
            path = ".",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "fetch",
            remote::fetch,
            "Fetches from a remote, and tells which branches and tags that changed.",
        )
        .args(args![
            cwd,
            remote = None,
            force = False,
            refspecs = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            identity = None,
            ignore_retcode = False,
            saltenv = "base",
            output_encoding = None
        ]),
        Function::new("init", change::init, "Makes a repository, or a bare one.").args(args![
            cwd,
            bare = False,
            template = None,
            separate_git_dir = None,
            shared = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "is_worktree",
            worktree::is_worktree,
            "Whether a directory is a linked worktree.",
        )
        .args(args![
            cwd,
            user = None,
            password = None,
            output_encoding = None
        ]),
        Function::new(
            "list_branches",
            query::list_branches,
            "The branches here, or those of remotes.",
        )
        .args(args![
            cwd,
            remote = False,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new("list_tags", query::list_tags, "The tags.").args(args![
            cwd,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "list_worktrees",
            worktree::list,
            "The worktrees, and what is checked out in each.",
        )
        .args(args![
            cwd,
            stale = False,
            user = None,
            password = None,
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "ls_remote",
            remote::ls_remote,
            "The references of a remote with their commits.",
        )
        .args(args![
            cwd = None, remote = "origin", ref = None, opts = "", git_opts = "", user = None,
            password = None, identity = None, https_user = None, https_pass = None,
            ignore_retcode = False, output_encoding = None, saltenv = "base"
        ]),
        Function::new(
            "merge",
            change::merge,
            "Merges a revision, by default the upstream branch.",
        )
        .args(args![
            cwd,
            rev = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            identity = None,
            ignore_retcode = False,
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "merge_base",
            query::merge_base,
            "The best common ancestor of revisions, or whether one is an ancestor of the other.",
        )
        .args(args![
            cwd,
            refs = None,
            octopus = False,
            is_ancestor = False,
            independent = False,
            fork_point = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "merge_tree",
            query::merge_tree,
            "What a merge of two revisions would give, without making it.",
        )
        .args(args![
            cwd,
            ref1,
            ref2,
            base = None,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "pull",
            remote::pull,
            "Fetches from the upstream branch and merges it.",
        )
        .args(args![
            cwd,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            identity = None,
            ignore_retcode = False,
            saltenv = "base",
            output_encoding = None
        ]),
        Function::new("push", remote::push_ref, "Pushes a reference to a remote.")
            .args(args![
                cwd, remote = None, ref = None, opts = "", git_opts = "", user = None,
                password = None, identity = None, ignore_retcode = False, saltenv = "base",
                output_encoding = None
            ])
            .keywords(),
        Function::new(
            "rebase",
            change::rebase,
            "Rebases the current branch onto a revision.",
        )
        .args(args![
            cwd,
            rev = "master",
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "remote_get",
            remote::remote_get,
            "The addresses of one remote.",
        )
        .args(args![
            cwd,
            remote = "origin",
            user = None,
            password = None,
            redact_auth = True,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "remote_refs",
            remote::remote_refs,
            "The references of the repository at an address with their commits.",
        )
        .args(args![
            url,
            heads = False,
            tags = False,
            user = None,
            password = None,
            identity = None,
            https_user = None,
            https_pass = None,
            ignore_retcode = False,
            output_encoding = None,
            saltenv = "base"
        ])
        .keywords(),
        Function::new(
            "remote_set",
            remote::remote_set,
            "Sets the addresses of a remote, which is made if it is not there.",
        )
        .args(args![
            cwd,
            url,
            remote = "origin",
            user = None,
            password = None,
            https_user = None,
            https_pass = None,
            push_url = None,
            push_https_user = None,
            push_https_pass = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "remotes",
            remote::remotes,
            "The remotes and their addresses.",
        )
        .args(args![
            cwd,
            user = None,
            password = None,
            redact_auth = True,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "reset",
            change::reset,
            "Sets the current branch back, with the options of git reset.",
        )
        .args(args![
            cwd,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            identity = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "rev_parse",
            query::rev_parse,
            "What git rev-parse says to a revision and options.",
        )
        .args(args![
            cwd,
            rev = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new("revision", query::revision, "The commit of a revision.").args(args![
            cwd,
            rev = "HEAD",
            short = False,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "rm",
            change::rm,
            "Takes files out of the index and the checkout.",
        )
        .inner("rm_")
        .args(args![
            cwd,
            filename,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "stash",
            change::stash,
            "Puts changes aside, or does another action of git stash.",
        )
        .args(args![
            cwd,
            action = "save",
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "status",
            query::status,
            "The files that differ from the last commit, by how they differ.",
        )
        .args(args![
            cwd,
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "submodule",
            remote::submodule,
            "Runs a command of git submodule.",
        )
        .args(args![
            cwd,
            command,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            identity = None,
            ignore_retcode = False,
            saltenv = "base",
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "symbolic_ref",
            change::symbolic_ref,
            "Shows or sets what a symbolic reference stands for.",
        )
        .args(args![
            cwd,
            ref,
            value = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "tag",
            change::tag,
            "Makes a tag, with a message an annotated one, or with -d in opts removes it.",
        )
        .args(args![
            cwd, name, ref = "HEAD", message = None, opts = "", git_opts = "", user = None,
            password = None, ignore_retcode = False, output_encoding = None
        ]),
        Function::new(
            "version",
            query::version,
            "The version of git, as text or in its parts.",
        )
        .args(args![versioninfo = False]),
        Function::new(
            "worktree_add",
            worktree::add,
            "Makes a worktree with a branch of its own, or detached.",
        )
        .args(args![
            cwd, worktree_path, ref = None, reset_branch = None, force = None, detach = False,
            opts = "", git_opts = "", user = None, password = None, ignore_retcode = False,
            output_encoding = None
        ])
        .keywords(),
        Function::new(
            "worktree_prune",
            worktree::prune,
            "Forgets worktrees whose directories are gone.",
        )
        .args(args![
            cwd,
            dry_run = False,
            verbose = True,
            expire = None,
            opts = "",
            git_opts = "",
            user = None,
            password = None,
            ignore_retcode = False,
            output_encoding = None
        ]),
        Function::new(
            "worktree_rm",
            worktree::rm,
            "Removes the directory of a worktree.",
        )
        .args(args![cwd, user = None, output_encoding = None]),
    ],
};
