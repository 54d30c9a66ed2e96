//! The functions that `pkg` has here.

use super::{
    super::rpm, info_available, install, latest_version, list_upgrades, normalize_name, refresh_db,
    remove, upgrade, upgrade_available,
};
use crate::minion::modules::declare::{Function, Lit, Module, opt, req};

const NIL: Lit = Lit::Nil;
const NO: Lit = Lit::Bool(false);
const YES: Lit = Lit::Bool(true);

/// `pkg` of Suse (`salt/modules/zypperpkg.py`).
pub const MODULE: Module = Module {
    name: "pkg",
    functions: &[
        Function::new("list_pkgs", rpm::list_pkgs, "The installed packages with their versions.")
            .args(&[opt("versions_as_list", NO), opt("root", NIL), opt("includes", NIL)])
            .keywords(),
        Function::new("version", rpm::version, "The installed versions of packages; names may be globs.")
            .varargs()
            .keywords(),
        Function::new("latest_version", latest_version, "The versions that packages could be installed or upgraded in; empty where they are as new.")
            .varargs()
            .keywords(),
        Function::new("available_version", latest_version, "Another name of pkg.latest_version.")
            .varargs()
            .keywords(),
        Function::new("upgrade_available", upgrade_available, "Whether a package could be upgraded.")
            .args(&[req("name")])
            .keywords(),
        Function::new("list_upgrades", list_upgrades, "The packages that could be upgraded, with their new versions.")
            .args(&[opt("refresh", YES), opt("root", NIL)])
            .keywords(),
        Function::new("list_updates", list_upgrades, "Another name of pkg.list_upgrades.")
            .args(&[opt("refresh", YES), opt("root", NIL)])
            .keywords(),
        Function::new("version_cmp", rpm::version_cmp, "Compares two versions: -1, 0 or 1.")
            .args(&[req("ver1"), req("ver2"), opt("ignore_epoch", NO)])
            .keywords(),
        Function::new("normalize_name", normalize_name, "The name of a package without the architecture of the host.")
            .args(&[req("name")]),
        Function::new("parse_arch", rpm::parse_arch, "The name and the architecture in a package's name.")
            .args(&[req("name")]),
        Function::new("refresh_db", refresh_db, "Fetches the lists of packages; per list whether it is new.")
            .args(&[opt("force", NIL), opt("root", NIL), opt("gpgautoimport", NO)])
            .keywords(),
        Function::new("install", install, "Installs packages; what changed.")
            .args(&[
                opt("name", NIL),
                opt("refresh", NO),
                opt("fromrepo", NIL),
                opt("pkgs", NIL),
                opt("sources", NIL),
                opt("downloadonly", NIL),
                opt("skip_verify", NO),
                opt("version", NIL),
                opt("ignore_repo_failure", NO),
                opt("no_recommends", NO),
                opt("root", NIL),
            ])
            .keywords(),
        Function::new("remove", remove, "Removes packages; what changed.")
            .args(&[opt("name", NIL), opt("pkgs", NIL), opt("root", NIL)])
            .keywords(),
        Function::new("purge", remove, "As pkg.remove.")
            .args(&[opt("name", NIL), opt("pkgs", NIL), opt("root", NIL)])
            .keywords(),
        Function::new("upgrade", upgrade, "Upgrades all packages; what changed.")
            .args(&[
                opt("name", NIL),
                opt("pkgs", NIL),
                opt("refresh", YES),
                opt("dryrun", NO),
                opt("dist_upgrade", NO),
                opt("fromrepo", NIL),
                opt("novendorchange", NO),
                opt("skip_verify", NO),
                opt("no_recommends", NO),
                opt("root", NIL),
                opt("diff_attr", NIL),
            ])
            .keywords(),
        Function::new("owner", rpm::owner, "The packages that files belong to.").varargs().keywords(),
        Function::new("file_list", rpm::file_list, "The files of packages, in one list.").varargs().keywords(),
        Function::new("file_dict", rpm::file_dict, "The files of packages, per package.").varargs().keywords(),
        Function::new("info_available", info_available, "What the repositories say of packages.")
            .varargs()
            .keywords(),
    ],
};
