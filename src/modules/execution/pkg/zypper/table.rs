//! The functions of `pkg` on hosts with zypper.

use super::{files, find, install, list, locks, repos};
use crate::execution::declare::{Function, Module, PACKAGES, args, with_names};
use crate::execution::pkg::{lowpkg, rpm};

/// `pkg` of SUSE.
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
            .args(args![
                versions_as_list = False,
                root = None,
                includes = None
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
            .inner("latest_version")
            .varargs()
            .keywords(),
            Function::new(
                "upgrade_available",
                list::upgrade_available,
                "Whether a package can be upgraded.",
            )
            .args(args![name])
            .keywords(),
            Function::new(
                "list_upgrades",
                list::list_upgrades,
                "The packages that can be upgraded, with their new versions.",
            )
            .args(args![refresh = True, root = None])
            .keywords(),
            Function::new(
                "list_updates",
                list::list_upgrades,
                "Alias of pkg.list_upgrades.",
            )
            .inner("list_upgrades")
            .args(args![refresh = True, root = None])
            .keywords(),
            Function::new(
                "list_repo_pkgs",
                list::list_repo_pkgs,
                "The versions of packages in the repositories.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "list_provides",
                list::list_provides,
                "The capabilities of installed packages other than their names, with the packages.",
            )
            .args(args![root = None])
            .keywords(),
            Function::new(
                "list_downloaded",
                list::list_downloaded,
                "The downloaded package files in the cache.",
            )
            .args(args![root = None])
            .keywords(),
            Function::new(
                "info_installed",
                list::info_installed,
                "Data of installed packages.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "info_available",
                list::info_available,
                "Repository data of packages.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "version_cmp",
                list::version_cmp,
                "Compares two versions: -1, 0 or 1.",
            )
            .args(args![ver1, ver2, ignore_epoch = False])
            .keywords(),
            Function::new(
                "normalize_name",
                list::normalize_name,
                "A package's name without the host's architecture.",
            )
            .args(args![name]),
            Function::new(
                "parse_arch",
                rpm::parse_arch,
                "The name and the architecture in a package's name.",
            )
            .args(args![name]),
            Function::new(
                "refresh_db",
                repos::refresh_db,
                "Refreshes the repositories; returns for each whether it is new.",
            )
            .args(args![force = None, root = None, gpgautoimport = False])
            .keywords(),
            Function::new(
                "list_repos",
                repos::list_repos,
                "The configured repositories.",
            )
            .args(args![root = None])
            .keywords(),
            Function::new("get_repo", repos::get_repo, "One configured repository.")
                .args(args![repo, root = None])
                .keywords(),
            Function::new("del_repo", repos::del_repo, "Removes a repository.")
                .args(args![repo, root = None]),
            Function::new("mod_repo", repos::mod_repo, "Adds or changes a repository.")
                .args(args![repo])
                .keywords(),
            Function::new(
                "install",
                install::install,
                "Installs packages; returns the changes.",
            )
            .args(args![
                name = None,
                refresh = False,
                fromrepo = None,
                pkgs = None,
                sources = None,
                downloadonly = None,
                skip_verify = False,
                version = None,
                ignore_repo_failure = False,
                no_recommends = False,
                root = None,
            ])
            .keywords(),
            Function::new(
                "upgrade",
                install::upgrade,
                "Upgrades all or some packages; returns the changes.",
            )
            .args(args![
                name = None,
                pkgs = None,
                refresh = True,
                dryrun = False,
                dist_upgrade = False,
                fromrepo = None,
                novendorchange = False,
                skip_verify = False,
                no_recommends = False,
                root = None,
                diff_attr = None,
            ])
            .keywords(),
            Function::new(
                "remove",
                install::remove,
                "Removes packages; returns the changes.",
            )
            .args(args![name = None, pkgs = None, root = None])
            .keywords(),
            Function::new(
                "purge",
                install::remove,
                "Like pkg.remove: zypper has no purge.",
            )
            .args(args![name = None, pkgs = None, root = None])
            .keywords(),
            Function::new("hold", locks::hold, "Holds packages at their versions.")
                .args(args![name = None, pkgs = None, root = None])
                .keywords(),
            Function::new("unhold", locks::unhold, "Allows packages to change again.")
                .args(args![name = None, pkgs = None, root = None])
                .keywords(),
            Function::new("list_holds", locks::list_holds, "The held packages.")
                .args(args![pattern = None, full = True, root = None])
                .keywords(),
            Function::new(
                "list_locks",
                locks::list_locks,
                "The locks of zypper by name.",
            )
            .args(args![root = None]),
            Function::new(
                "clean_locks",
                locks::clean_locks,
                "Removes unused locks; returns their number.",
            )
            .args(args![root = None]),
            Function::new(
                "verify",
                lowpkg::verify,
                "The files that differ from the installed ones.",
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
            Function::new("owner", rpm::owner, "The packages that own files.")
                .varargs()
                .keywords(),
            Function::new(
                "download",
                files::download,
                "Downloads package files; returns their paths.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "diff",
                files::diff,
                "The differences between files and those in their packages.",
            )
            .varargs()
            .keywords(),
            Function::new(
                "search",
                find::search,
                "The packages that match search criteria.",
            )
            .args(args![criteria, refresh = False])
            .keywords(),
            Function::new(
                "resolve_capabilities",
                find::resolve_capabilities,
                "Package names, with capabilities replaced by the packages that provide them.",
            )
            .args(args![pkgs, refresh = False, root = None])
            .keywords(),
            Function::new(
                "list_patterns",
                find::list_patterns,
                "The patterns and whether they are installed.",
            )
            .args(args![refresh = False, root = None]),
            Function::new(
                "list_installed_patterns",
                find::list_installed_patterns,
                "The installed patterns.",
            )
            .args(args![root = None]),
            Function::new(
                "list_patches",
                find::list_patches,
                "The patches and whether they are installed.",
            )
            .args(args![refresh = False, root = None])
            .keywords(),
            Function::new(
                "list_installed_patches",
                find::list_installed_patches,
                "The installed patches.",
            )
            .args(args![root = None])
            .keywords(),
            Function::new(
                "list_products",
                find::list_products,
                "The installed products, or all available ones.",
            )
            .args(args![all = False, refresh = False, root = None]),
            Function::new(
                "services_need_restart",
                find::services_need_restart,
                "Services that use replaced files.",
            )
            .args(args![root = None])
            .keywords(),
        ],
    ),
};
