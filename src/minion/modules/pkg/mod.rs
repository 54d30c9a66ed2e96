//! `pkg`: packages, by apt, dnf (yum) or zypper. Which of them, the grain `os_family` says; functions
//! that only one of them has are not available with the others.

mod apt;
mod common;
mod dnf;
mod loose;
mod lowpkg;
mod rpm;
mod zypper;

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, Fault};

const NIL: Lit = Lit::Nil;
const NO: Lit = Lit::Bool(false);
const YES: Lit = Lit::Bool(true);

/// Systems with dnf or yum that are of no family.
const YUM: [&str; 8] = [
    "Amazon",
    "XCP",
    "XenServer",
    "VirtuozzoLinux",
    "Virtuozzo",
    "Issabel PBX",
    "openEuler",
    "VMware Photon OS",
];

type Run = fn(&mut Call<'_>) -> Result;

/// The functions of a family that has a table of its own.
pub(super) fn of_family(grains: &crate::wire::Map) -> Option<&'static Module> {
    (grains.str("os_family") == Some("Suse")).then_some(&zypper::MODULE)
}

/// The tables of all families beside the shared one.
pub(super) const FAMILIES: &[Module] = &[zypper::MODULE];

/// Runs what the family of this host has.
fn with(call: &mut Call<'_>, apt: Option<Run>, dnf: Option<Run>, zypper: Option<Run>) -> Result {
    let family = call.ctx.grains.str("os_family").unwrap_or_default();
    let run = match family {
        "Debian" => apt,
        "RedHat" => dnf,
        "Suse" => zypper,
        _ if YUM.contains(&call.ctx.grains.str("os").unwrap_or_default()) => dnf,
        _ => None,
    };
    match run {
        Some(run) => run(call),
        None => Err(Fault::Missing(format!(
            "'pkg.{}' is not available.",
            call.function.name
        ))),
    }
}

const TARGETS: &[Arg] = &[opt("name", NIL), opt("pkgs", NIL)];
const HELD: &[Arg] = &[opt("name", NIL), opt("pkgs", NIL), opt("sources", NIL)];

pub(super) const MODULE: Module = Module {
    name: "pkg",
    functions: &[
        Function::new("list_pkgs", |c| with(c, Some(apt::list::list_pkgs), Some(rpm::list_pkgs), Some(rpm::list_pkgs)), "The installed packages with their versions.")
            .args(&[opt("versions_as_list", NO), opt("removed", NO), opt("purge_desired", NO)])
            .keywords(),
        Function::new("version", |c| with(c, Some(apt::list::version), Some(rpm::version), Some(rpm::version)), "The installed versions of packages; names may be globs.")
            .varargs()
            .keywords(),
        Function::new("latest_version", |c| with(c, Some(apt::list::latest_version), Some(dnf::latest_version), None), "The versions that packages could be installed or upgraded in; empty where they are as new.")
            .varargs()
            .keywords(),
        Function::new("available_version", |c| with(c, Some(apt::list::latest_version), Some(dnf::latest_version), None), "Another name of pkg.latest_version.")
            .varargs()
            .keywords(),
        Function::new("upgrade_available", |c| with(c, Some(apt::list::upgrade_available), Some(dnf::upgrade_available), None), "Whether a package could be upgraded.")
            .args(&[req("name")])
            .keywords(),
        Function::new("list_upgrades", |c| with(c, Some(apt::list::list_upgrades), Some(dnf::list_upgrades), None), "The packages that could be upgraded, with their new versions.")
            .args(&[opt("refresh", YES), opt("dist_upgrade", YES)])
            .keywords(),
        Function::new("version_cmp", |c| with(c, Some(apt::list::version_cmp), Some(rpm::version_cmp), Some(rpm::version_cmp)), "Compares two versions: -1, 0 or 1.")
            .args(&[req("pkg1"), req("pkg2"), opt("ignore_epoch", NO)])
            .keywords(),
        Function::new("normalize_name", |c| with(c, Some(apt::list::normalize_name), Some(dnf::normalize_name), None), "The name of a package without the architecture of the host.")
            .args(&[req("name")]),
        Function::new("parse_arch", |c| with(c, Some(apt::list::parse_arch), Some(rpm::parse_arch), Some(rpm::parse_arch)), "The name and the architecture in a package's name.")
            .args(&[req("name")]),
        Function::new("refresh_db", |c| with(c, Some(apt::list::refresh_db), Some(dnf::refresh_db), None), "Fetches the lists of packages; per list whether it is new.")
            .args(&[opt("cache_valid_time", Lit::Int(0)), opt("failhard", NO)])
            .keywords(),
        Function::new("list_repo_pkgs", |c| with(c, Some(apt::list::list_repo_pkgs), None, None), "The versions of packages in the repositories.")
            .varargs()
            .keywords(),
        Function::new("install", |c| with(c, Some(apt::install::install), Some(dnf::install), None), "Installs packages; what changed.")
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
        Function::new("remove", |c| with(c, Some(|c| apt::install::uninstall(c, "remove")), Some(dnf::remove), None), "Removes packages; what changed.")
            .args(TARGETS)
            .keywords(),
        Function::new("purge", |c| with(c, Some(|c| apt::install::uninstall(c, "purge")), Some(dnf::remove), None), "Removes packages with their configuration; what changed.")
            .args(TARGETS)
            .keywords(),
        Function::new("upgrade", |c| with(c, Some(apt::install::upgrade), Some(dnf::upgrade), None), "Upgrades all packages; what changed.")
            .args(&[opt("refresh", YES), opt("dist_upgrade", NO)])
            .keywords(),
        Function::new("autoremove", |c| with(c, Some(apt::install::autoremove), None, None), "Removes packages that nothing needs any more, or only lists them.")
            .args(&[opt("list_only", NO), opt("purge", NO)]),
        Function::new("hold", |c| with(c, Some(apt::selections::hold), None, None), "Keeps packages as they are.").args(HELD).keywords(),
        Function::new("unhold", |c| with(c, Some(apt::selections::unhold), None, None), "Lets packages change again.").args(HELD).keywords(),
        Function::new("get_selections", |c| with(c, Some(apt::selections::get_selections), None, None), "The packages by what dpkg shall do with them.")
            .args(&[opt("pattern", NIL), opt("state", NIL)]),
        Function::new("set_selections", |c| with(c, Some(apt::selections::set_selections), None, None), "Sets what dpkg shall do with packages.")
            .args(&[opt("path", NIL), opt("selection", NIL), opt("clear", NO), opt("saltenv", Lit::Str("base"))]),
        Function::new("owner", |c| with(c, Some(apt::info::owner), Some(rpm::owner), Some(rpm::owner)), "The packages that files belong to.").varargs().keywords(),
        Function::new("which", |c| with(c, Some(apt::info::which), None, None), "The package that a file belongs to.").args(&[req("path")]),
        Function::new("show", |c| with(c, Some(apt::info::show), None, None), "What the repositories say of packages, per version.")
            .varargs()
            .keywords(),
        Function::new("info_installed", |c| with(c, Some(apt::dpkg::info_installed), None, None), "What is known of installed packages.")
            .varargs()
            .keywords(),
        Function::new("file_list", |c| with(c, Some(apt::dpkg::file_list), Some(rpm::file_list), Some(rpm::file_list)), "The files of packages, in one list.").varargs().keywords(),
        Function::new("file_dict", |c| with(c, Some(apt::dpkg::file_dict), Some(rpm::file_dict), Some(rpm::file_dict)), "The files of packages, per package.").varargs().keywords(),
        Function::new("list_downloaded", |c| with(c, Some(apt::info::list_downloaded), None, None), "The package files that lie in the cache.")
            .args(&[opt("root", NIL)])
            .keywords(),
        Function::new("services_need_restart", |c| with(c, Some(apt::info::services_need_restart), None, None), "Services that run with files which were replaced.")
            .keywords(),
        Function::new("list_repos", |c| with(c, Some(apt::repos::list_repos), None, None), "The configured repositories.").keywords(),
        Function::new("get_repo", |c| with(c, Some(apt::repos::get_repo), None, None), "One configured repository.").args(&[req("repo")]).keywords(),
        Function::new("del_repo", |c| with(c, Some(apt::repos::del_repo), None, None), "Removes a repository.").args(&[req("repo")]).keywords(),
        Function::new("mod_repo", |c| with(c, Some(apt::modify::mod_repo), None, None), "Adds or changes a repository.")
            .args(&[req("repo"), opt("saltenv", Lit::Str("base")), opt("aptkey", YES)])
            .keywords(),
        Function::new("get_repo_keys", |c| with(c, Some(apt::keys::get_repo_keys), None, None), "The keys that repositories are trusted by.")
            .args(&[opt("aptkey", YES), opt("keydir", NIL)]),
        Function::new("add_repo_key", |c| with(c, Some(apt::keys::add_repo_key), None, None), "Adds a key that repositories are trusted by.")
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
        Function::new("del_repo_key", |c| with(c, Some(apt::keys::del_repo_key), None, None), "Removes a key that repositories are trusted by.")
            .args(&[opt("name", NIL), opt("aptkey", YES), opt("keydir", NIL)])
            .keywords(),
        Function::new("update", |c| with(c, None, Some(dnf::update), None), "Upgrades packages without removing obsolete ones; dnf only.")
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
        Function::new("clean_metadata", |c| with(c, None, Some(dnf::refresh_db), None), "Another name of pkg.refresh_db; dnf only.").keywords(),
        Function::new("list_updates", |c| with(c, None, Some(dnf::list_upgrades), None), "Another name of pkg.list_upgrades; dnf and zypper.")
            .args(&[opt("refresh", YES)])
            .keywords(),
    ],
};
