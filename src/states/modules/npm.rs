//! `npm`: packages of Node.js. Stock 3008 has no such states any more; these are those of 3007 (`salt/states/npm.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "npm",
    functions: &[
        StateFunction::new(
            "installed",
            installed,
            "Ensures that packages are installed.",
        )
        .args(args![
            pkgs = None,
            dir = None,
            user = None,
            force_reinstall = False,
            registry = None,
            env = None
        ]),
        StateFunction::new(
            "removed",
            removed,
            "Ensures that a package is not installed.",
        )
        .args(args![dir = None, user = None]),
        StateFunction::new(
            "bootstrap",
            bootstrap,
            "Installs what package.json of a directory names.",
        )
        .args(args![user = None, silent = True]),
        StateFunction::new(
            "cache_cleaned",
            cache_cleaned,
            "Ensures that a package is not in the cache.",
        )
        .args(args![user = None, force = False]),
    ],
};

/// The text of an error that npm, or its absence, is the reason for; other errors go on.
fn reason(fault: CallError) -> Result<String> {
    match fault {
        CallError::Command(text) | CallError::CommandNotFound(text) => Ok(text),
        other => Err(other),
    }
}

/// `@scope/name@version` as name and version.
fn split(package: &str) -> (&str, Option<&str>) {
    let scope = usize::from(package.starts_with('@'));
    let end = package[scope..].find(|c: char| c == '@' || c.is_whitespace());
    let end = end.map_or(package.len(), |end| scope + end);
    let version = package[end..].strip_prefix('@');
    let version = version.and_then(|v| v.split_whitespace().next());
    (&package[..end], version)
}

/// Whether an installed package came from an address.
fn came_from(details: &Value, address: &str) -> bool {
    let from = details.as_map().and_then(|d| d.str("from"));
    let Some((_, from)) = from.and_then(|from| from.split_once("://")) else {
        return false;
    };
    let Some((_, wanted)) = address.split_once("://") else {
        return false;
    };
    let whole = !from.ends_with(".git") && address.starts_with("git://");
    wanted
        == if whole {
            format!("{from}.git")
        } else {
            from.to_owned()
        }
}

/// The installed package that a name or an address stands for.
fn find<'a>(all: &'a Map, name: &str) -> Option<&'a Map> {
    let details = |d: &'a Value| d.as_map().filter(|d| d.contains("version"));
    let named = all.get(name).and_then(details);
    let from = || all.iter().map(|(_, d)| d).find(|d| came_from(d, name));
    named.or_else(|| from().and_then(details))
}

fn installed(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let wanted: Vec<String> = match s.arg("pkgs") {
        Value::Array(list) if !list.is_empty() => list.iter().map(python::str).collect(),
        _ => vec![name.clone()],
    };
    let mut kwargs = s.pick(&["dir", "env"]);
    kwargs.set("runas", s.arg("user").clone());
    let mut listing = kwargs.clone();
    listing.set("depth", 0);
    let all = match s.salt_with("npm.list", Vec::new(), listing) {
        Ok(all) => all.into_map().unwrap_or_default(),
        Err(fault) => {
            let text = format!("Error looking up '{name}': {}", reason(fault)?);
            return Ok(StateOutcome::bad(text));
        }
    };
    let again = s.arg("force_reinstall") == &Value::Bool(true);
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for package in &wanted {
        let (name, version) = split(package);
        let own = find(&all, name).map(|d| d.get("version").map(python::str).unwrap_or_default());
        match own.filter(|_| !again) {
            Some(own) if version.is_none_or(|v| v == own) => there.push(format!("{name}@{own}")),
            _ => missing.push(package.clone()),
        }
    }
    let satisfied = format!(
        "Package(s) '{}' satisfied by {}",
        wanted.join(", "),
        there.join(", ")
    );
    let changes = old_new(Vec::<Value>::new(), missing.clone());
    if s.test {
        let set = format!(
            "NPM package(s) '{}' are set to be installed",
            missing.join(", ")
        );
        return Ok(match (missing.is_empty(), there.is_empty()) {
            (false, true) => StateOutcome::would(set).changes(changes),
            // Stock calls this a success.
            (false, false) => StateOutcome::good(format!("{set}. {satisfied}")).changes(changes),
            (true, _) => StateOutcome::good(satisfied),
        });
    }
    if missing.is_empty() {
        return Ok(StateOutcome::good(satisfied));
    }
    kwargs.set("registry", s.arg("registry").clone());
    kwargs.set("pkgs", wanted.clone());
    Ok(match s.salt_with("npm.install", Vec::new(), kwargs) {
        Ok(_) => {
            let text = format!("Package(s) '{}' successfully installed", missing.join(", "));
            StateOutcome::good(text).changes(changes)
        }
        Err(fault) => StateOutcome::bad(format!(
            "Error installing '{}': {}",
            wanted.join(", "),
            reason(fault)?
        )),
    })
}

fn removed(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let mut kwargs = s.pick(&["dir"]);
    kwargs.set("depth", 0);
    let all = match s.salt_with("npm.list", Vec::new(), kwargs) {
        Ok(all) => all.into_map().unwrap_or_default(),
        Err(fault) => {
            let text = format!("Error uninstalling '{name}': {}", reason(fault)?);
            return Ok(StateOutcome::bad(text));
        }
    };
    if !all.contains(&name) {
        return Ok(StateOutcome::good(format!(
            "Package '{name}' is not installed"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Package '{name}' is set to be removed"
        )));
    }
    let mut kwargs = s.pick(&["dir"]);
    kwargs.set("pkg", name.as_str());
    kwargs.set("runas", s.arg("user").clone());
    Ok(
        if s.salt_with("npm.uninstall", Vec::new(), kwargs)?.truthy() {
            let text = format!("Package '{name}' was successfully removed");
            StateOutcome::good(text).changes(map! {name => "Removed"})
        } else {
            StateOutcome::bad(format!("Error removing package '{name}'"))
        },
    )
}

fn bootstrap(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let mut kwargs = s.pick(&["silent"]);
    kwargs.set("dir", name.as_str());
    kwargs.set("runas", s.arg("user").clone());
    if s.test {
        kwargs.set("dry_run", true);
    }
    let out = match s.salt_with("npm.install", Vec::new(), kwargs) {
        Ok(out) => out,
        Err(fault) => {
            let text = format!("Error Bootstrapping '{name}': {}", reason(fault)?);
            return Ok(StateOutcome::bad(text));
        }
    };
    if s.test {
        return Ok(if out.truthy() {
            let changes = old_new(Vec::<Value>::new(), out);
            StateOutcome::would(format!("{name} is set to be bootstrapped")).changes(changes)
        } else {
            StateOutcome::good(format!("{name} is already bootstrapped"))
        });
    }
    Ok(match out {
        out if !out.truthy() => StateOutcome::good("Directory is already bootstrapped"),
        // npm said something else than JSON. Stock makes it the changes, which then are no map.
        Value::Str(text) => {
            StateOutcome::bad("Could not bootstrap directory").changes(map! {name => text})
        }
        _ => StateOutcome::good("Directory was successfully bootstrapped")
            .changes(map! {name => "Bootstrapped"}),
    })
}

fn cache_cleaned(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let what = if name.is_empty() { "packages" } else { &name };
    let path = || {
        if name.is_empty() {
            Value::Nil
        } else {
            name.as_str().into()
        }
    };
    let who = map! {"runas" => s.arg("user").clone()};
    let cached = match s.salt_with("npm.cache_list", vec![path()], who.clone()) {
        Ok(cached) => python::str(&cached),
        Err(fault) => {
            let text = format!("Error looking up cached {what}: {}", reason(fault)?);
            return Ok(StateOutcome::bad(text));
        }
    };
    if !name.is_empty() {
        let all = s.salt_with("npm.cache_list", Vec::new(), who.clone())?;
        // As stock: the first character of what npm says, not its first line.
        let Some(root) = python::str(&all).chars().next() else {
            return Err(CallError::raised("IndexError", "string index out of range"));
        };
        if !cached.contains(&format!("{root}/{name}/")) {
            return Ok(StateOutcome::good(format!(
                "Package {name} is not in the cache"
            )));
        }
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Cached {what} set to be removed"
        )));
    }
    let mut kwargs = who;
    // Stock forgets this, and newer versions of npm then refuse.
    kwargs.set("force", s.arg("force").clone());
    Ok(
        if s.salt_with("npm.cache_clean", vec![path()], kwargs)?
            .truthy()
        {
            let key = if name.is_empty() { "cache" } else { &name };
            StateOutcome::good(format!("Cached {what} successfully removed"))
                .changes(map! {key => "Removed"})
        } else {
            StateOutcome::bad(format!("Error cleaning cached {what}"))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn names() {
        assert_eq!(split("a"), ("a", None));
        assert_eq!(split("a@1.0"), ("a", Some("1.0")));
        assert_eq!(split("@b/a@^1.0"), ("@b/a", Some("^1.0")));
        assert_eq!(split("@b"), ("@b", None));
    }
}
