//! The hostname, and network card buffers.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell, which};
use crate::execution::command_helpers;
use halite_target::PyRegex;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

const ETHTOOL: &str = "/sbin/ethtool";

pub(super) fn hostname() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |n| n.to_string_lossy().into_owned())
}

pub(super) fn get_bufsize(call: &mut Call<'_>) -> Result {
    if !Path::new(ETHTOOL).exists() {
        return Ok(Map::new().into());
    }
    let iface = python::str(call.arg("iface"));
    let text = shell::run(call, &[ETHTOOL, "-g", &iface])?;
    let regex = PyRegex::new(r"^(.+):\s+(\d+)$").map_err(|e| CallError::raised("re.error", e))?;
    let mut out = map! {"result" => false};
    let mut suffix = "max-";
    for line in text.lines() {
        if let Some(found) = regex.captures(line, 0) {
            let part = |at: usize| {
                let span = found.get(at).copied().flatten();
                span.and_then(|(from, to)| line.get(from..to))
                    .unwrap_or_default()
            };
            let key = part(1).to_lowercase().replace(' ', "-");
            out.set(
                format!("{key}{suffix}"),
                part(2).parse::<i64>().unwrap_or(0),
            );
            out.set("result", true);
        } else if line.ends_with("maximums:") {
            suffix = "-max";
        } else if line.ends_with("settings:") {
            suffix = "";
        }
    }
    if out.get("result") == Some(&Value::Bool(false)) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let from_shell = words.first().is_some_and(|w| w.ends_with("sh:"));
        let comment = if from_shell {
            words[1..].join(" ")
        } else {
            text
        };
        out.set("comment", comment);
    }
    Ok(out.into())
}

pub(super) fn mod_bufsize(call: &mut Call<'_>) -> Result {
    if !Path::new(ETHTOOL).exists() {
        return Ok(false.into());
    }
    const HINT: &str = "Requires rx=<val> tx==<val> rx-mini=<val> and/or rx-jumbo=<val>";
    let answer =
        |result: bool, comment: &str| Ok(map! {"result" => result, "comment" => comment}.into());
    if call.bound.kwargs.is_empty() {
        return answer(false, HINT);
    }
    if !call.bound.varargs.is_empty() {
        let given: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
        return answer(false, &format!("Unknown arguments: {}", given.join(" ")));
    }
    let mut words = Vec::new();
    for key in ["rx", "tx", "rx-mini", "rx-jumbo"] {
        if let Some(value) = call.bound.kwargs.get(key).filter(|v| !v.is_nil()) {
            words.extend([key.to_owned(), python::str(value)]);
        }
    }
    if words.is_empty() {
        return answer(false, HINT);
    }
    let iface = python::str(call.arg("iface"));
    let mut argv = vec![ETHTOOL, "-G", iface.as_str()];
    argv.extend(words.iter().map(String::as_str));
    let text = shell::run(call, &argv)?;
    if text.is_empty() {
        answer(true, &words.join(" "))
    } else {
        answer(false, &text)
    }
}

/// Sets the hostname now, for the next boot, and in `/etc/hosts`.
pub(super) fn mod_hostname(call: &mut Call<'_>) -> Result {
    let Some(new) = call.text("hostname") else {
        return Ok(false.into());
    };
    let Some(program) = which("hostnamectl").or_else(|| which("hostname")) else {
        return Err(CallError::raised(
            "AttributeError",
            "'NoneType' object has no attribute 'endswith'",
        ));
    };
    let old = if program.ends_with("hostnamectl") {
        let done = shell::run_all(call, &[&program, "status"])?;
        let line = done.stdout.lines().find(|l| l.contains("Static hostname"));
        let named = line
            .and_then(|l| l.split(':').nth(1))
            .map(|n| n.trim().to_owned());
        let old = named.filter(|_| done.retcode == 0).unwrap_or_else(hostname);
        let set = shell::run_all(call, &[&program, "set-hostname", &new])?;
        if set.retcode != 0 {
            return Ok(false.into());
        }
        old
    } else {
        let old = super::probe::full_name(call, &hostname());
        shell::run(call, &[&program, &new])?;
        old
    };
    let edit = |path: &str, line: &dyn Fn(&str) -> String| {
        let text = command_helpers::read_file(path).map_err(|e| python::os_error(&e, path))?;
        let new: String = text.lines().map(line).collect();
        command_helpers::write_file(path, &new).map_err(|e| python::os_error(&e, path))
    };
    edit("/etc/hosts", &|line| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let Some(at) = words.iter().position(|w| *w == old) {
            words[at] = &new;
        }
        format!("{}\n", words.join("\t"))
    })?;
    match call.ctx.grains.str("os_family") {
        Some("RedHat") => edit("/etc/sysconfig/network", &|line| {
            let Some(value) = line
                .strip_prefix("HOSTNAME")
                .and_then(|l| l.split_once('='))
            else {
                return format!("{line}\n");
            };
            let value = value.1.trim_end();
            let quote = value
                .chars()
                .next()
                .filter(|c| matches!(c, '"' | '\'') && value.len() > 1 && value.ends_with(*c));
            let quote = quote.map(String::from).unwrap_or_default();
            format!("HOSTNAME={quote}{}{quote}\n", new.trim_matches(['"', '\'']))
        })?,
        Some("Debian") => command_helpers::write_file("/etc/hostname", &format!("{new}\n"))
            .map_err(|e| python::os_error(&e, "/etc/hostname"))?,
        _ => {}
    }
    Ok(true.into())
}
