//! The table of the module.

use super::{
    accumulated, append, block, cached, copy, decode, directory, edit, keyvalue, line, links,
    managed, patch, pruned, recurse, retention, run, serialize, simple, symlink, tidied,
};
use crate::declare::{StateFunction, StateModule};
use crate::modules::mod_beacon;
use halite_modules::args;
use halite_modules::execution::declare::{Lit, opt};

const NO: Lit = Lit::Bool(false);
const NIL: Lit = Lit::Nil;

pub(in crate::modules) const MODULE: StateModule = StateModule {
    name: "file",
    functions: &[
        StateFunction::new(
            "absent",
            |s| run(s, simple::absent),
            "Requires that a file, a link or a directory tree does not exist.",
        )
        .keywords(),
        StateFunction::new(
            "accumulated",
            |s| run(s, accumulated::accumulated),
            "Collects text for the template of another state.",
        )
        .args(args![filename, text])
        .keywords(),
        StateFunction::new(
            "append",
            |s| run(s, append::append),
            "Appends lines that a file does not have.",
        )
        .args(args![
            text = None,
            makedirs = False,
            source = None,
            source_hash = None,
            template = "jinja",
            sources = None,
            source_hashes = None,
            defaults = None,
            context = None,
            ignore_whitespace = True,
            show_changes = True
        ]),
        StateFunction::new(
            "blockreplace",
            |s| run(s, block::blockreplace),
            "Manages the text between two markers of a file.",
        )
        .args(args![
            marker_start = "#-- start managed zone --",
            marker_end = "#-- end managed zone --",
            source = None,
            source_hash = None,
            template = "jinja",
            sources = None,
            source_hashes = None,
            defaults = None,
            context = None,
            content = "",
            append_if_not_found = False,
            prepend_if_not_found = False,
            backup = ".bak",
            show_changes = True,
            append_newline = None,
            insert_before_match = None,
            insert_after_match = None
        ]),
        StateFunction::new(
            "cached",
            |s| run(s, cached::cached),
            "Requires that a file is in the minion's cache.",
        )
        .args(args![
            source_hash = "",
            source_hash_name = None,
            skip_verify = False,
            saltenv = "base",
            use_etag = False,
            source_hash_sig = None,
            signed_by_any = None,
            signed_by_all = None,
            keyring = None,
            gnupghome = None,
            sig_backend = "gpg"
        ]),
        StateFunction::new(
            "comment",
            |s| run(s, edit::comment),
            "Adds a character before lines that match a pattern.",
        )
        .args(args![
            regex,
            char = "#",
            backup = ".bak",
            ignore_missing = False
        ]),
        StateFunction::new(
            "copy",
            |s| run(s, copy::copy),
            "Copies a file or a directory of this minion if the target does not exist.",
        )
        .args(args![
            source,
            force = False,
            makedirs = False,
            preserve = False,
            user = None,
            group = None,
            mode = None,
            dir_mode = None,
            subdir = False
        ])
        .keywords(),
        StateFunction::new(
            "decode",
            |s| run(s, decode::decode),
            "Writes a file of encoded data.",
        )
        .args(args![
            encoded_data = None,
            contents_pillar = None,
            encoding_type = "base64",
            checksum = "md5"
        ]),
        StateFunction::new(
            "directory",
            |s| run(s, directory::directory),
            "Requires that a directory exists, and sets the permissions in it.",
        )
        .args(args![
            user = None,
            group = None,
            recurse = None,
            max_depth = None,
            dir_mode = None,
            file_mode = None,
            makedirs = False,
            clean = False,
            require = None,
            exclude_pat = None,
            follow_symlinks = False,
            force = False,
            backupname = None,
            allow_symlink = True,
            children_only = False,
            win_owner = None,
            win_perms = None,
            win_deny_perms = None,
            win_inheritance = True,
            win_perms_reset = False
        ])
        .keywords(),
        StateFunction::new(
            "exists",
            |s| run(s, simple::exists),
            "Requires that a path exists.",
        )
        .keywords(),
        StateFunction::new(
            "hardlink",
            |s| run(s, links::hardlink),
            "Requires a hard link.",
        )
        .args(args![
            target,
            force = False,
            makedirs = False,
            user = None,
            group = None,
            dir_mode = None
        ])
        .keywords(),
        StateFunction::new(
            "keyvalue",
            |s| run(s, keyvalue::keyvalue),
            "Manages lines of keys and values.",
        )
        .args(args![
            key = None,
            value = None,
            key_values = None,
            separator = "=",
            append_if_not_found = False,
            prepend_if_not_found = False,
            search_only = False,
            show_changes = True,
            ignore_if_missing = False,
            count = { 1 },
            uncomment = None,
            key_ignore_case = False,
            value_ignore_case = False,
            create_if_missing = False,
            prune = False
        ]),
        StateFunction::new(
            "line",
            |s| run(s, line::line),
            "Manages one line of a file.",
        )
        .args(&[
            opt("content", NIL),
            opt("match", NIL),
            opt("mode", NIL),
            opt("location", NIL),
            opt("before", NIL),
            opt("after", NIL),
            opt("show_changes", Lit::Bool(true)),
            opt("backup", NO),
            opt("quiet", NO),
            opt("indent", Lit::Bool(true)),
            opt("create", NO),
            opt("user", NIL),
            opt("group", NIL),
            opt("file_mode", NIL),
        ]),
        StateFunction::new(
            "managed",
            |s| run(s, managed::managed),
            "Manages a file's content, owner, group and mode.",
        )
        .args(args![
            source = None,
            source_hash = "",
            source_hash_name = None,
            keep_source = True,
            user = None,
            group = None,
            mode = None,
            attrs = None,
            template = None,
            makedirs = False,
            dir_mode = None,
            context = None,
            replace = True,
            defaults = None,
            backup = "",
            show_changes = True,
            create = True,
            contents = None,
            tmp_dir = None,
            tmp_ext = "",
            contents_pillar = None,
            contents_grains = None,
            contents_newline = True,
            contents_delimiter = ":",
            encoding = None,
            encoding_errors = "strict",
            allow_empty = True,
            follow_symlinks = True,
            check_cmd = None,
            skip_verify = False,
            selinux = None,
            win_owner = None,
            win_perms = None,
            win_deny_perms = None,
            win_inheritance = True,
            win_perms_reset = False,
            verify_ssl = True,
            use_etag = False,
            signature = None,
            source_hash_sig = None,
            signed_by_any = None,
            signed_by_all = None,
            keyring = None,
            gnupghome = None,
            ignore_ordering = False,
            ignore_whitespace = False,
            ignore_comment_characters = None,
            new_file_diff = False,
            sig_backend = "gpg"
        ])
        .keywords(),
        StateFunction::new(
            "missing",
            |s| run(s, simple::missing),
            "Requires that a path does not exist, without removing it.",
        )
        .keywords(),
        StateFunction::new("mod_beacon", mod_beacon::file, mod_beacon::DOC).keywords(),
        StateFunction::new(
            "mknod",
            |s| run(s, links::mknod),
            "Requires a device node or a pipe.",
        )
        .args(args![
            ntype,
            major = { 0 },
            minor = { 0 },
            user = None,
            group = None,
            mode = "0600"
        ]),
        StateFunction::new(
            "not_cached",
            |s| run(s, cached::not_cached),
            "Requires that a file is not in the minion's cache.",
        )
        .args(args![saltenv = "base"]),
        StateFunction::new("patch", |s| run(s, patch::patch), "Applies a patch file.")
            .args(args![
                source = None,
                source_hash = None,
                source_hash_name = None,
                skip_verify = False,
                template = None,
                context = None,
                defaults = None,
                options = "",
                reject_file = None,
                strip = None,
                saltenv = None
            ])
            .keywords(),
        StateFunction::new(
            "prepend",
            |s| run(s, append::prepend),
            "Prepends lines that a file does not have.",
        )
        .args(args![
            text = None,
            makedirs = False,
            source = None,
            source_hash = None,
            template = "jinja",
            sources = None,
            source_hashes = None,
            defaults = None,
            context = None,
            header = None,
            show_changes = True
        ]),
        StateFunction::new(
            "pruned",
            |s| run(s, pruned::pruned),
            "Removes empty directories.",
        )
        .args(args![
            recurse = False,
            ignore_errors = False,
            older_than = None
        ]),
        StateFunction::new(
            "recurse",
            |s| run(s, recurse::recurse),
            "Manages a directory tree by one of the file server.",
        )
        .args(args![
            source,
            keep_source = True,
            clean = False,
            require = None,
            user = None,
            group = None,
            dir_mode = None,
            file_mode = None,
            sym_mode = None,
            template = None,
            context = None,
            replace = True,
            defaults = None,
            include_empty = False,
            backup = "",
            include_pat = None,
            exclude_pat = None,
            maxdepth = None,
            keep_symlinks = False,
            force_symlinks = False,
            win_owner = None,
            win_perms = None,
            win_deny_perms = None,
            win_inheritance = True,
            merge = False
        ])
        .keywords(),
        StateFunction::new(
            "rename",
            |s| run(s, copy::rename),
            "Renames a file or a directory if it exists.",
        )
        .args(args![source, force = False, makedirs = False])
        .keywords(),
        StateFunction::new(
            "replace",
            |s| run(s, edit::replace),
            "Replaces matches of a pattern in a file.",
        )
        .args(args![
            pattern,
            repl,
            count = { 0 },
            flags = { 8 },
            bufsize = { 1 },
            append_if_not_found = False,
            prepend_if_not_found = False,
            not_found_content = None,
            backup = ".bak",
            show_changes = True,
            ignore_if_missing = False,
            backslash_literal = False,
            encoding = None
        ]),
        StateFunction::new(
            "retention_schedule",
            |s| run(s, retention::retention_schedule),
            "Removes old files of a directory by a schedule of what to keep.",
        )
        .args(args![retain, strptime_format = None, timezone = None]),
        StateFunction::new(
            "serialize",
            |s| run(s, serialize::serialize),
            "Writes data to a file in a format such as JSON or YAML.",
        )
        .args(args![
            dataset = None,
            dataset_pillar = None,
            user = None,
            group = None,
            mode = None,
            backup = "",
            makedirs = False,
            show_changes = True,
            create = True,
            merge_if_exists = False,
            encoding = None,
            encoding_errors = "strict",
            serializer = None,
            serializer_opts = None,
            deserializer_opts = None,
            check_cmd = None,
            tmp_dir = None,
            tmp_ext = ""
        ])
        .keywords(),
        StateFunction::new(
            "shortcut",
            |s| run(s, simple::shortcut),
            "Requires a shortcut of Windows.",
        )
        .args(args![
            target,
            arguments = None,
            working_dir = None,
            description = None,
            icon_location = None,
            force = False,
            backupname = None,
            makedirs = False,
            user = None
        ])
        .keywords(),
        StateFunction::new(
            "symlink",
            |s| run(s, symlink::symlink),
            "Requires a symbolic link.",
        )
        .args(args![
            target,
            force = False,
            backupname = None,
            makedirs = False,
            user = None,
            group = None,
            mode = None,
            win_owner = None,
            win_perms = None,
            win_deny_perms = None,
            win_inheritance = None,
            atomic = False,
            disallow_copy_and_unlink = False,
            inherit_user_and_group = False,
            follow_symlinks = True
        ])
        .keywords(),
        StateFunction::new(
            "tidied",
            |s| run(s, tidied::tidied),
            "Removes old or large files of a directory.",
        )
        .args(args![
            age = { 0 },
            matches = None,
            rmdirs = False,
            size = { 0 },
            exclude = None,
            full_path_match = False,
            followlinks = False,
            time_comparison = "atime",
            age_size_logical_operator = "OR",
            age_size_only = None,
            rmlinks = True
        ])
        .keywords(),
        StateFunction::new(
            "touch",
            |s| run(s, simple::touch),
            "Creates a file if it does not exist, and sets its times.",
        )
        .args(args![atime = None, mtime = None, makedirs = False]),
        StateFunction::new(
            "uncomment",
            |s| run(s, edit::uncomment),
            "Removes a character before lines that match a pattern.",
        )
        .args(args![regex, char = "#", backup = ".bak"]),
    ],
};
