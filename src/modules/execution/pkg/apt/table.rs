//! The functions of `pkg` on Debian.

use super::{dpkg, info, install, keys, list, modify, repos, selections};
use crate::execution::declare::{Arg, Function, Lit, Module, PACKAGES, opt, req, with_names};

const NIL: Lit = Lit::Nil;
const NO: Lit = Lit::Bool(false);
const YES: Lit = Lit::Bool(true);
const TARGETS: &[Arg] = &[opt("name", NIL), opt("pkgs", NIL)];
const HELD: &[Arg] = &[opt("name", NIL), opt("pkgs", NIL), opt("sources", NIL)];

/// `pkg` of Debian (`salt/modules/aptpkg.py`).
pub const MODULE: Module = Module {
    name: "pkg",
    functions: &with_names(
        PACKAGES,
        [
            Function::new(
                "list_pkgs",
                list::list_pkgs,
                "The installed packages with their versions.",
            )
            .args(&[
                opt("versions_as_list", NO),
                opt("removed", NO),
                opt("purge_desired", NO),
            ])
            .keywords(),
            Function::new(
                "version",
                list::version,
                "The installed versions of packages; names may be globs.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "latest_version",
                list::latest_version,
                "The available newer versions of packages; empty if up to date.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "available_version",
                list::latest_version,
                "Alias of pkg.latest_version.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "upgrade_available",
                list::upgrade_available,
                "Whether a package can be upgraded.",
            )
            .args(&[req("name")])
            .keywords(),
            Function::new(
                "list_upgrades",
                list::list_upgrades,
                "The packages that can be upgraded, with their new versions.",
            )
            .args(&[opt("refresh", YES), opt("dist_upgrade", YES)])
            .keywords(),
            Function::new(
                "version_cmp",
                list::version_cmp,
                "Compares two versions: -1, 0 or 1.",
            )
            .args(&[req("pkg1"), req("pkg2"), opt("ignore_epoch", NO)])
            .keywords(),
            Function::new(
                "normalize_name",
                list::normalize_name,
                "A package's name without the host's architecture.",
            )
            .args(&[req("name")]),
            Function::new(
                "parse_arch",
                list::parse_arch,
                "The name and the architecture in a package's name.",
            )
            .args(&[req("name")]),
            Function::new(
                "refresh_db",
                list::refresh_db,
                "Refreshes the package lists; returns for each whether it is new.",
            )
            .args(&[opt("cache_valid_time", Lit::Int(0)), opt("failhard", NO)])
            .keywords(),
            Function::new(
                "list_repo_pkgs",
                list::list_repo_pkgs,
                "The versions of packages in the repositories.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "install",
                install::install,
                "Installs packages; returns the changes.",
            )
            .args(&[
                opt("name", NIL),
                opt("refresh", NO),
                opt("fromrepo", NIL),
                opt("skip_verify", NO),
                opt("debconf", NIL),
                opt("pkgs", NIL),
                opt("sources", NIL),
                opt("reinstall", NO),
                opt("downloadonly", NO),
                opt("ignore_epoch", NO),
                opt("normalize", YES),
            ])
            .keywords(),
            Function::new(
                "remove",
                |c| install::uninstall(c, "remove"),
                "Removes packages; returns the changes.",
            )
            .args(TARGETS)
            .keywords(),
            Function::new(
                "purge",
                |c| install::uninstall(c, "purge"),
                "Removes packages with their configuration; returns the changes.",
            )
            .args(TARGETS)
            .keywords(),
            Function::new(
                "upgrade",
                install::upgrade,
                "Upgrades all packages; returns the changes.",
            )
            .args(&[opt("refresh", YES), opt("dist_upgrade", NO)])
            .keywords(),
            Function::new(
                "autoremove",
                install::autoremove,
                "Removes packages no longer needed, or lists them.",
            )
            .args(&[opt("list_only", NO), opt("purge", NO)]),
            Function::new(
                "hold",
                selections::hold,
                "Holds packages at their versions.",
            )
            .args(HELD)
            .keywords(),
            Function::new(
                "unhold",
                selections::unhold,
                "Allows packages to change again.",
            )
            .args(HELD)
            .keywords(),
            Function::new(
                "get_selections",
                selections::get_selections,
                "The packages by dpkg selection state.",
            )
            .args(&[opt("pattern", NIL), opt("state", NIL)]),
            Function::new(
                "set_selections",
                selections::set_selections,
                "Sets the dpkg selection state of packages.",
            )
            .args(&[
                opt("path", NIL),
                opt("selection", NIL),
                opt("clear", NO),
                opt("saltenv", Lit::Str("base")),
            ]),
            Function::new("owner", info::owner, "The packages that own files.")
                .varargs()
                .keywords(),
            Function::new("which", info::which, "The package that owns a file.")
                .args(&[req("path")]),
            Function::new(
                "show",
                info::show,
                "Repository data of packages, by version.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "info_installed",
                dpkg::info_installed,
                "Data of installed packages.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "file_list",
                dpkg::file_list,
                "The files of packages, in one list.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "file_dict",
                dpkg::file_dict,
                "The files of packages, by package.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "list_downloaded",
                info::list_downloaded,
                "The downloaded package files in the cache.",
            )
            .args(&[opt("root", NIL)])
            .keywords(),
            Function::new(
                "services_need_restart",
                info::services_need_restart,
                "Services that use replaced files.",
            )
            .keywords(),
            Function::new(
                "list_repos",
                repos::list_repos,
                "The configured repositories.",
            )
            .keywords(),
            Function::new("get_repo", repos::get_repo, "One configured repository.")
                .args(&[req("repo")])
                .keywords(),
            Function::new("del_repo", repos::del_repo, "Removes a repository.")
                .args(&[req("repo")])
                .keywords(),
            Function::new(
                "mod_repo",
                modify::mod_repo,
                "Adds or changes a repository.",
            )
            .args(&[
                req("repo"),
                opt("saltenv", Lit::Str("base")),
                opt("aptkey", YES),
            ])
            .keywords(),
            Function::new(
                "get_repo_keys",
                keys::get_repo_keys,
                "The trusted repository keys.",
            )
            .args(&[opt("aptkey", YES), opt("keydir", NIL)]),
            Function::new(
                "add_repo_key",
                keys::add_repo_key,
                "Adds a trusted repository key.",
            )
            .args(&[
                opt("path", NIL),
                opt("text", NIL),
                opt("keyserver", NIL),
                opt("keyid", NIL),
                opt("saltenv", Lit::Str("base")),
                opt("aptkey", YES),
                opt("keydir", NIL),
                opt("keyfile", NIL),
            ]),
            Function::new(
                "del_repo_key",
                keys::del_repo_key,
                "Removes a trusted repository key.",
            )
            .args(&[opt("name", NIL), opt("aptkey", YES), opt("keydir", NIL)])
            .keywords(),
        ],
    ),
};
