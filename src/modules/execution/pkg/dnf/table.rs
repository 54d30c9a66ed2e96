//! The functions of `pkg` on Debian.

use super::{fetch, groups, holds, install, list, patches, remove, repos, upgrade};
use crate::execution::declare::{Arg, Function, Lit, Module, opt, req};
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
    functions: &[
        Function::new("list_pkgs", rpm::list_pkgs, "The installed packages with their versions.")
            .args(&[opt("versions_as_list", NO)])
            .keywords(),
        Function::new("version", rpm::version, "The installed versions of packages; names may be globs.")
            .varargs()
            .keywords(),
        Function::new("latest_version", list::latest_version, "The versions that packages could be installed or upgraded in; empty where they are as new.")
            .varargs()
            .keywords(),
        Function::new("available_version", list::latest_version, "Another name of pkg.latest_version.")
            .varargs()
            .keywords(),
        Function::new("upgrade_available", list::upgrade_available, "Whether a package could be upgraded.")
            .args(&[req("name")])
            .keywords(),
        Function::new("list_upgrades", list::list_upgrades, "The packages that could be upgraded, with their new versions.")
            .args(&[opt("refresh", YES)])
            .keywords(),
        Function::new("list_updates", list::list_upgrades, "Another name of pkg.list_upgrades.")
            .args(&[opt("refresh", YES)])
            .keywords(),
        Function::new("list_repo_pkgs", list::list_repo_pkgs, "The versions of packages in the repositories.")
            .varargs()
            .keywords(),
        Function::new("list_downloaded", list::list_downloaded, "The package files that lie in the cache.").keywords(),
        Function::new("info_installed", list::info_installed, "What is known of installed packages.")
            .varargs()
            .keywords(),
        Function::new("version_cmp", rpm::version_cmp, "Compares two versions: -1, 0 or 1.")
            .args(&[req("pkg1"), req("pkg2"), opt("ignore_epoch", NO)])
            .keywords(),
        Function::new("normalize_name", list::normalize_name, "The name of a package without the architecture of the host.")
            .args(&[req("name")]),
        Function::new("parse_arch", rpm::parse_arch, "The name and the architecture in a package's name.")
            .args(&[req("name")]),
        Function::new("refresh_db", list::refresh_db, "Looks for new lists of packages: true with updates, nothing without.").keywords(),
        Function::new("clean_metadata", list::refresh_db, "Another name of pkg.refresh_db.").keywords(),
        Function::new("install", install::install, "Installs packages; what changed.")
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
        Function::new("upgrade", upgrade::upgrade, "Upgrades all packages, or some; what changed.")
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
        Function::new("update", upgrade::upgrade, "Upgrades packages without replacing obsolete ones.")
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
        Function::new("remove", remove::remove, "Removes packages; what changed.")
            .args(&[opt("name", NIL), opt("pkgs", NIL)])
            .keywords(),
        Function::new("purge", remove::purge, "Another name of pkg.remove.")
            .args(&[opt("name", NIL), opt("pkgs", NIL)])
            .keywords(),
        Function::new("hold", holds::hold, "Keeps packages in their versions.")
            .args(&[opt("name", NIL), opt("pkgs", NIL), opt("sources", NIL), opt("normalize", YES)])
            .keywords(),
        Function::new("unhold", holds::unhold, "Lets packages change again.")
            .args(&[opt("name", NIL), opt("pkgs", NIL), opt("sources", NIL)])
            .keywords(),
        Function::new("list_holds", holds::list_holds, "The packages that are held.").args(HOLDS),
        Function::new("get_locked_packages", holds::list_holds, "Another name of pkg.list_holds.").args(HOLDS),
        Function::new("verify", lowpkg::verify, "The files of packages that are not as they were installed.")
            .varargs()
            .keywords(),
        Function::new("modified", lowpkg::modified, "The files of packages that have changed, and what of them.")
            .varargs()
            .keywords(),
        Function::new("owner", rpm::owner, "The packages that files belong to.").varargs().keywords(),
        Function::new("file_list", rpm::file_list, "The files of packages, in one list.").varargs().keywords(),
        Function::new("file_dict", rpm::file_dict, "The files of packages, per package.").varargs().keywords(),
        Function::new("group_list", groups::group_list, "The groups of packages that are there."),
        Function::new("group_info", groups::group_info, "The packages of a group.")
            .args(&[req("name"), opt("expand", NO), opt("ignore_groups", NIL)])
            .keywords(),
        Function::new("group_diff", groups::group_diff, "Which packages of a group are installed, and which not.")
            .args(&[req("name")])
            .keywords(),
        Function::new("group_install", groups::group_install, "Installs the packages of groups; what changed.")
            .args(GROUP)
            .keywords(),
        Function::new("groupinstall", groups::group_install, "Another name of pkg.group_install.")
            .args(GROUP)
            .keywords(),
        Function::new("list_repos", repos::list_repos, "The configured repositories.").args(&[opt("basedir", NIL)]).keywords(),
        Function::new("get_repo", repos::get_repo, "One configured repository.").args(REPO).keywords(),
        Function::new("del_repo", repos::del_repo, "Removes a repository.").args(REPO).keywords(),
        Function::new("mod_repo", repos::mod_repo, "Adds or changes a repository.").args(REPO).keywords(),
        Function::new("download", fetch::download, "Fetches package files without installing them; where they lie.")
            .varargs()
            .keywords(),
        Function::new("diff", fetch::diff, "How files differ from those in their packages.").varargs().keywords(),
        Function::new("list_patches", patches::list_patches, "The advisories about packages of this host.")
            .args(&[opt("refresh", NO)])
            .keywords(),
        Function::new("list_installed_patches", patches::list_installed_patches, "The advisories that are followed.").keywords(),
        Function::new("services_need_restart", patches::services_need_restart, "Services that run with files which were replaced.")
            .keywords(),
    ],
};
