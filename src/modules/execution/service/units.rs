//! Listing services and their states.

use super::{Systemctl, name, root, under_root, warn_if_changed};
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_target::fnmatch;
use halite_wire::{Map, Value};
use nix::unistd::{AccessFlags, access};
use std::collections::BTreeSet;

/// Unit types treated as services.
pub const KINDS: [&str; 9] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
];

const DIRS: [&str; 3] = [
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/etc/systemd/system",
];
const LIST: &[&str] = &["--full", "--no-legend", "--no-pager", "list-unit-files"];

/// A unit file's service name: without `.service`; `None` for other file types.
fn service(unit: &str) -> Option<&str> {
    let (name, kind) = unit.rsplit_once('.')?;
    match kind {
        "service" => Some(name),
        kind if KINDS.contains(&kind) => Some(unit),
        _ => None,
    }
}

fn names(dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

fn systemd_services(root: Option<&str>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for dir in DIRS.map(|d| under_root(d, root)) {
        let link = std::fs::symlink_metadata(&dir).is_ok_and(|m| m.is_symlink());
        if !link {
            all.extend(
                names(&dir)
                    .iter()
                    .filter_map(|n| service(n))
                    .map(str::to_owned),
            );
        }
    }
    all
}

/// Services that only have an init script.
pub fn sysv(root: Option<&str>) -> Vec<String> {
    let dir = under_root("/etc/init.d", root);
    let known = systemd_services(root);
    let mut list = names(&dir);
    list.retain(|n| {
        access(format!("{dir}/{n}").as_str(), AccessFlags::X_OK).is_ok() && !known.contains(n)
    });
    list
}

/// All services, sorted.
pub fn all_services(root: Option<&str>) -> Vec<String> {
    let mut all = systemd_services(root);
    all.extend(sysv(root));
    all.into_iter().collect()
}

/// The current run level, for init script links.
fn runlevel(call: &mut Call<'_>) -> Result<String> {
    if let Some(program) = which("runlevel") {
        let text = command_helpers::run_tolerant(call, [program])?;
        if let Some(level) = text.split_whitespace().nth(1) {
            return Ok(level.to_owned());
        }
    }
    Ok("2".to_owned())
}

fn sysv_enabled(call: &mut Call<'_>, name: &str, root: Option<&str>) -> Result<bool> {
    let level = runlevel(call)?;
    let dir = under_root(&format!("/etc/rc{level}.d"), root);
    Ok(names(&dir).iter().any(|link| {
        let rest = link.strip_prefix('S').unwrap_or_default();
        link.ends_with(name)
            && (0..=2).any(|digits| {
                rest.is_char_boundary(digits)
                    && rest.len() >= digits
                    && rest[..digits].bytes().all(|b| b.is_ascii_digit())
                    && rest[digits..].starts_with(name)
            })
    }))
}

/// Services whose unit file is in a state; init scripts are enabled or disabled.
pub fn with_state(call: &mut Call<'_>, state: &str) -> Result {
    let root = root(call);
    let ctl = Systemctl {
        action: LIST,
        root: root.as_deref(),
        ..Systemctl::default()
    };
    let text = ctl.run_merged(call, true)?.stdout;
    let mut all: BTreeSet<String> = in_state(&text, state).into_iter().collect();
    if state != "static" {
        for name in sysv(root.as_deref()) {
            if sysv_enabled(call, &name, root.as_deref())? == (state == "enabled") {
                all.insert(name);
            }
        }
    }
    let all: Vec<String> = all.into_iter().collect();
    Ok(all.into())
}

fn in_state(text: &str, state: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (unit, own) = (words.next()?, words.next()?);
        (own == state).then(|| service(unit).map(str::to_owned))?
    });
    lines.collect()
}

pub fn running(call: &mut Call<'_>) -> Result {
    let ctl = Systemctl {
        action: &LIST[..3],
        ..Systemctl::default()
    };
    let text = ctl.run_merged(call, true)?.stdout;
    Ok(are_running(&text).into())
}

/// A line with fewer than four words counts like the previous one, as in stock.
fn are_running(text: &str) -> Vec<String> {
    let mut all = BTreeSet::new();
    let mut state = "";
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        state = words.get(3).copied().unwrap_or(state);
        if let Some(name) = words
            .first()
            .and_then(|w| service(w))
            .filter(|_| state == "running")
        {
            all.insert(name.to_owned());
        }
    }
    all.into_iter().collect()
}

fn is_glob(name: &str) -> bool {
    let bracket = name.find('[').and_then(|at| name[at + 1..].rfind(']'));
    name.contains(['*', '?']) || bracket.is_some_and(|length| length > 0)
}

pub fn status(call: &mut Call<'_>) -> Result {
    let name = name(call);
    let glob = is_glob(&name);
    let services = if glob {
        all_services(None)
            .into_iter()
            .filter(|s| fnmatch(s, &name))
            .collect()
    } else {
        vec![name.clone()]
    };
    let mut results = Map::new();
    for service in services {
        warn_if_changed(call, &service)?;
        let ctl = Systemctl {
            action: &["is-active"],
            name: Some(&service),
            ..Systemctl::default()
        };
        let runs = ctl.run_merged(call, true)?.ok();
        results.set(service, runs);
    }
    if glob {
        Ok(results.into())
    } else {
        Ok(results.get(&name).cloned().unwrap_or_default())
    }
}

/// Whether a service starts at boot, possibly under an alias.
pub fn enabled(call: &mut Call<'_>) -> Result<bool> {
    let (name, root) = (name(call), root(call));
    let root = root.as_deref();
    let ask = |unit| Systemctl {
        action: &["is-enabled"],
        name: Some(unit),
        root,
        ..Systemctl::default()
    };
    let ran = ask(&name).run(call)?;
    call.retcode = 0.into();
    if ran.stdout == "alias" {
        let show = Systemctl {
            action: &["show"],
            name: Some(&name),
            root,
            more: &["-P", "Id"],
            ..Systemctl::default()
        };
        let real = show.run(call)?.stdout;
        return Ok(ask(&real).run_merged(call, true)?.ok());
    }
    if ran.ok() {
        return Ok(true);
    }
    if name.contains('@') {
        let find = [
            "find",
            "/etc/systemd/system",
            "-name",
            &name,
            "-type",
            "l",
            "-print",
            "-quit",
        ];
        return Ok(!command_helpers::run(call, find)?.is_empty());
    }
    Ok(sysv(root).contains(&name) && sysv_enabled(call, &name, root)?)
}

/// The properties of a unit.
pub fn show(call: &mut Call<'_>, name: &str) -> Result<Map> {
    let root = root(call);
    let ctl = Systemctl {
        action: &["show"],
        name: Some(name),
        root: root.as_deref(),
        ..Systemctl::default()
    };
    properties(&ctl.run_merged(call, false)?.stdout)
}

fn properties(text: &str) -> Result<Map> {
    let mut map = Map::new();
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if value.starts_with('{') {
            let mut inner = Map::new();
            for item in value.replace(['{', '}'], "").split(" ; ") {
                let mut parts = item.split('=');
                let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
                    return Err(CallError::raised("IndexError", "list index out of range"));
                };
                inner.set(key.trim(), value.trim());
            }
            map.set(key, inner);
        } else if ["Before", "After", "Wants"].contains(&key) {
            let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
            map.set(key, words);
        } else {
            map.set(key, value);
        }
    }
    Ok(map)
}

pub fn execs(call: &mut Call<'_>) -> Result {
    let mut ret = Map::new();
    for service in all_services(root(call).as_deref()) {
        let data = show(call, &service)?;
        match data.get("ExecStart") {
            None => continue,
            Some(Value::Map(start)) => {
                let path = start.get("path").cloned();
                let path = path.ok_or_else(|| CallError::raised("KeyError", "'path'"))?;
                ret.set(service, path);
            }
            Some(other) => {
                let text = format!(
                    "string indices must be integers, not '{}'",
                    python::type_name(other)
                );
                return Err(CallError::Type(text));
            }
        }
    }
    Ok(Value::from(ret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn lists_are_read() {
        let text = "a.service enabled enabled\nb.timer enabled -\nc.service disabled x\nd.slice enabled -\nodd\n";
        assert_eq!(in_state(text, "enabled"), ["a", "b.timer"]);
        let text = "a.service loaded active running A\nb.service loaded active exited B\nc.mount loaded active running\n";
        assert_eq!(are_running(text), ["a", "c.mount"]);
        assert!(is_glob("a*") && is_glob("[a]") && !is_glob("[]") && !is_glob("a"));
    }

    #[test]
    fn properties_are_read() {
        let text = "Id=a.service\nAfter=b c\nExecStart={ path=/bin/x ; argv[]=/bin/x -a=1 ; pid=0 }\nEnv=A=b";
        let map = properties(text).unwrap();
        assert_eq!(map.str("Env"), Some("A=b"));
        let start = map! {"path" => "/bin/x", "argv[]" => "/bin/x -a", "pid" => "0"};
        assert_eq!(map.get("ExecStart"), Some(&start.into()));
        assert_eq!(
            map.get("After").map(Value::str_list),
            Some(vec!["b".into(), "c".into()])
        );
    }
}
