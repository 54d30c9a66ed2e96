//! `file`: manages files and directories.
//!
//! States also use these functions: `manage_file`, `check_managed_changes`, `check_file_meta`, `get_managed`,
//! `check_perms`, `get_diff`, and the editing ones (`replace`, `line`, `blockreplace`, `comment_line`...).

mod attrs;
mod backup;
mod block;
mod codec;
mod comment;
mod contents;
mod diff;
mod find;
mod line;
mod links;
mod manage;
mod managed;
mod meta;
mod names;
mod nodes;
pub mod os;
mod owner;
pub mod paths;
mod pattern;
mod perms;
mod replace;
mod sed;
mod selinux;
mod source;
mod stat;
mod sums;
mod text;
mod tree;
mod users;

use super::CallError;
use super::declare::{Function, Lit, Module, opt, req};

pub use crate::files::FileHash;
pub use attrs::{AttrChange, compare as compare_attrs, read as attributes};
pub use backup::{backup_minion, replace_file};
pub use block::{BlockArgs, blockreplace};
pub use codec::Codec;
pub use comment::comment_line;
pub use contents::{append_lines, touch};
pub use diff::{Diff, DiffOptions, IgnoredChanges, get_diff, unified as unified_diff};
pub use line::{LineArgs, line};
pub use links::{SymlinkOptions, symlink};
pub use manage::{ManageArgs, manage_file};
pub use managed::{GetManagedArgs as GetManaged, ManagedContent, get_managed, get_managed_text};
pub use meta::{
    Changes, CheckArgs as CheckManaged, MetaArgs as FileMeta, check_file_meta,
    check_managed_changes,
};
pub use owner::{chown, lchown, set_mode};
pub use perms::{Perms, check_more_perms, check_perms};
pub use replace::{ReplaceArgs, replace};
pub use sed::{PatchArgs, patch};
pub use selinux::WantedContext as SelinuxContext;
pub use source::{
    REMOTE_PROTOS, Signature, cache_file, check_signature, clean_tmp, redacted, source_list,
    stat_file, urlparse,
};
pub use stat::Stats;
pub use sums::{ExtractHashArgs, SourceHash, extract_hash, get_hash, get_source_sum};
pub use tree::{NewNodeArgs, copy, makedirs, makedirs_perms, mkdir, remove, rename};
pub use users::{gid_to_group, group_to_gid, uid_to_user, user_to_uid};

const NIL: Lit = Lit::Nil;
const NO: Lit = Lit::Bool(false);
const YES: Lit = Lit::Bool(true);

pub(super) const MODULE: Module = Module {
    name: "file",
    functions: &[
        Function::new("access", stat::access, "Whether this minion has access to a path: f for existence, r read, w write, x execute or enter.")
            .args(&[req("path"), req("mode")]),
        Function::new("append", contents::append, "Appends lines to an existing file.")
            .args(&[req("path")])
            .varargs()
            .keywords(),
        Function::new("apply_template_on_contents", managed::apply_template_on_contents, "Renders text as a template.")
            .args(&[req("contents"), req("template"), req("context"), req("defaults"), req("saltenv")]),
        Function::new("basename", names::basename, "The last component of a path.")
            .args(&[req("path")]),
        Function::new("blockreplace", block::blockreplace_function, "Replaces the text between two markers in a file; returns a diff or whether something changed.")
            .args(&[req("path"), opt("marker_start", Lit::Str("#-- start managed zone --")), opt("marker_end", Lit::Str("#-- end managed zone --")), opt("content", Lit::Str("")), opt("append_if_not_found", NO), opt("prepend_if_not_found", NO), opt("backup", Lit::Str(".bak")), opt("dry_run", NO), opt("show_changes", YES), opt("append_newline", NO), opt("insert_before_match", NIL), opt("insert_after_match", NIL)]),
        Function::new("chattr", attrs::chattr_function, "Adds or removes attributes of files.")
            .varargs()
            .keywords(),
        Function::new("check_file_meta", meta::check_file_meta_function, "The pending changes of a file, given content, owner, group and mode.")
            .args(&[req("name"), req("sfn"), req("source"), req("source_sum"), req("user"), req("group"), req("mode"), req("attrs"), req("saltenv"), opt("contents", NIL), opt("seuser", NIL), opt("serole", NIL), opt("setype", NIL), opt("serange", NIL), opt("verify_ssl", YES), opt("follow_symlinks", NO), opt("ignore_ordering", NO), opt("ignore_whitespace", NO), opt("ignore_comment_characters", NIL), opt("new_file_diff", NO)]),
        Function::new("check_hash", sums::check_hash_function, "Whether a file has a hash, given as digits, type=digits or type:digits.")
            .args(&[req("path"), req("file_hash")]),
        Function::new("check_managed", meta::check_managed_function, "Whether a managed file is up to date, and the pending changes.")
            .args(&[req("name"), req("source"), req("source_hash"), req("source_hash_name"), req("user"), req("group"), req("mode"), req("attrs"), req("template"), req("context"), req("defaults"), req("saltenv"), opt("contents", NIL), opt("skip_verify", NO), opt("seuser", NIL), opt("serole", NIL), opt("setype", NIL), opt("serange", NIL), opt("follow_symlinks", NO)])
            .keywords(),
        Function::new("check_managed_changes", meta::check_managed_changes_function, "The pending changes of a managed file.")
            .args(&[req("name"), req("source"), req("source_hash"), req("source_hash_name"), req("user"), req("group"), req("mode"), req("attrs"), req("template"), req("context"), req("defaults"), req("saltenv"), opt("contents", NIL), opt("skip_verify", NO), opt("keep_mode", NO), opt("seuser", NIL), opt("serole", NIL), opt("setype", NIL), opt("serange", NIL), opt("verify_ssl", YES), opt("follow_symlinks", NO), opt("ignore_ordering", NO), opt("ignore_whitespace", NO), opt("ignore_comment_characters", NIL), opt("new_file_diff", NO)])
            .keywords(),
        Function::new("check_perms", perms::check_perms_function, "Sets owner, group, mode, attributes and context of a file.")
            .args(&[req("name"), req("ret"), req("user"), req("group"), req("mode"), opt("attrs", NIL), opt("follow_symlinks", NO), opt("seuser", NIL), opt("serole", NIL), opt("setype", NIL), opt("serange", NIL)]),
        Function::new("chgrp", owner::chgrp_function, "Changes the group of a file.")
            .args(&[req("path"), req("group")]),
        Function::new("chown", owner::chown_function, "Changes owner and group of a file.")
            .args(&[req("path"), req("user"), req("group")]),
        Function::new("comment", comment::comment_function, "Adds a character before lines that match a pattern.")
            .args(&[req("path"), req("regex"), opt("char", Lit::Str("#")), opt("backup", Lit::Str(".bak"))]),
        Function::new("comment_line", comment::comment_line_function, "Adds a character before lines that match a pattern, or removes it.")
            .args(&[req("path"), req("regex"), opt("char", Lit::Str("#")), opt("cmnt", YES), opt("backup", Lit::Str(".bak"))]),
        Function::new("contains", contents::contains, "Whether a file contains a text.")
            .args(&[req("path"), req("text")]),
        Function::new("contains_glob", contents::contains_glob, "Whether a file as a whole matches a glob.")
            .args(&[req("path"), req("glob_expr")]),
        Function::new("contains_regex", contents::contains_regex, "Whether a line of a file matches a pattern.")
            .args(&[req("path"), req("regex"), opt("lchar", Lit::Str(""))]),
        Function::new("copy", tree::copy_function, "Copies a file or, with recurse, a directory.")
            .args(&[req("src"), req("dst"), opt("recurse", NO), opt("remove_existing", NO)]),
        Function::new("delete_backup", backup::delete_backup, "Removes a backup by its number in file.list_backups.")
            .args(&[req("path"), req("backup_id")]),
        Function::new("directory_exists", stat::directory_exists, "Whether a directory exists.")
            .args(&[req("path")]),
        Function::new("dirname", names::dirname, "A path without its last component.")
            .args(&[req("path")]),
        Function::new("diskusage", stat::diskusage, "The size in bytes of a file, or of all files below a directory.")
            .args(&[req("path")]),
        Function::new("extract_hash", sums::extract_hash_function, "The hash of a file according to a file of hashes.")
            .args(&[req("hash_fn"), opt("hash_type", Lit::Str("sha256")), opt("file_name", Lit::Str("")), opt("source", Lit::Str("")), opt("source_hash_name", NIL)]),
        Function::new("file_exists", stat::file_exists, "Whether a file exists.")
            .args(&[req("path")]),
        Function::new("find", find::find, "Searches a directory for files by name, type, owner, group, size, time or content, and prints or deletes them or passes them to a command.")
            .args(&[req("path")])
            .varargs()
            .keywords(),
        Function::new("get_devmm", stat::get_devmm, "Major and minor device numbers.")
            .args(&[req("name")]),
        Function::new("get_diff", diff::get_diff_function, "The differences of two files as a unified diff.")
            .args(&[req("file1"), req("file2"), opt("saltenv", Lit::Str("base")), opt("show_filenames", YES), opt("show_changes", YES), opt("template", NO), opt("source_hash_file1", NIL), opt("source_hash_file2", NIL), opt("ignore_ordering", NO), opt("ignore_whitespace", NO), opt("ignore_comment_characters", NIL)]),
        Function::new("get_gid", stat::get_gid, "The group id of a file.")
            .args(&[req("path"), opt("follow_symlinks", YES)]),
        Function::new("get_group", stat::get_group, "The name of the group of a file.")
            .args(&[req("path"), opt("follow_symlinks", YES)]),
        Function::new("get_hash", sums::get_hash_function, "The hash of a file.")
            .args(&[req("path"), opt("form", Lit::Str("sha256")), opt("chunk_size", Lit::Int(65536))]),
        Function::new("get_managed", managed::get_managed_function, "Finds the content of a managed file and renders it; returns its path, its hash and the error, if any.")
            .args(&[req("name"), req("template"), req("source"), req("source_hash"), req("source_hash_name"), req("user"), req("group"), req("mode"), req("attrs"), req("saltenv"), req("context"), req("defaults"), opt("skip_verify", NO), opt("verify_ssl", YES), opt("use_etag", NO), opt("source_hash_sig", NIL), opt("signed_by_any", NIL), opt("signed_by_all", NIL), opt("keyring", NIL), opt("gnupghome", NIL), opt("ignore_ordering", NO), opt("ignore_whitespace", NO), opt("ignore_comment_characters", NIL), opt("sig_backend", Lit::Str("gpg"))])
            .keywords(),
        Function::new("get_mode", stat::get_mode, "The mode of a file.")
            .args(&[req("path"), opt("follow_symlinks", YES)]),
        Function::new("get_selinux_context", selinux::get_function, "The SELinux context of a file.")
            .args(&[req("path")]),
        Function::new("get_source_sum", sums::get_source_sum_function, "The hash a source_hash refers to.")
            .args(&[opt("file_name", Lit::Str("")), opt("source", Lit::Str("")), opt("source_hash", NIL), opt("source_hash_name", NIL), opt("saltenv", Lit::Str("base")), opt("verify_ssl", YES), opt("source_hash_sig", NIL), opt("signed_by_any", NIL), opt("signed_by_all", NIL), opt("keyring", NIL), opt("gnupghome", NIL), opt("sig_backend", Lit::Str("gpg"))]),
        Function::new("get_sum", sums::get_sum_function, "The hash of a file, or a text if it does not exist.")
            .args(&[req("path"), opt("form", Lit::Str("sha256"))]),
        Function::new("get_uid", stat::get_uid, "The owner's id of a file.")
            .args(&[req("path"), opt("follow_symlinks", YES)]),
        Function::new("get_user", stat::get_user, "The owner's name of a file.")
            .args(&[req("path"), opt("follow_symlinks", YES)]),
        Function::new("gid_to_group", users::gid_to_group_function, "A group's name by id.")
            .args(&[req("gid")]),
        Function::new("grep", sed::grep, "Searches files with grep.")
            .args(&[req("path"), req("pattern")])
            .varargs(),
        Function::new("group_to_gid", users::group_to_gid_function, "A group's id by name.")
            .args(&[req("group")]),
        Function::new("is_blkdev", stat::is_blkdev, "Whether a path is a block device.")
            .args(&[req("name")]),
        Function::new("is_chrdev", stat::is_chrdev, "Whether a path is a character device.")
            .args(&[req("name")]),
        Function::new("is_fifo", stat::is_fifo, "Whether a path is a pipe.")
            .args(&[req("name")]),
        Function::new("is_hardlink", stat::is_hardlink, "Whether a file has several hard links.")
            .args(&[req("path")]),
        Function::new("is_link", links::is_link, "Whether a path is a symbolic link.")
            .args(&[req("path"), opt("nostat", NO)]),
        Function::new("join", names::join, "Joins path components.")
            .varargs(),
        Function::new("lchown", owner::lchown_function, "Changes owner and group of a link itself.")
            .args(&[req("path"), req("user"), req("group")]),
        Function::new("line", line::line_function, "Inserts, ensures, replaces or deletes one line of a file.")
            .args(&[req("path"), opt("content", NIL), opt("match", NIL), opt("mode", NIL), opt("location", NIL), opt("before", NIL), opt("after", NIL), opt("show_changes", YES), opt("backup", NO), opt("quiet", NO), opt("indent", YES)]),
        Function::new("link", links::link, "Creates a hard link.")
            .args(&[req("src"), req("path")]),
        Function::new("list_backup", backup::list_backups_function, "Alias of file.list_backups.")
            .args(&[req("path"), opt("limit", NIL)]),
        Function::new("list_backups", backup::list_backups_function, "The backups of a file, numbered from the latest.")
            .args(&[req("path"), opt("limit", NIL)]),
        Function::new("list_backups_dir", backup::list_backups_dir_function, "The backups of the files in a directory.")
            .args(&[req("path"), opt("limit", NIL)]),
        Function::new("lsattr", attrs::lsattr_function, "The attributes of a file.")
            .args(&[req("path")]),
        Function::new("lstat", stat::lstat, "The metadata of a path, without following links.")
            .args(&[req("path")]),
        Function::new("makedirs", tree::makedirs_function, "Creates the parent directories of a path.")
            .args(&[req("path"), opt("user", NIL), opt("group", NIL), opt("mode", NIL)])
            .inner("makedirs_"),
        Function::new("makedirs_perms", tree::makedirs_perms_function, "Creates a directory and its parents with an owner, a group and a mode.")
            .args(&[req("name"), opt("user", NIL), opt("group", NIL), opt("mode", Lit::Str("0755"))]),
        Function::new("manage_file", manage::manage_file_function, "Manages content, owner, group and mode of a file; returns a state return.")
            .args(&[req("name"), req("sfn"), req("ret"), req("source"), req("source_sum"), req("user"), req("group"), req("mode"), req("attrs"), req("saltenv"), req("backup"), opt("makedirs", NO), opt("template", NIL), opt("show_changes", YES), opt("contents", NIL), opt("dir_mode", NIL), opt("follow_symlinks", YES), opt("skip_verify", NO), opt("keep_mode", NO), opt("encoding", NIL), opt("encoding_errors", Lit::Str("strict")), opt("seuser", NIL), opt("serole", NIL), opt("setype", NIL), opt("serange", NIL), opt("verify_ssl", YES), opt("use_etag", NO), opt("signature", NIL), opt("source_hash_sig", NIL), opt("signed_by_any", NIL), opt("signed_by_all", NIL), opt("keyring", NIL), opt("gnupghome", NIL), opt("ignore_ordering", NO), opt("ignore_whitespace", NO), opt("ignore_comment_characters", NIL), opt("new_file_diff", NO), opt("sig_backend", Lit::Str("gpg"))])
            .keywords(),
        Function::new("mkdir", tree::mkdir_function, "Creates a directory if it does not exist.")
            .args(&[req("dir_path"), opt("user", NIL), opt("group", NIL), opt("mode", NIL)]),
        Function::new("mknod", nodes::mknod, "Creates a device node or pipe, and its parent directories.")
            .args(&[req("name"), req("ntype"), opt("major", Lit::Int(0)), opt("minor", Lit::Int(0)), opt("user", NIL), opt("group", NIL), opt("mode", Lit::Str("0600"))]),
        Function::new("mknod_blkdev", nodes::mknod_blkdev, "Creates a block device.")
            .args(&[req("name"), req("major"), req("minor"), opt("user", NIL), opt("group", NIL), opt("mode", Lit::Str("0660"))]),
        Function::new("mknod_chrdev", nodes::mknod_chrdev, "Creates a character device.")
            .args(&[req("name"), req("major"), req("minor"), opt("user", NIL), opt("group", NIL), opt("mode", Lit::Str("0660"))]),
        Function::new("mknod_fifo", nodes::mknod_fifo, "Creates a pipe.")
            .args(&[req("name"), opt("user", NIL), opt("group", NIL), opt("mode", Lit::Str("0660"))]),
        Function::new("move", tree::move_function, "Moves a file or directory.")
            .args(&[req("src"), req("dst"), opt("disallow_copy_and_unlink", NO)]),
        Function::new("normpath", names::normpath, "A normalized path, without empty components, dots and double dots.")
            .args(&[req("path")]),
        Function::new("open_files", names::open_files, "The files that processes have open, by file or by process.")
            .args(&[opt("by_pid", NO)]),
        Function::new("pardir", names::pardir, "The name of the parent directory."),
        Function::new("patch", sed::patch_function, "Applies a patch file.")
            .args(&[req("originalfile"), req("patchfile"), opt("options", Lit::Str("")), opt("dry_run", NO)]),
        Function::new("path_exists_glob", stat::path_exists_glob, "Whether any path matches a glob.")
            .args(&[req("path")]),
        Function::new("prepend", contents::prepend, "Prepends lines to a file.")
            .args(&[req("path")])
            .varargs()
            .keywords(),
        Function::new("psed", sed::psed, "Replaces a pattern like sed, but without it.")
            .args(&[req("path"), req("before"), req("after"), opt("limit", Lit::Str("")), opt("backup", Lit::Str(".bak")), opt("flags", Lit::Str("gMS")), opt("escape_all", NO), opt("multi", NO)]),
        Function::new("read", contents::read, "The content of a file.")
            .args(&[req("path"), opt("binary", NO)]),
        Function::new("readdir", tree::readdir, "The names in a directory.")
            .args(&[req("path")]),
        Function::new("readlink", links::readlink, "Where a symbolic link points.")
            .args(&[req("path"), opt("canonicalize", NO)]),
        Function::new("remove", tree::remove_function, "Removes a file, link or directory tree.")
            .args(&[req("path")])
            .keywords(),
        Function::new("remove_backup", backup::delete_backup, "Alias of file.delete_backup.")
            .args(&[req("path"), req("backup_id")]),
        Function::new("rename", tree::rename_function, "Renames a file or directory.")
            .args(&[req("src"), req("dst")]),
        Function::new("replace", replace::replace_function, "Replaces matches of a pattern in a file; returns a diff or whether something changed.")
            .args(&[req("path"), req("pattern"), req("repl"), opt("count", Lit::Int(0)), opt("flags", Lit::Int(8)), opt("bufsize", Lit::Int(1)), opt("append_if_not_found", NO), opt("prepend_if_not_found", NO), opt("not_found_content", NIL), opt("backup", Lit::Str(".bak")), opt("dry_run", NO), opt("search_only", NO), opt("show_changes", YES), opt("ignore_if_missing", NO), opt("preserve_inode", YES), opt("backslash_literal", NO), opt("encoding", NIL)]),
        Function::new("restore_backup", backup::restore_backup, "Restores a backup by its number in file.list_backups.")
            .args(&[req("path"), req("backup_id")]),
        Function::new("restorecon", selinux::restorecon_function, "Resets the SELinux context of a path.")
            .args(&[req("path"), opt("recursive", NO)]),
        Function::new("rmdir", tree::rmdir, "Removes an empty directory or, with recurse, the empty directories below it.")
            .args(&[req("path"), opt("recurse", NO), opt("verbose", NO), opt("older_than", NIL)]),
        Function::new("search", replace::search_function, "Whether a file matches a pattern.")
            .args(&[req("path"), req("pattern"), opt("flags", Lit::Int(8)), opt("bufsize", Lit::Int(1)), opt("ignore_if_missing", NO), opt("multiline", NO)]),
        Function::new("sed", sed::sed, "Edits a file in place with sed.")
            .args(&[req("path"), req("before"), req("after"), opt("limit", Lit::Str("")), opt("backup", Lit::Str(".bak")), opt("options", Lit::Str("-r -e")), opt("flags", Lit::Str("g")), opt("escape_all", NO), opt("negate_match", NO)]),
        Function::new("sed_contains", sed::sed_contains, "Whether sed finds a pattern in a file.")
            .args(&[req("path"), req("text"), opt("limit", Lit::Str("")), opt("flags", Lit::Str("g"))]),
        Function::new("seek_read", contents::seek_read, "Reads bytes of a file at an offset.")
            .args(&[req("path"), req("size"), req("offset")]),
        Function::new("seek_write", contents::seek_write, "Writes bytes to a file at an offset.")
            .args(&[req("path"), req("data"), req("offset")]),
        Function::new("set_mode", owner::set_mode_function, "Sets the mode of a file.")
            .args(&[req("path"), req("mode")]),
        Function::new("set_selinux_context", selinux::set_function, "Sets the SELinux context of a file.")
            .args(&[req("path"), opt("user", NIL), opt("role", NIL), opt("type", NIL), opt("range", NIL), opt("persist", NO)]),
        Function::new("source_list", source::source_list_function, "The first available source of several, with its hash.")
            .args(&[req("source"), req("source_hash"), req("saltenv")]),
        Function::new("stats", stat::stats, "The metadata of a path.")
            .args(&[req("path"), opt("hash_type", NIL), opt("follow_symlinks", YES)]),
        Function::new("statvfs", stat::statvfs, "The metadata of a path's file system.")
            .args(&[req("path")]),
        Function::new("symlink", links::symlink_function, "Creates a symbolic link.")
            .args(&[req("src"), req("path"), opt("force", NO), opt("atomic", NO), opt("follow_symlinks", YES)]),
        Function::new("touch", contents::touch_function, "Creates a file if it does not exist, and sets its times.")
            .args(&[req("name"), opt("atime", NIL), opt("mtime", NIL)]),
        Function::new("truncate", contents::truncate, "Truncates a file to a length.")
            .args(&[req("path"), req("length")]),
        Function::new("uid_to_user", users::uid_to_user_function, "A user's name by id.")
            .args(&[req("uid")]),
        Function::new("uncomment", comment::uncomment_function, "Removes a character before lines that match a pattern.")
            .args(&[req("path"), req("regex"), opt("char", Lit::Str("#")), opt("backup", Lit::Str(".bak"))]),
        Function::new("user_to_uid", users::user_to_uid_function, "A user's id by name.")
            .args(&[req("user")]),
        Function::new("write", contents::write, "Overwrites a file with lines.")
            .args(&[req("path")])
            .varargs()
            .keywords(),
    ],
};

#[cfg(test)]
mod tests;
