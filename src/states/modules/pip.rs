//! `pip`: Python packages (`salt/states/pip_state.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::pip::version_key;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::cmp::Ordering;

const INSTALLED: &[Arg] = args![
    pkgs = None,
    requirements = None,
    bin_env = None,
    log = None,
    proxy = None,
    timeout = None,
    editable = None,
    find_links = None,
    index_url = None,
    extra_index_url = None,
    no_index = False,
    target = None,
    upgrade = False,
    force_reinstall = False,
    ignore_installed = False,
    exists_action = None,
    no_deps = False,
    install_options = None,
    global_options = None,
    user = None,
    cwd = None,
    pre_releases = False,
    cert = None,
    env_vars = None,
    trusted_host = None,
    no_cache_dir = False,
    cache_dir = None,
    no_binary = None,
    extra_args = None
];

pub(super) const MODULE: StateModule = StateModule {
    name: "pip",
    functions: &[
        StateFunction::new(
            "installed",
            installed,
            "Ensures that Python packages are installed.",
        )
        .args(INSTALLED)
        .keywords(),
        StateFunction::new(
            "removed",
            removed,
            "Ensures that a Python package is not installed.",
        )
        .args(args![
            requirements = None,
            bin_env = None,
            log = None,
            proxy = None,
            timeout = None,
            user = None,
            cwd = None,
            use_vt = False
        ]),
        StateFunction::new(
            "uptodate",
            uptodate,
            "Ensures that all Python packages are up to date.",
        )
        .args(args![
            bin_env = None,
            user = None,
            cwd = None,
            use_vt = False
        ]),
    ],
};

/// A requirement: `name[extra]>=1.0,<2.0`.
struct Requirement {
    /// As it was declared.
    text: String,
    /// The name as indexes compare it.
    key: String,
    /// Comparisons with versions.
    specs: Vec<(String, String)>,
    /// An address; its version is unknown.
    url: bool,
}

const SIGNS: [&str; 8] = ["===", "==", ">=", "<=", "!=", "~=", ">", "<"];

/// A name in lower case, with runs of `-`, `_` and `.` as one `-`.
fn normalized(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            other => out.extend(other.to_lowercase()),
        }
    }
    out
}

fn parse(text: &str) -> Result<Requirement, String> {
    let text = text.trim();
    if text.contains("://") {
        let egg = text.split_once("egg=").map_or(text, |(_, egg)| egg);
        let name = egg
            .split(['&', '=', '<', '>', '!', '['])
            .next()
            .unwrap_or_default();
        return Ok(Requirement {
            text: text.to_owned(),
            key: normalized(name),
            specs: Vec::new(),
            url: true,
        });
    }
    let end = text
        .find(['<', '>', '=', '!', '~', ';', ' '])
        .unwrap_or(text.len());
    let name = text[..end].split('[').next().unwrap_or_default();
    let rest = text[end..].split(';').next().unwrap_or_default();
    let mut specs = Vec::new();
    for part in rest.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let Some(sign) = SIGNS.iter().find(|sign| part.starts_with(**sign)) else {
            return Err(format!(
                "Invalid version specification in package {text}. '=' is not supported, use '==' instead."
            ));
        };
        specs.push(((*sign).to_owned(), part[sign.len()..].trim().to_owned()));
    }
    Ok(Requirement {
        text: text.to_owned(),
        key: normalized(name),
        specs,
        url: false,
    })
}

fn holds(own: &str, sign: &str, wanted: &str) -> bool {
    if let Some(head) = wanted.strip_suffix(".*") {
        let same = own == head || own.starts_with(&format!("{head}."));
        return if sign == "!=" { !same } else { same };
    }
    let order = version_key(own).cmp(&version_key(wanted));
    match sign {
        "===" => own == wanted,
        "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        ">=" => order != Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        "<" => order == Ordering::Less,
        "~=" => {
            let head = wanted.rsplit_once('.').map_or(wanted, |(head, _)| head);
            order != Ordering::Less && (own == head || own.starts_with(&format!("{head}.")))
        }
        _ => false,
    }
}

/// The installed packages by normalized name.
fn listed(s: &mut State<'_, '_>) -> Result<Vec<(String, String)>> {
    let kwargs = s.pick(&["bin_env", "user", "cwd", "env_vars"]);
    let all = s.salt_with("pip.list", Vec::new(), kwargs)?;
    let all = all.into_map().unwrap_or_default();
    let one =
        |(name, version): &(Value, Value)| (normalized(&python::str(name)), python::str(version));
    Ok(all.iter().map(one).collect())
}

/// A failed run of pip in words.
fn failure(ran: &Map) -> String {
    let text = |key: &str| ran.str(key).unwrap_or_default().to_owned();
    format!("Error: {} {}", text("stdout"), text("stderr"))
}

fn install(s: &mut State<'_, '_>, pkgs: Value) -> Result<Map> {
    let names: Vec<&str> = INSTALLED.iter().map(|arg| arg.name).collect();
    let mut kwargs = s.pick(&names);
    kwargs.set("pkgs", pkgs);
    kwargs.set("saltenv", s.saltenv());
    let ran = s.salt_with("pip.install", Vec::new(), kwargs)?;
    Ok(ran.into_map().unwrap_or_default())
}

fn installed(s: &mut State<'_, '_>) -> Result {
    let outcome = checked(s)?;
    Ok(match s.arg("pkgs") {
        Value::Array(list) if !list.is_empty() => {
            let names: Vec<String> = list.iter().map(python::str).collect();
            outcome.with("name", names.join(";"))
        }
        _ => outcome,
    })
}

fn checked(s: &mut State<'_, '_>) -> Result {
    if let Err(fault) = s.salt_with(
        "pip.version",
        Vec::new(),
        s.pick(&["bin_env", "user", "cwd"]),
    ) {
        return match fault {
            CallError::CommandNotFound(text) | CallError::Command(text) => Ok(StateOutcome::bad(
                format!("Error installing '{}': {text}", s.name()),
            )),
            fault => Err(fault),
        };
    }
    if s.flag("requirements") || s.flag("editable") {
        return files(s);
    }
    let wanted: Vec<String> = match s.arg("pkgs") {
        Value::Array(list) if !list.is_empty() => list.iter().map(python::str).collect(),
        _ => vec![s.name()],
    };
    let mut all = Vec::new();
    for text in &wanted {
        match parse(text) {
            Ok(one) => all.push(one),
            Err(why) => return Ok(StateOutcome::bad(why)),
        }
    }
    let before = listed(s)?;
    let again = s.flag("force_reinstall") || s.flag("ignore_installed");
    let upgrade = s.flag("upgrade");
    let (mut targets, mut there) = (Vec::new(), Vec::new());
    for one in &all {
        let own = before
            .iter()
            .find(|(name, _)| *name == one.key)
            .map(|(_, v)| v);
        let fits = own.is_some_and(|own| one.specs.iter().all(|(sign, v)| holds(own, sign, v)));
        // An upgrade of something without comparisons is for pip to decide.
        let pip_decides = upgrade && one.specs.iter().all(|(sign, _)| sign != "==");
        if fits && !again && !one.url && !pip_decides {
            there.push(format!("Python package {} was already installed", one.text));
        } else {
            targets.push(one);
        }
    }
    let done = "All specified packages are already installed";
    if targets.is_empty() {
        there.push(done.to_owned());
        return Ok(StateOutcome::good(there.join("\n")));
    }
    if s.test {
        let names: Vec<&str> = all.iter().map(|one| one.text.as_str()).collect();
        return Ok(StateOutcome::would(match names.as_slice() {
            [one] => format!("Python package {one} is set to be installed"),
            many => format!(
                "Python package(s) set to be installed:\n{}",
                many.join("\n")
            ),
        }));
    }
    let names: Vec<String> = targets.iter().map(|one| one.text.clone()).collect();
    let ran = install(s, names.clone().into())?;
    if ran.int("retcode") != Some(0) {
        let text = format!(
            "Failed to install packages: {}. {}",
            names.join(", "),
            failure(&ran)
        );
        return Ok(StateOutcome::bad(text));
    }
    let after = listed(s)?;
    let mut changes = Map::new();
    let mut missing = Vec::new();
    for one in &targets {
        let own = after.iter().find(|(name, _)| *name == one.key);
        let old = before.iter().find(|(name, _)| *name == one.key);
        match own {
            Some((name, version)) if again || own != old => {
                changes.set(format!("{name}=={version}"), "Installed");
            }
            Some(_) => {}
            None if one.url => {
                changes.set(format!("{}==???", one.text), "Installed");
            }
            None => missing.push(one.text.clone()),
        }
    }
    if !missing.is_empty() {
        let text = format!(
            "There was no error installing package(s) {} although it does not show when calling 'pip.freeze'.",
            missing.join(", ")
        );
        return Ok(StateOutcome::bad(text).changes(changes));
    }
    if changes.is_empty() && upgrade {
        for one in &targets {
            there.push(format!(
                "Python package {} was already installed and\nthe available upgrade doesn't fulfills the version \
                 requirements",
                one.text
            ));
        }
        there.push(format!("{done} and up-to-date"));
    } else {
        there.push("All packages were successfully installed".to_owned());
    }
    Ok(StateOutcome::good(there.join("\n")).changes(changes))
}

/// Requirements files and editable packages.
fn files(s: &mut State<'_, '_>) -> Result {
    let (files, editable) = (s.text("requirements"), s.text("editable"));
    if s.test {
        let mut lines = Vec::new();
        if let Some(files) = &files {
            lines.push(format!("Requirements file '{files}' will be processed."));
        }
        if let Some(editable) = &editable {
            lines.push(format!(
                "Package will be installed in editable mode (i.e. setuptools \"develop mode\") from {editable}."
            ));
        }
        return Ok(StateOutcome::would(lines.join(" ")));
    }
    let ran = install(s, Value::Nil)?;
    if ran.int("retcode") != Some(0) {
        let text = match (&files, &editable) {
            (Some(files), _) => {
                format!(
                    "Unable to process requirements file \"{files}\" {}",
                    failure(&ran)
                )
            }
            (_, editable) => format!(
                "Unable to install from VCS checkout {}. {}",
                editable.as_deref().unwrap_or_default(),
                failure(&ran)
            ),
        };
        return Ok(StateOutcome::bad(text));
    }
    let out = ran.str("stdout").unwrap_or_default();
    let installs = out
        .lines()
        .any(|line| line.starts_with("Successfully installed"));
    let mut lines = Vec::new();
    let mut changes = Map::new();
    if let Some(files) = &files {
        if installs {
            changes.set("requirements", true);
            lines.push(format!("Successfully processed requirements file {files}."));
        } else {
            lines.push("Requirements were already installed.".to_owned());
        }
    }
    if let Some(editable) = &editable {
        if installs {
            changes.set("editable", true);
        }
        lines.push(format!(
            "Package successfully installed from VCS checkout {editable}."
        ));
    }
    Ok(StateOutcome::good(lines.join(" ")).changes(changes))
}

fn removed(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let kwargs = s.pick(&["bin_env", "user", "cwd"]);
    let all = match s.salt_with("pip.list", Vec::new(), kwargs) {
        Ok(all) => all.into_map().unwrap_or_default(),
        Err(CallError::Command(text) | CallError::CommandNotFound(text)) => {
            return Ok(StateOutcome::bad(format!(
                "Error uninstalling '{name}': {text}"
            )));
        }
        Err(fault) => return Err(fault),
    };
    let there = |all: &Map| {
        let mut names = all.iter().map(|(n, _)| normalized(&python::str(n)));
        names.any(|n| n == normalized(&name))
    };
    if !there(&all) {
        return Ok(StateOutcome::good("Package is not installed."));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Package {name} is set to be removed"
        )));
    }
    let mut kwargs = s.pick(&[
        "requirements",
        "bin_env",
        "log",
        "proxy",
        "timeout",
        "user",
        "cwd",
    ]);
    kwargs.set("pkgs", name.as_str());
    let ran = s.salt_with("pip.uninstall", Vec::new(), kwargs)?;
    if ran.as_map().and_then(|m| m.int("retcode")) != Some(0) {
        return Ok(StateOutcome::bad("Could not remove package."));
    }
    Ok(StateOutcome::good("Package was successfully removed.").changes(map! {name => "Removed"}))
}

fn uptodate(s: &mut State<'_, '_>) -> Result {
    let env = s.pick(&["bin_env", "user", "cwd"]);
    let newer = match s.salt_with("pip.list_upgrades", Vec::new(), env.clone()) {
        Ok(newer) => newer,
        Err(fault @ (CallError::Command(_) | CallError::CommandNotFound(_))) => {
            return Ok(StateOutcome::bad(fault.message()));
        }
        Err(fault) => return Err(fault),
    };
    if !newer.truthy() {
        return Ok(StateOutcome::good("System is already up-to-date."));
    }
    if s.test {
        return Ok(StateOutcome::would("System update will be performed"));
    }
    let done = s.salt_with("pip.upgrade", Vec::new(), env)?;
    let done = done.into_map().unwrap_or_default();
    Ok(if done.get("result").is_some_and(Value::truthy) {
        StateOutcome::good("Upgrade successful.").changes(done)
    } else {
        let why = done.get("comment").map(python::str).unwrap_or_default();
        StateOutcome::bad(why)
    })
}

#[cfg(test)]
mod tests {
    use super::{holds, parse};

    #[test]
    fn versions() {
        assert!(holds("1.0", "==", "1.0.0") && holds("1.10", ">", "1.9"));
        assert!(holds("1.0rc1", "<", "1.0") && holds("1.4.5", "~=", "1.4.2"));
        assert!(!holds("1.5", "~=", "1.4.2") && holds("1.4", "==", "1.*"));
    }

    #[test]
    fn requirements() {
        let one = parse("Foo_bar[x]>=1,<2; python_version > '3'").map(|r| (r.key, r.specs.len()));
        assert_eq!(one, Ok(("foo-bar".to_owned(), 2)));
        assert!(parse("a = 3").is_err());
    }
}
