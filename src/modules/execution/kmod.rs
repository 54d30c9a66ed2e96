//! `kmod`: kernel modules.

use super::bind::is_option;
use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell, which};
use crate::execution::command_helpers;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "kmod",
    functions: &[
        Function::new(
            "available",
            |_| Ok(available().into()),
            "The available and built-in modules.",
        ),
        Function::new(
            "check_available",
            |c| Ok(available().contains(&python::str(c.arg("mod"))).into()),
            "Whether a module is available or built in.",
        )
        .args(&[req("mod")]),
        Function::new(
            "is_loaded",
            |c| {
                let wanted = python::str(c.arg("mod"));
                Ok(loaded(c)?.contains(&wanted).into())
            },
            "Whether a module is loaded.",
        )
        .args(&[req("mod")]),
        Function::new(
            "load",
            load,
            "Loads a module, with persist also at boot; returns the new modules.",
        )
        .args(&[req("mod"), opt("persist", Lit::Bool(false))])
        .names(&["mod"]),
        Function::new(
            "lsmod",
            |c| {
                Ok(Value::Array(
                    lsmod(c)?.into_iter().map(Value::Map).collect(),
                ))
            },
            "The loaded modules with size and users.",
        ),
        Function::new(
            "mod_list",
            mod_list,
            "The names of the loaded modules, or of those loaded at boot.",
        )
        .args(&[opt("only_persist", Lit::Bool(false))]),
        Function::new(
            "remove",
            remove,
            "Unloads a module, with persist also at boot; returns the removed modules.",
        )
        .args(&[
            req("mod"),
            opt("persist", Lit::Bool(false)),
            opt("comment", Lit::Bool(true)),
        ])
        .names(&["mod"]),
    ],
};

fn program(name: &str) -> Result<String> {
    which(name).ok_or_else(|| CallError::Command(format!("Command '{name}' cannot be found")))
}

/// Sorted names of the modules available to the running kernel.
fn available() -> Vec<String> {
    let release = nix::sys::utsname::uname().map(|u| u.release().to_string_lossy().into_owned());
    let dir = Path::new("/lib/modules").join(release.unwrap_or_default());
    let mut names = Vec::new();
    let built_in = std::fs::read_to_string(dir.join("modules.builtin")).unwrap_or_default();
    for line in built_in.lines() {
        let base = line.rsplit('/').next().unwrap_or_default();
        names.push(base.strip_suffix(".ko").unwrap_or(base).to_owned());
    }
    files(&dir, &mut names);
    names.sort();
    names
}

fn files(dir: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), names),
            _ => {
                let name = entry.file_name().to_string_lossy().into_owned();
                if let Some((name, _)) = name.split_once(".ko") {
                    names.push(name.replace('-', "_"));
                }
            }
        }
    }
}

fn lsmod(call: &mut Call<'_>) -> Result<Vec<Map>> {
    let text = shell::run(call, &[&program("lsmod")?])?;
    let mut out = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[name, size, count, ..] = words.as_slice() else {
            continue;
        };
        if name == "Module" {
            continue;
        }
        let users = words
            .get(3)
            .map(|w| w.split(',').map(Value::from).collect());
        let users: Vec<Value> = users.unwrap_or_default();
        out.push(map! {"size" => size, "module" => name, "depcount" => count, "deps" => users});
    }
    Ok(out)
}

fn loaded(call: &mut Call<'_>) -> Result<BTreeSet<String>> {
    let all = lsmod(call)?;
    Ok(all
        .iter()
        .filter_map(|m| m.str("module").map(str::to_owned))
        .collect())
}

/// The file of modules loaded at boot.
fn config(call: &Call<'_>) -> &'static str {
    if call.ctx.grains.contains("systemd") {
        "/etc/modules-load.d/salt_managed.conf"
    } else {
        "/etc/modules"
    }
}

fn persistent(call: &Call<'_>) -> BTreeSet<String> {
    let text = command_helpers::read_file(config(call)).unwrap_or_default();
    text.lines()
        .map(str::trim)
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.split_whitespace().next().map(str::to_owned))
        .collect()
}

fn list(names: impl IntoIterator<Item = String>) -> Value {
    Value::Array(names.into_iter().map(Value::Str).collect())
}

fn mod_list(call: &mut Call<'_>) -> Result {
    if call.flag("only_persist") {
        Ok(list(persistent(call)))
    } else {
        Ok(list(loaded(call)?))
    }
}

/// `re.escape` of a module name.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() && c != '_' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn load(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("mod"));
    if name.split_whitespace().any(is_option) {
        return Err(CallError::Invocation(
            "The argument 'mod' may not be an option".into(),
        ));
    }
    let before = loaded(call)?;
    let mut argv = vec![program("modprobe")?];
    argv.extend(name.split_whitespace().map(str::to_owned));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let done = shell::run_all(call, &argv)?;
    if done.retcode != 0 {
        return Ok(format!("Error loading module {name}: {}", done.stderr).into());
    }
    let after = loaded(call)?;
    let mut new: BTreeSet<String> = after.difference(&before).cloned().collect();
    if call.flag("persist") {
        new.extend(persist(call, &name)?);
    }
    Ok(list(new))
}

/// Adds a module to those loaded at boot.
fn persist(call: &mut Call<'_>, line: &str) -> Result<Option<String>> {
    let path = config(call);
    if !Path::new(path).exists() {
        call.salt("file.touch", vec![path.into()], Map::new())?;
    }
    let Some(name) = line.split_whitespace().next().map(str::to_owned) else {
        return Ok(None);
    };
    if persistent(call).contains(&name) || !available().contains(&name) {
        return Ok(None);
    }
    let pattern = format!("^#[\t ]*{}[\t ]*$", escaped(line));
    let many = map! {"multiline" => true};
    let found = call.salt("file.search", vec![path.into(), pattern.into()], many)?;
    if found.truthy() {
        let args = vec![path.into(), escaped(line).into()];
        call.salt("file.uncomment", args, Map::new())?;
    } else {
        call.salt("file.append", vec![path.into(), line.into()], Map::new())?;
    }
    Ok(Some(name))
}

fn remove(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("mod"));
    let before = loaded(call)?;
    let mut argv = vec![program("rmmod")?];
    argv.extend(name.split_whitespace().map(str::to_owned));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let done = shell::run_all(call, &argv)?;
    if done.retcode != 0 {
        return Ok(format!("Error removing module {name}: {}", done.stderr).into());
    }
    let after = loaded(call)?;
    let mut gone: BTreeSet<String> = before.difference(&after).cloned().collect();
    if call.flag("persist") {
        gone.extend(drop_line(call, &name)?);
    }
    Ok(list(gone))
}

/// Removes a module from those loaded at boot.
fn drop_line(call: &mut Call<'_>, line: &str) -> Result<Option<String>> {
    let path = config(call);
    let Some(name) = line.split_whitespace().next().map(str::to_owned) else {
        return Ok(None);
    };
    if !persistent(call).contains(&name) {
        return Ok(None);
    }
    let pattern = format!("^[\t ]*{}[\t ]?", escaped(line));
    if call.flag("comment") {
        call.salt(
            "file.comment",
            vec![path.into(), pattern.into()],
            Map::new(),
        )?;
    } else {
        let args = vec![path.into(), pattern.into(), "".into()];
        call.salt("file.sed", args, Map::new())?;
    }
    Ok(Some(name))
}
