//! `hosts`: the hosts file (`hosts(5)`).

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, command_helpers, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "hosts",
    functions: &[
        Function::new(
            "list_hosts",
            |c| Ok(read_hosts(c)?.into()),
            "Addresses with their names and comments; comment lines have keys of their own.",
        ),
        Function::new(
            "get_ip",
            get_ip,
            "The first address of a name; empty text if there is none.",
        )
        .args(&[req("host")]),
        Function::new("get_alias", get_alias, "The names of an address.").args(&[req("ip")]),
        Function::new(
            "has_pair",
            has_pair,
            "Whether an address has a name, or all names of a list.",
        )
        .args(&[req("ip"), req("alias")]),
        Function::new(
            "set_host",
            set_host,
            "Sets the names of an address, replacing others.",
        )
        .args(&[req("ip"), req("alias"), opt("comment", Lit::Nil)])
        .one_line(&[]),
        Function::new("rm_host", rm_host, "Removes a name from an address.")
            .args(&[req("ip"), req("alias")]),
        Function::new("add_host", add_host, "Adds a name to an address.")
            .args(&[req("ip"), req("alias")])
            .one_line(&[]),
        Function::new(
            "set_comment",
            set_comment,
            "Sets the comment of an existing address.",
        )
        .args(&[req("ip"), req("comment")])
        .one_line(&[]),
    ],
};

fn file(call: &mut Call<'_>) -> Result<String> {
    let found = call.salt("config.option", vec!["hosts.file".into()], Map::new())?;
    match found {
        Value::Str(path) if !path.is_empty() => Ok(path),
        _ => Ok("/etc/hosts".to_owned()),
    }
}

/// The path of the hosts file, which is created if missing.
fn create_file(call: &mut Call<'_>) -> Result<String> {
    let path = file(call)?;
    if !Path::new(&path).exists() {
        std::fs::write(&path, b"").map_err(|e| python::os_error(&e, &path))?;
    }
    Ok(path)
}

fn read_hosts(call: &mut Call<'_>) -> Result<Map> {
    let path = file(call)?;
    match std::fs::read(&path) {
        Ok(bytes) => Ok(parse(&String::from_utf8_lossy(&bytes))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Map::new()),
        Err(e) => Err(python::os_error(&e, &path)),
    }
}

fn parse(text: &str) -> Map {
    let mut map = Map::new();
    let mut count = 0;
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if line.starts_with('#') {
            map.set(format!("comment-{count}"), vec![Value::from(line)]);
            count += 1;
            continue;
        }
        let (line, comment) = match line.split_once('#') {
            Some((line, comment)) => (line, comment.trim_start()),
            None => (line, ""),
        };
        let mut words = line.split_whitespace();
        let Some(ip) = words.next() else { continue };
        let names: Vec<Value> = words.map(Value::from).collect();
        if !map.contains(ip) {
            map.set(ip, map! {"aliases" => Value::Array(Vec::new())});
        }
        let Some(Value::Map(entry)) = map.get_mut(ip) else {
            continue;
        };
        if let Some(Value::Array(list)) = entry.get_mut("aliases") {
            list.extend(names);
        }
        if !comment.is_empty() {
            entry.set("comment", comment);
        }
    }
    map
}

/// The file's text; inverse of [`parse`].
fn render(hosts: &Map) -> String {
    let mut out = String::new();
    for (ip, entry) in hosts.iter() {
        let line = match (entry, ip.as_str().unwrap_or_default()) {
            (Value::Array(lines), _) => lines.iter().map(python::str).collect(),
            (Value::Map(entry), ip) => {
                let line = format!("{ip}\t\t{}", names(entry).join(" "));
                match entry.get("comment") {
                    Some(comment) => format!("{line}\t\t# {}", python::str(comment)),
                    None => line,
                }
            }
            _ => continue,
        };
        if !line.trim().is_empty() {
            out.push_str(line.trim());
            out.push('\n');
        }
    }
    out
}

fn names(entry: &Map) -> Vec<String> {
    let list = entry.get("aliases").and_then(Value::as_array);
    list.unwrap_or_default().iter().map(python::str).collect()
}

fn names_of(hosts: &Map, ip: &Value) -> Vec<String> {
    let entry = ip.as_str().and_then(|ip| hosts.get(ip));
    entry.and_then(Value::as_map).map(names).unwrap_or_default()
}

fn get_ip(call: &mut Call<'_>) -> Result {
    let host = python::str(call.arg("host"));
    let hosts = read_hosts(call)?;
    let found = hosts
        .iter()
        .find(|(ip, _)| names_of(&hosts, ip).contains(&host));
    Ok(found.map_or_else(|| "".into(), |(ip, _)| ip.clone()))
}

fn get_alias(call: &mut Call<'_>) -> Result {
    let hosts = read_hosts(call)?;
    Ok(names_of(&hosts, call.arg("ip")).into())
}

fn has_pair(call: &mut Call<'_>) -> Result {
    let hosts = read_hosts(call)?;
    Ok(has(&hosts, call).into())
}

fn has(hosts: &Map, call: &Call<'_>) -> bool {
    let names = names_of(hosts, call.arg("ip"));
    match call.arg("alias") {
        Value::Array(list) => {
            let known = call.arg("ip").as_str().is_some_and(|ip| hosts.contains(ip));
            known && list.iter().all(|n| names.contains(&python::str(n)))
        }
        alias => names.contains(&python::str(alias)),
    }
}

/// Whether a line is an entry of an address.
fn is_entry(line: &str, ip: &str) -> bool {
    let line = line.trim();
    !line.starts_with('#') && line.split_whitespace().next() == Some(ip)
}

fn write(path: &str, content: &str) -> Result<()> {
    command_helpers::rewrite(Path::new(path), content.as_bytes())
        .map_err(|e| python::os_error(&e, path))
}

fn set_host(call: &mut Call<'_>) -> Result {
    let path = create_file(call)?;
    if !Path::new(&path).is_file() {
        return Ok(false.into());
    }
    let (ip, alias) = (python::str(call.arg("ip")), python::str(call.arg("alias")));
    let comment = call.text("comment").filter(|c| !c.is_empty());
    let comment = comment.map_or(String::new(), |c| format!("\t\t# {c}"));
    let mut fresh = format!("{ip}\t\t{alias}{comment}\n");
    if alias.trim().is_empty() {
        fresh.clear();
    }
    let old = command_helpers::read(&path)?;
    write(&path, &replaced(&old, &ip, &fresh))?;
    Ok(true.into())
}

/// Replaces the first entry of an address by `fresh` and removes its others; without one, `fresh` is appended.
fn replaced(text: &str, ip: &str, fresh: &str) -> String {
    let mut out = String::new();
    let mut done = false;
    for line in text.split_inclusive('\n') {
        if !is_entry(line, ip) {
            out.push_str(line);
        } else if !done {
            out.push_str(fresh);
            done = true;
        }
    }
    if !done {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(fresh);
    }
    out
}

fn rm_host(call: &mut Call<'_>) -> Result {
    if !has(&read_hosts(call)?, call) {
        return Ok(true.into());
    }
    let path = create_file(call)?;
    let (ip, alias) = (python::str(call.arg("ip")), python::str(call.arg("alias")));
    let old = command_helpers::read(&path)?;
    let lines = old.split_inclusive('\n');
    let new: String = lines
        .map(|line| {
            if is_entry(line, &ip) {
                without(line.trim(), &ip, &alias)
            } else {
                line.to_owned()
            }
        })
        .collect();
    write(&path, &new)?;
    Ok(true.into())
}

/// An entry without one of its names; empty if it was the only one.
fn without(line: &str, ip: &str, alias: &str) -> String {
    let (hosts, comment) = line.split_once('#').unwrap_or((line, ""));
    let names = hosts.split_whitespace().skip(1).filter(|n| *n != alias);
    let names: String = names.flat_map(|n| [n, " "]).collect();
    if names.is_empty() {
        return String::new();
    }
    match comment.trim_start() {
        "" => format!("{ip}\t\t{names}\n"),
        comment => format!("{ip}\t\t{names}# {comment}\n"),
    }
}

fn add_host(call: &mut Call<'_>) -> Result {
    let path = create_file(call)?;
    if !Path::new(&path).is_file() {
        return Ok(false.into());
    }
    let mut hosts = read_hosts(call)?;
    if has(&hosts, call) {
        return Ok(true.into());
    }
    let (ip, alias) = (python::str(call.arg("ip")), call.arg("alias").clone());
    if !hosts.contains(&ip) {
        hosts.set(ip.clone(), map! {"aliases" => Value::Array(Vec::new())});
    }
    if let Some(Value::Map(entry)) = hosts.get_mut(&ip)
        && let Some(Value::Array(list)) = entry.get_mut("aliases")
    {
        list.push(alias);
    }
    write(&path, &render(&hosts))?;
    Ok(true.into())
}

fn set_comment(call: &mut Call<'_>) -> Result {
    let path = create_file(call)?;
    if !Path::new(&path).is_file() {
        return Ok(false.into());
    }
    let mut hosts = read_hosts(call)?;
    let comment = call.arg("comment").clone();
    let Some(Value::Map(entry)) = hosts.get_mut(&python::str(call.arg("ip"))) else {
        return Ok(false.into());
    };
    if entry.get("comment") != Some(&comment) {
        entry.set("comment", comment);
        write(&path, &render(&hosts))?;
    }
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# head\n127.0.0.1 localhost lh # own\n\n10.0.0.1\ta\n10.0.0.1 b";

    #[test]
    fn entries_of_an_address_are_one() {
        let map = parse(TEXT);
        assert_eq!(names_of(&map, &"10.0.0.1".into()), ["a", "b"]);
        assert_eq!(
            render(&map),
            "# head\n127.0.0.1\t\tlocalhost lh\t\t# own\n10.0.0.1\t\ta b\n"
        );
    }

    #[test]
    fn lines_are_replaced_and_shortened() {
        assert_eq!(
            replaced(TEXT, "10.0.0.1", "10.0.0.1\t\tx\n"),
            "# head\n127.0.0.1 localhost lh # own\n\n10.0.0.1\t\tx\n"
        );
        assert!(replaced(TEXT, "::1", "::1\t\tx\n").ends_with("10.0.0.1 b\n::1\t\tx\n"));
        assert_eq!(
            without("1.1.1.1 a b # c", "1.1.1.1", "a"),
            "1.1.1.1\t\tb # c\n"
        );
        assert_eq!(without("1.1.1.1 a", "1.1.1.1", "a"), "");
    }
}
