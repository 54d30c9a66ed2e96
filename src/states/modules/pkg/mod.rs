//! `pkg`: installed, removed, held and upgraded packages (`salt/states/pkg.py`).
//!
//! Lists of packages come from the execution module, which keeps the one of the host until that changes.

mod aggregate;
mod hold;
mod install;
mod latest;
mod remove;
mod upgrade;
mod wanted;

use super::mod_beacon;
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_config::paths::minion::cache;
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub(super) use aggregate::joined;

const REMOVED: &[Arg] = args![
    version = None,
    pkgs = None,
    normalize = True,
    ignore_epoch = None
];

pub(super) const MODULE: StateModule = StateModule {
    name: "pkg",
    functions: &[
        StateFunction::new(
            "installed",
            install::installed,
            "Ensures that packages are installed, in versions.",
        )
        .args(args![
            version = None,
            refresh = None,
            fromrepo = None,
            skip_verify = False,
            skip_suggestions = False,
            pkgs = None,
            sources = None,
            allow_updates = False,
            pkg_verify = False,
            normalize = True,
            ignore_epoch = None,
            reinstall = False,
            update_holds = False
        ])
        .keywords(),
        StateFunction::new(
            "downloaded",
            install::downloaded,
            "Ensures that packages are downloaded.",
        )
        .args(args![
            version = None,
            pkgs = None,
            fromrepo = None,
            ignore_epoch = None
        ])
        .keywords(),
        StateFunction::new(
            "latest",
            latest::latest,
            "Ensures that packages are installed in their newest version.",
        )
        .args(args![
            refresh = None,
            fromrepo = None,
            skip_verify = False,
            pkgs = None,
            watch_flags = True
        ])
        .keywords(),
        StateFunction::new(
            "removed",
            |s| remove::removed(s, remove::Way::Remove),
            "Ensures that packages are not installed.",
        )
        .args(REMOVED)
        .keywords(),
        StateFunction::new(
            "purged",
            |s| remove::removed(s, remove::Way::Purge),
            "Ensures that packages are not installed, and their configuration neither.",
        )
        .args(REMOVED)
        .keywords(),
        StateFunction::new(
            "uptodate",
            upgrade::uptodate,
            "Ensures that all packages are up to date.",
        )
        .args(args![refresh = False, pkgs = None])
        .keywords(),
        StateFunction::new(
            "held",
            |s| hold::held(s, true),
            "Ensures that packages are held at their versions.",
        )
        .args(args![version = None, pkgs = None, replace = False])
        .keywords(),
        StateFunction::new(
            "unheld",
            |s| hold::held(s, false),
            "Ensures that packages are not held.",
        )
        .args(args![version = None, pkgs = None, all = False])
        .keywords(),
        StateFunction::new(
            "group_installed",
            upgrade::group_installed,
            "Ensures that a group of packages is installed.",
        )
        .args(args![skip = None, include = None])
        .keywords(),
        StateFunction::new(
            "patch_installed",
            |s| upgrade::patches(s, false),
            "Ensures that advisory patches are installed.",
        )
        .args(args![advisory_ids = None, downloadonly = None])
        .keywords(),
        StateFunction::new(
            "patch_downloaded",
            |s| upgrade::patches(s, true),
            "Ensures that advisory patches are downloaded.",
        )
        .args(args![advisory_ids = None])
        .keywords(),
        StateFunction::new("mod_beacon", mod_beacon::pkg, mod_beacon::DOC).keywords(),
        StateFunction::new(
            "mod_init",
            mod_init,
            "Has the first installation of a run refresh the package lists.",
        )
        .keywords(),
        StateFunction::new(
            "mod_watch",
            mod_watch,
            "Installs or removes packages after a change.",
        )
        .keywords(),
    ],
};

/// Asks for a refresh with a file, which whoever refreshes removes.
fn mod_init(s: &mut State<'_, '_>) -> Result {
    if !matches!(s.low.str("fun"), Some("installed" | "latest")) {
        return Ok(StateOutcome::bad(""));
    }
    let path = cache::pkg_refresh(&s.ctx().cachedir);
    if let Some(dir) = path.parent() {
        // Without it the file cannot be written either, which is told below.
        let _ = std::fs::create_dir_all(dir);
    }
    if let Err(e) = std::fs::write(&path, "") {
        log::warn!("{}: {e}", path.display());
    }
    Ok(StateOutcome::good(""))
}

/// Whether to refresh the package lists: as declared, else once per run.
fn refresh(s: &State<'_, '_>) -> bool {
    match s.arg("refresh") {
        Value::Nil => cache::pkg_refresh(&s.ctx().cachedir).exists(),
        Value::Str(text) => matches!(text.to_lowercase().as_str(), "yes" | "on" | "true" | "1"),
        other => other.truthy(),
    }
}

/// The functions that a watch calls again.
const WATCHING: [&str; 4] = ["installed", "latest", "removed", "purged"];

/// Calls the function of the state that watches.
fn mod_watch(s: &mut State<'_, '_>) -> Result {
    let sfun = s.low.get("sfun").map(python::str);
    let sfun = sfun.unwrap_or_else(|| "None".to_owned());
    let known = WATCHING.contains(&sfun.as_str());
    match MODULE.function(&sfun).filter(|_| known) {
        Some(function) => {
            let mut low = s.low.clone();
            low.remove("sfun");
            s.run_declared(function, &low)
        }
        None => Ok(StateOutcome::bad(format!(
            "pkg.{sfun} does not work with the watch requisite"
        ))),
    }
}

/// What a program of the package manager has said, and the changes that there were nevertheless.
fn with_changes(text: &str, changes: Map) -> StateOutcome {
    StateOutcome::bad(without_changes(text)).changes(changes)
}

/// The text of an error without the changes in its data.
fn without_changes(text: &str) -> String {
    const INFO: &str = "Additional info follows:\n\n";
    let cut = text.split_once(INFO).and_then(|(head, data)| {
        let rest = data.strip_prefix("changes:\n")?;
        let at = rest.find("\nerrors:\n")?;
        Some(format!("{head}{INFO}{}", &rest[at + 1..]))
    });
    cut.unwrap_or_else(|| text.to_owned())
}

/// The message of an error of the package manager; other errors go on.
fn message(fault: CallError) -> Result<String> {
    match fault {
        CallError::Command(text) => Ok(text),
        fault => Err(fault),
    }
}

/// Whether `pkgs` is an empty list, which means nothing to do.
fn nothing(s: &State<'_, '_>) -> bool {
    s.arg("pkgs").as_array().is_some_and(<[_]>::is_empty)
}

#[cfg(test)]
mod tests {
    use super::without_changes;

    #[test]
    fn errors_lose_their_changes() {
        let text = "Problem. Additional info follows:\n\nchanges:\n    ----------\n    a:\n        ----------\nerrors:\n    - E";
        assert_eq!(
            without_changes(text),
            "Problem. Additional info follows:\n\nerrors:\n    - E"
        );
        assert_eq!(without_changes("x"), "x");
    }
}
