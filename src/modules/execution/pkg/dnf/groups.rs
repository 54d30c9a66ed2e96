//! Package groups.

use super::{options, program, stdout, to_args};
use crate::execution::declare::Result;
use crate::execution::pkg::common::empty;
use crate::execution::pkg::rpm::installed;
use crate::execution::{Call, CallError, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;

/// How packages belong to a group.
const KINDS: [&str; 4] = ["mandatory", "optional", "default", "conditional"];
/// Maximum nesting of groups.
const MAX_DEPTH: usize = 32;

pub fn group_list(call: &mut Call<'_>) -> Result {
    if program()? == "dnf5" {
        let text = stdout(call, to_args(&["group", "list", "--hidden"]))?;
        return Ok(listed_by_dnf5(&text).into());
    }
    let text = stdout(call, to_args(&["grouplist", "hidden"]))?;
    Ok(parse_group_list(&text).into())
}

/// The empty result.
fn none() -> Map {
    let none = || Value::Array(Vec::new());
    map! {
        "installed" => none(), "available" => none(), "installed environments" => none(),
        "available environments" => none(), "available languages" => Map::new(),
    }
}

fn push(map: &mut Map, key: &str, text: &str) {
    if let Some(Value::Array(list)) = map.get_mut(key) {
        list.push(text.into());
    }
}

fn listed_by_dnf5(text: &str) -> Map {
    let mut ret = none();
    for line in text.lines() {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let (Some(id), Some(last)) = (parts.first(), parts.get(2..).and_then(<[_]>::last)) else {
            continue;
        };
        match last.to_lowercase().as_str() {
            "yes" => push(&mut ret, "installed", id),
            "no" => push(&mut ret, "available", id),
            _ => {}
        }
    }
    ret
}

fn parse_group_list(text: &str) -> Map {
    const SECTIONS: [(&str, &str); 5] = [
        ("installed groups:", "installed"),
        ("available groups:", "available"),
        ("installed environment groups:", "installed environments"),
        ("available environment groups:", "available environments"),
        ("available language groups:", "available languages"),
    ];
    let mut ret = none();
    let mut key = "";
    for line in text.split('\n').filter(|_| !text.is_empty()) {
        let lower = line.to_lowercase();
        if lower == "done" {
            break;
        }
        match SECTIONS.iter().find(|(head, _)| *head == lower) {
            Some((_, section)) if *section != key => {
                key = section;
                continue;
            }
            _ if key.is_empty() => continue,
            _ => {}
        }
        let line = line.trim();
        if key != "available languages" {
            push(&mut ret, key, line);
            continue;
        }
        let language = line
            .rsplit_once(']')
            .and_then(|(head, _)| head.rsplit_once(" ["));
        if let (Some((name, language)), Some(Value::Map(all))) = (language, ret.get_mut(key)) {
            all.set(line, map! {"name" => name, "language" => language});
        }
    }
    ret
}

pub fn group_info(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let mut kwargs = call.bound.kwargs.clone();
    kwargs.0.retain(|(k, _)| {
        ["fromrepo", "enablerepo", "disablerepo"]
            .iter()
            .any(|n| k.is_str(n))
    });
    let mut done = call.arg("ignore_groups").str_list();
    let expand = call.flag("expand");
    Ok(info(
        call,
        &name,
        expand,
        &mut done,
        options(&kwargs, false),
        MAX_DEPTH,
    )?
    .value())
}

/// A group with its packages.
struct Group {
    kind: Option<&'static str>,
    name: Option<String>,
    id: Option<String>,
    description: String,
    /// As [`KINDS`].
    members: [BTreeSet<String>; 4],
}

impl Group {
    fn value(self) -> Value {
        let mut map = Map::new();
        for (kind, members) in KINDS.iter().zip(self.members) {
            map.set(*kind, members.into_iter().collect::<Vec<_>>());
        }
        if let Some(kind) = self.kind {
            map.set("type", kind);
        }
        map.set("group", self.name);
        map.set("id", self.id);
        map.set("description", self.description);
        map.into()
    }

    /// Parses lines of `key: value`.
    fn read(text: &str) -> Group {
        let mut fields = Map::new();
        for line in text.split('\n') {
            let parts: Vec<&str> = line.split(':').map(str::trim).collect();
            if let [key, value] = parts.as_slice() {
                fields.set(key.to_lowercase(), *value);
            }
        }
        let first = |keys: [&str; 3]| {
            let texts: Vec<Option<&str>> = keys.iter().map(|k| fields.str(k)).collect();
            let found = texts.iter().flatten().find(|t| !t.is_empty()).copied();
            found.or(texts[2]).map(str::to_owned)
        };
        let kind = if fields.contains("environment group") {
            Some("environment group")
        } else if fields.contains("group") || fields.contains("name") {
            Some("package group")
        } else {
            None
        };
        Group {
            kind,
            name: first(["environment group", "group", "name"]),
            id: first(["environment-id", "group-id", "id"]),
            description: fields.str("description").unwrap_or_default().to_owned(),
            members: Default::default(),
        }
    }
}

fn info(
    call: &mut Call<'_>,
    name: &str,
    expand: bool,
    done: &mut Vec<String>,
    options: Vec<String>,
    depth: usize,
) -> Result<Group> {
    let mut argv = to_args(&["--quiet"]);
    argv.extend(options);
    match program()? {
        "dnf5" => argv.extend(to_args(&["group", "info", name])),
        _ => argv.extend(to_args(&["groupinfo", name])),
    }
    let text = stdout(call, argv)?;
    let mut group = Group::read(&text);
    let is_empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
    if is_empty(&group.name) && is_empty(&group.id) {
        return Err(CallError::Command(format!("Group '{name}' not found")));
    }
    let expand = expand && group.kind == Some("environment group");
    for (at, kind) in KINDS.iter().enumerate() {
        for member in members(&text, kind) {
            if !expand {
                if !member.is_empty() {
                    group.members[at].insert(member);
                }
                continue;
            }
            if member.is_empty() || done.contains(&member) {
                continue;
            }
            done.push(member.clone());
            if depth == 0 {
                return Err(CallError::raised(
                    "RecursionError",
                    "maximum recursion depth exceeded",
                ));
            }
            let inner = info(
                call,
                &format!("@{member}"),
                true,
                done,
                Vec::new(),
                depth - 1,
            );
            let inner = match inner {
                Err(CallError::Command(_)) => {
                    info(call, &member, true, done, Vec::new(), depth - 1)?
                }
                other => other?,
            };
            for (own, theirs) in group.members.iter_mut().zip(inner.members) {
                own.extend(theirs);
            }
        }
    }
    Ok(group)
}

/// The lines below a heading, without the marks before names. dnf5 prints the first name beside the heading.
fn members(text: &str, wanted: &str) -> Vec<String> {
    let mut found = false;
    let mut all = Vec::new();
    for line in text.split('\n') {
        let line = line.trim();
        let line = line
            .trim_start_matches(|c: char| c.is_ascii_punctuation())
            .trim();
        match head(line) {
            None if found => all.push(line.to_owned()),
            None => {}
            Some(_) if found => break,
            Some((kind, first)) if kind == wanted => {
                found = true;
                all.extend(first);
            }
            Some(_) => {}
        }
    }
    all
}

/// The type a heading stands for, and the name beside it.
fn head(line: &str) -> Option<(&'static str, Option<String>)> {
    let lower = line.to_lowercase();
    let kind = KINDS.iter().find(|k| lower.starts_with(*k))?;
    let rest = lower[kind.len()..].strip_prefix(' ')?;
    let rest = rest
        .strip_prefix("groups")
        .or(rest.strip_prefix("packages"))?;
    rest.trim_start().strip_prefix(':')?;
    let (_, first) = line.split_once(':')?;
    let first = first.trim();
    Some((kind, (!first.is_empty()).then(|| first.to_owned())))
}

pub fn group_diff(call: &mut Call<'_>) -> Result {
    let pkgs = installed(call)?;
    let mut kwargs = call.bound.kwargs.clone();
    let mut done = kwargs
        .get("ignore_groups")
        .map(Value::str_list)
        .unwrap_or_default();
    kwargs.0.retain(|(k, _)| {
        ["fromrepo", "enablerepo", "disablerepo"]
            .iter()
            .any(|n| k.is_str(n))
    });
    let name = python::str(call.arg("name"));
    let group = info(
        call,
        &name,
        true,
        &mut done,
        options(&kwargs, false),
        MAX_DEPTH,
    )?;
    let mut ret = Map::new();
    for (kind, members) in KINDS.iter().zip(group.members) {
        let (there, missing): (Vec<String>, Vec<String>) =
            members.into_iter().partition(|m| pkgs.contains_key(m));
        ret.set(
            *kind,
            map! {"installed" => there, "not installed" => missing},
        );
    }
    Ok(ret.into())
}

/// A list, or comma-separated text.
fn list(value: &Value, wrong: &str) -> Result<Vec<String>> {
    match value {
        Value::Str(text) => Ok(text.split(',').map(str::to_owned).collect()),
        Value::Array(list) => Ok(list.iter().map(python::str).collect()),
        _ => Err(CallError::Invocation(wrong.to_owned())),
    }
}

pub fn group_install(call: &mut Call<'_>) -> Result {
    let name = call.arg("name");
    if !name.truthy() && !name.is_str("") {
        return Err(CallError::Invocation("no groups specified".to_owned()));
    }
    let groups = list(name, "'groups' must be a list")?;
    let skip = list(call.arg("skip"), "'skip' must be a list")?;
    let include = list(call.arg("include"), "'include' must be a list")?;
    let mut targets = Vec::new();
    for group in groups {
        let [mandatory, _, default, _] =
            info(call, &group, false, &mut Vec::new(), Vec::new(), MAX_DEPTH)?.members;
        targets.extend(mandatory);
        targets.extend(default.into_iter().filter(|p| !skip.contains(p)));
    }
    targets.extend(include);
    let there = installed(call)?;
    let mut pkgs: Vec<String> = Vec::new();
    for target in targets {
        if !there.contains_key(&target) && !pkgs.contains(&target) {
            pkgs.push(target);
        }
    }
    if pkgs.is_empty() {
        return empty();
    }
    let mut kwargs = call.bound.kwargs.clone();
    if kwargs.contains("pkgs") {
        let text = "salt.loaded.int.module.yumpkg.install() got multiple values for keyword argument 'pkgs'";
        return Err(CallError::Type(text.to_owned()));
    }
    kwargs.set("pkgs", pkgs);
    call.salt("pkg.install", Vec::new(), kwargs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_groups() {
        let text = "Available Environment Groups:\n   Halite Host\nInstalled Groups:\n   Halite Core\n\
                    Available Language Groups:\n   German Support [de]";
        let found = parse_group_list(text);
        assert_eq!(
            found.get("available environments").unwrap().str_list(),
            ["Halite Host"]
        );
        assert_eq!(found.get("installed").unwrap().str_list(), ["Halite Core"]);
        let languages = found
            .get("available languages")
            .and_then(Value::as_map)
            .unwrap();
        let german = languages
            .get("German Support [de]")
            .and_then(Value::as_map)
            .unwrap();
        assert_eq!(
            (german.str("name"), german.str("language")),
            (Some("German Support"), Some("de"))
        );
        let text = "ID    Name     Installed\ncore  The Core     yes\nmore  More it       no\n";
        let found = listed_by_dnf5(text);
        assert_eq!(found.get("installed").unwrap().str_list(), ["core"]);
        assert_eq!(found.get("available").unwrap().str_list(), ["more"]);
    }

    #[test]
    fn members_of_groups() {
        let dnf = "Group: Core\n Description: It.\n Mandatory Packages:\n   +a\n   b\n Optional Packages:\n   c";
        assert_eq!(members(dnf, "mandatory"), ["a", "b"]);
        assert_eq!(members(dnf, "optional"), ["c"]);
        assert!(members(dnf, "default").is_empty());
        let dnf5 = "Id                   : core\nName                 : Core\nMandatory packages   : a\n                     : b\nOptional packages    : c\n";
        assert_eq!(members(dnf5, "mandatory"), ["a", "b"]);
        assert_eq!(members(dnf5, "optional"), ["c", ""]);
        let group = Group::read(dnf5);
        assert_eq!(
            (group.id.as_deref(), group.name.as_deref()),
            (Some("core"), Some("Core"))
        );
    }
}
