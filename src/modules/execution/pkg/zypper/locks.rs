//! Locked packages: `/etc/zypp/locks`.

use super::find::searched;
use super::run::{ZypperOptions, to_args};
use crate::execution::declare::Result;
use crate::execution::pkg::lowpkg;
use crate::execution::{Call, CallError, python};
use halite_target::PyRegex;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::{Path, PathBuf};

fn file(root: &Value) -> PathBuf {
    let base = if root.truthy() {
        python::str(root)
    } else {
        "/".to_owned()
    };
    Path::new(&base).join("etc/zypp/locks")
}

/// The locks by package name.
fn locks(root: &Value) -> Map {
    let bytes = std::fs::read(file(root)).unwrap_or_default();
    read(&String::from_utf8_lossy(&bytes))
}

fn read(text: &str) -> Map {
    let mut locks = Map::new();
    for record in text.split("\n\n") {
        let mut lock = Map::new();
        for (key, value) in record.split('\n').filter_map(|l| l.split_once(':')) {
            lock.set(key.trim(), value.trim());
        }
        if lock.str("solvable_name").is_some_and(|n| !n.is_empty())
            && let Some(name) = lock.remove("solvable_name")
        {
            locks.set(python::str(&name), lock);
        }
    }
    locks
}

pub fn list_locks(call: &mut Call<'_>) -> Result {
    Ok(locks(call.arg("root")).into())
}

pub fn clean_locks(call: &mut Call<'_>) -> Result {
    let root = call.arg("root").clone();
    let mut ret = map! {"removed" => 0};
    if !file(&root).exists() {
        return Ok(ret.into());
    }
    let answer = ZypperOptions::new(&root).xml(call, &to_args(&["cl"]))?;
    let messages = answer.all("message").into_iter();
    let texts = messages.filter_map(|m| m.text.as_deref().map(str::to_lowercase));
    for text in texts.filter(|t| t.starts_with("removed")) {
        if let Some(count) = text.split(' ').nth(1) {
            ret.set("removed", count);
            break;
        }
    }
    Ok(ret.into())
}

/// What to hold or unhold, with versions.
fn targets(call: &Call<'_>) -> Result<Vec<(String, Option<String>)>> {
    let (name, pkgs) = (call.arg("name"), call.arg("pkgs"));
    if !name.truthy() && !pkgs.truthy() {
        return Err(CallError::Command(
            "Name or packages must be specified.".to_owned(),
        ));
    }
    let list = match pkgs {
        Value::Array(list) if !list.is_empty() => list.clone(),
        Value::Str(text) if !text.is_empty() => {
            text.chars().map(|c| c.to_string().into()).collect()
        }
        Value::Map(map) if !map.is_empty() => map.iter().map(|(k, _)| k.clone()).collect(),
        _ => vec![name.clone()],
    };
    let one = |target: Value| match &target {
        Value::Map(map) => map.0.first().map(|(k, v)| {
            let version = v.truthy().then(|| python::str(v));
            (python::str(k), version)
        }),
        other => Some((python::str(other), None)),
    };
    Ok(list.into_iter().filter_map(one).collect())
}

fn entry(name: &str, change: Option<(&str, &str)>, result: bool, comment: String) -> Map {
    let mut changes = Map::new();
    if let Some((new, old)) = change {
        changes = map! {"new" => new, "old" => old};
    }
    map! {"name" => name, "changes" => changes, "result" => result, "comment" => comment}
}

pub fn hold(call: &mut Call<'_>) -> Result {
    let targets = targets(call)?;
    let root = call.arg("root").clone();
    let locks = locks(&root);
    let mut ret = Map::new();
    let mut args = to_args(&["al"]);
    for (name, version) in targets {
        if locks.get(&name).is_some_and(Value::truthy) {
            let comment = format!("Package {name} is already set to be held.");
            ret.set(name.clone(), entry(&name, None, true, comment));
            continue;
        }
        let comment = format!("Package {name} is now being held.");
        ret.set(
            name.clone(),
            entry(&name, Some(("hold", "")), true, comment),
        );
        args.push(match version {
            Some(version) => format!("{name}={version}"),
            None => name,
        });
    }
    if args.len() > 1 {
        ZypperOptions::new(&root).text(call, &args)?;
    }
    Ok(ret.into())
}

pub fn unhold(call: &mut Call<'_>) -> Result {
    let targets = targets(call)?;
    let root = call.arg("root").clone();
    let locks = locks(&root);
    let mut ret = Map::new();
    let mut args = to_args(&["rl"]);
    for (name, version) in targets {
        let lock = locks.get(&name).and_then(Value::as_map);
        let Some(lock) = lock.filter(|l| !l.is_empty()) else {
            let comment = format!("Package {name} was already unheld.");
            ret.set(name.clone(), entry(&name, None, true, comment));
            continue;
        };
        let held = lock
            .str("version")
            .map(|v| v.trim_start_matches(['=', ' ']));
        if version.is_some() && version.as_deref() != held {
            let comment =
                format!("Unable to unhold package {name} as it is held with the other version.");
            ret.set(name.clone(), entry(&name, None, false, comment));
            continue;
        }
        let comment = format!("Package {name} is no longer held.");
        ret.set(
            name.clone(),
            entry(&name, Some(("", "hold")), true, comment),
        );
        args.push(match held.filter(|h| !h.is_empty()) {
            Some(held) => format!("{name}={held}"),
            None => name,
        });
    }
    if args.len() > 1 {
        ZypperOptions::new(&root).text(call, &args)?;
    }
    Ok(ret.into())
}

pub fn list_holds(call: &mut Call<'_>) -> Result {
    let (root, full) = (call.arg("root").clone(), call.flag("full"));
    let wanted = call.arg("pattern").clone();
    let mut held = Map::new();
    for (name, lock) in locks(&root).iter() {
        let name = python::str(name);
        let get = |key: &str| lock.as_map().and_then(|l| l.str(key));
        if get("type").unwrap_or("package") != "package" {
            continue;
        }
        let exact = if name.contains('*') {
            Value::Nil
        } else {
            "exact".into()
        };
        let kwargs = map! {
            "match" => exact, "case_sensitive" => get("case_sensitive").unwrap_or("on") == "on",
            "installed_only" => true, "details" => true,
        };
        let found = match searched(call, &name, &root, &kwargs) {
            Ok(found) => found,
            Err(CallError::Command(_)) => continue,
            Err(other) => return Err(other),
        };
        for package in found.iter().map(|(name, _)| python::str(name)) {
            if held.contains(&package) {
                continue;
            }
            let attr = "edition,epoch".into();
            for (name, info) in lowpkg::info(call, &[package], &root, &attr, true)?.0 {
                held.set(python::str(&name), info);
            }
        }
    }
    let wanted = if wanted.truthy() {
        let pattern = format!("{}-\\S+", python::str(&wanted));
        let error = |why: String| CallError::raised("re.error", why);
        Some(PyRegex::new(&pattern).map_err(error)?)
    } else {
        None
    };
    let mut ret: Vec<String> = Vec::new();
    for (name, infos) in held.iter() {
        let name = python::str(name);
        for info in infos.as_array().unwrap_or_default() {
            let part = |key: &str| info.as_map().and_then(|i| i.str(key));
            let epoch = part("epoch").unwrap_or("0");
            let text = if full {
                format!("{name}-{epoch}:{}.*", part("edition").unwrap_or("None"))
            } else {
                name.clone()
            };
            let fits = wanted.as_ref().is_none_or(|w| w.matches(&text) == Ok(true));
            if fits && !ret.contains(&text) {
                ret.push(text);
            }
        }
    }
    Ok(ret.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the format zypper writes.
    #[test]
    fn locks_are_read() {
        let text = "\ntype: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: hz-a\nversion: == 1-1\n\n\
                    type: package\nmatch_type: glob\ncase_sensitive: on\nsolvable_name: hz-b*\n";
        let found = read(text);
        let plain = map! {"type" => "package", "match_type" => "glob", "case_sensitive" => "on"};
        let mut exact = plain.clone();
        exact.set("version", "== 1-1");
        assert_eq!(found, map! {"hz-a" => exact, "hz-b*" => plain});
    }
}
