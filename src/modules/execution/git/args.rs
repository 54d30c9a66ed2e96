//! The argument lists, identical to those of stock 3008.3. Functions with the same arguments share one.

use crate::execution::declare::{Arg, args};

pub(super) const CONFIG_GET_REGEXP: &[Arg] = args![
    key,
    value_regex = None,
    cwd = None,
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const ADD: &[Arg] = args![
    cwd,
    filename,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const ARCHIVE: &[Arg] = args![
    cwd,
    output,
    rev = "HEAD",
    prefix = None,
    git_opts = "",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const BRANCH: &[Arg] = args![
    cwd,
    name = None,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const CHECKOUT: &[Arg] = args![
    cwd,
    rev = None,
    force = False,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const CLONE: &[Arg] = args![
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
];
pub(super) const COMMIT: &[Arg] = args![
    cwd,
    message,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    filename = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const CONFIG_GET: &[Arg] = args![
    key,
    cwd = None,
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const CONFIG_SET: &[Arg] = args![
    key,
    value = None,
    multivar = None,
    cwd = None,
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const CURRENT_BRANCH: &[Arg] = args![
    cwd,
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const DESCRIBE: &[Arg] = args![
    cwd,
    rev = "HEAD",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const DIFF: &[Arg] = args![
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
];
pub(super) const DISCARD_LOCAL_CHANGES: &[Arg] = args![
    cwd,
    path = ".",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const FETCH: &[Arg] = args![
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
];
pub(super) const INIT: &[Arg] = args![
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
];
pub(super) const IS_WORKTREE: &[Arg] =
    args![cwd, user = None, password = None, output_encoding = None];
pub(super) const LIST_BRANCHES: &[Arg] = args![
    cwd,
    remote = False,
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const LIST_WORKTREES: &[Arg] = args![
    cwd,
    stale = False,
    user = None,
    password = None,
    output_encoding = None
];
pub(super) const LS_REMOTE: &[Arg] = args![
    cwd = None, remote = "origin", ref = None, opts = "", git_opts = "", user = None,
    password = None, identity = None, https_user = None, https_pass = None, ignore_retcode =
    False, output_encoding = None, saltenv = "base"
];
pub(super) const MERGE: &[Arg] = args![
    cwd,
    rev = None,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    identity = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const MERGE_BASE: &[Arg] = args![
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
];
pub(super) const MERGE_TREE: &[Arg] = args![
    cwd,
    ref1,
    ref2,
    base = None,
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const PULL: &[Arg] = args![
    cwd,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    identity = None,
    ignore_retcode = False,
    saltenv = "base",
    output_encoding = None
];
pub(super) const PUSH: &[Arg] = args![
    cwd, remote = None, ref = None, opts = "", git_opts = "", user = None, password = None,
    identity = None, ignore_retcode = False, saltenv = "base", output_encoding = None
];
pub(super) const REBASE: &[Arg] = args![
    cwd,
    rev = "master",
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const REMOTE_GET: &[Arg] = args![
    cwd,
    remote = "origin",
    user = None,
    password = None,
    redact_auth = True,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const REMOTE_REFS: &[Arg] = args![
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
];
pub(super) const REMOTE_SET: &[Arg] = args![
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
];
pub(super) const REMOTES: &[Arg] = args![
    cwd,
    user = None,
    password = None,
    redact_auth = True,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const RESET: &[Arg] = args![
    cwd,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    identity = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const REV_PARSE: &[Arg] = args![
    cwd,
    rev = None,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const REVISION: &[Arg] = args![
    cwd,
    rev = "HEAD",
    short = False,
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const STASH: &[Arg] = args![
    cwd,
    action = "save",
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const SUBMODULE: &[Arg] = args![
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
];
pub(super) const SYMBOLIC_REF: &[Arg] = args![
    cwd,
    ref,
    value = None,
    opts = "",
    git_opts = "",
    user = None,
    password = None,
    ignore_retcode = False,
    output_encoding = None
];
pub(super) const TAG: &[Arg] = args![
    cwd, name, ref = "HEAD", message = None, opts = "", git_opts = "", user = None, password
    = None, ignore_retcode = False, output_encoding = None
];
pub(super) const VERSION: &[Arg] = args![versioninfo = False];
pub(super) const WORKTREE_ADD: &[Arg] = args![
    cwd, worktree_path, ref = None, reset_branch = None, force = None, detach = False, opts
    = "", git_opts = "", user = None, password = None, ignore_retcode = False,
    output_encoding = None
];
pub(super) const WORKTREE_PRUNE: &[Arg] = args![
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
];
pub(super) const WORKTREE_RM: &[Arg] = args![cwd, user = None, output_encoding = None];
