//! The functions of `pkg` on the Red Hat family.

use super::{fetch, groups, holds, install, list, patches, remove, repos, upgrade};
use crate::execution::declare::{Arg, Function, Lit, Module, PACKAGES, opt, req, with_names};
use crate::execution::pkg::{lowpkg, rpm};

const NIL: Lit = Lit::Nil;
const NO: Lit = Lit::Bool(false);
const YES: Lit = Lit::Bool(true);
const REPO: &[Arg] = &[req("repo"), opt("basedir", NIL)];
const GROUP: &[Arg] = &[
    req("name"),
    opt("skip", Lit::Empty),
    opt("include", Lit::Empty),
];
const HOLDS: &[Arg] = &[opt("pattern", Lit::Str(holds::PATTERN)), opt("full", YES)];

/// `pkg` of the Red Hat family (`salt/modules/yumpkg.py`).
pub const MODULE: Module = Module {
    name: "pkg",
    functions: &with_names(
        PACKAGES,
        [
            Function::new(
                "list_pkgs",
                rpm::list_pkgs,
                "The installed packages with their versions.",
            )
            .args(&[opt("versions_as_list", NO)])
            .keywords(),
            Function::new(
                "version",
                rpm::version,
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
            .args(&[opt("refresh", YES)])
            .keywords(),
            Function::new(
                "list_updates",
                list::list_upgrades,
                "Alias of pkg.list_upgrades.",
            )
            .args(&[opt("refresh", YES)])
            .keywords(),
            Function::new(
                "list_repo_pkgs",
                list::list_repo_pkgs,
                "The versions of packages in the repositories.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "list_downloaded",
                list::list_downloaded,
                "The downloaded package files in the cache.",
            )
            .keywords(),
            Function::new(
                "info_installed",
                list::info_installed,
                "Data of installed packages.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "version_cmp",
                rpm::version_cmp,
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
                rpm::parse_arch,
                "The name and the architecture in a package's name.",
            )
            .args(&[req("name")]),
            Function::new(
                "refresh_db",
                list::refresh_db,
                "Checks for updates: true if there are any, nothing otherwise.",
            )
            .keywords(),
            Function::new(
                "clean_metadata",
                list::refresh_db,
                "Alias of pkg.refresh_db.",
            )
            .keywords(),
            Function::new(
                "install",
                install::install,
                "Installs packages; returns the changes.",
            )
            .args(&[
                opt("name", NIL),
                opt("refresh", NO),
                opt("skip_verify", NO),
                opt("pkgs", NIL),
                opt("sources", NIL),
                opt("downloadonly", NO),
                opt("reinstall", NO),
                opt("normalize", YES),
                opt("update_holds", NO),
                opt("saltenv", Lit::Str("base")),
                opt("ignore_epoch", NO),
            ])
            .keywords(),
            Function::new(
                "upgrade",
                upgrade::upgrade,
                "Upgrades all or some packages; returns the changes.",
            )
            .args(&[
                opt("name", NIL),
                opt("pkgs", NIL),
                opt("refresh", YES),
                opt("skip_verify", NO),
                opt("normalize", YES),
                opt("minimal", NO),
                opt("obsoletes", YES),
                opt("diff_attr", NIL),
            ])
            .keywords(),
            Function::new(
                "update",
                upgrade::upgrade,
                "Upgrades packages without replacing obsolete ones.",
            )
            .args(&[
                opt("name", NIL),
                opt("pkgs", NIL),
                opt("refresh", YES),
                opt("skip_verify", NO),
                opt("normalize", YES),
                opt("minimal", NO),
                opt("obsoletes", NO),
            ])
            .keywords(),
            Function::new(
                "remove",
                remove::remove,
                "Removes packages; returns the changes.",
            )
            .args(&[opt("name", NIL), opt("pkgs", NIL)])
            .keywords(),
            Function::new("purge", remove::purge, "Alias of pkg.remove.")
                .args(&[opt("name", NIL), opt("pkgs", NIL)])
                .keywords(),
            Function::new("hold", holds::hold, "Holds packages at their versions.")
                .args(&[
                    opt("name", NIL),
                    opt("pkgs", NIL),
                    opt("sources", NIL),
                    opt("normalize", YES),
                ])
                .keywords(),
            Function::new("unhold", holds::unhold, "Allows packages to change again.")
                .args(&[opt("name", NIL), opt("pkgs", NIL), opt("sources", NIL)])
                .keywords(),
            Function::new("list_holds", holds::list_holds, "The held packages.").args(HOLDS),
            Function::new(
                "get_locked_packages",
                holds::list_holds,
                "Alias of pkg.list_holds.",
            )
            .args(HOLDS),
            Function::new(
                "verify",
                lowpkg::verify,
                "The files of packages that differ from the installed ones.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "modified",
                lowpkg::modified,
                "The changed files of packages, by type of change.",
            )
            .varargs()
            .keywords(),
            Function::new("owner", rpm::owner, "The packages that own files.")
                .varargs()
                .keywords(),
            Function::new(
                "file_list",
                rpm::file_list,
                "The files of packages, in one list.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "file_dict",
                rpm::file_dict,
                "The files of packages, by package.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "group_list",
                groups::group_list,
                "The available package groups.",
            ),
            Function::new("group_info", groups::group_info, "The packages of a group.")
                .args(&[req("name"), opt("expand", NO), opt("ignore_groups", NIL)])
                .keywords(),
            Function::new(
                "group_diff",
                groups::group_diff,
                "The installed and missing packages of a group.",
            )
            .args(&[req("name")])
            .keywords(),
            Function::new(
                "group_install",
                groups::group_install,
                "Installs the packages of groups; returns the changes.",
            )
            .args(GROUP)
            .keywords(),
            Function::new(
                "groupinstall",
                groups::group_install,
                "Alias of pkg.group_install.",
            )
            .args(GROUP)
            .keywords(),
            Function::new(
                "list_repos",
                repos::list_repos,
                "The configured repositories.",
            )
            .args(&[opt("basedir", NIL)])
            .keywords(),
            Function::new("get_repo", repos::get_repo, "One configured repository.")
                .args(REPO)
                .keywords(),
            Function::new("del_repo", repos::del_repo, "Removes a repository.")
                .args(REPO)
                .keywords(),
            Function::new("mod_repo", repos::mod_repo, "Adds or changes a repository.")
                .args(REPO)
                .keywords(),
            Function::new(
                "download",
                fetch::download,
                "Downloads package files; returns their paths.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "diff",
                fetch::diff,
                "The differences between files and those in their packages.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "list_patches",
                patches::list_patches,
                "The advisories for this host's packages.",
            )
            .args(&[opt("refresh", NO)])
            .keywords(),
            Function::new(
                "list_installed_patches",
                patches::list_installed_patches,
                "The installed advisories.",
            )
            .keywords(),
            Function::new(
                "services_need_restart",
                patches::services_need_restart,
                "Services that use replaced files.",
            )
            .keywords(),
        ],
    ),
};
