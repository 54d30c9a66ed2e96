//! `sysctl`: kernel parameters, now and after the next boot.

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell, which};
use crate::execution::command_helpers;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "sysctl",
    functions: &[
        Function::new(
            "assign",
            assign_call,
            "Sets a kernel parameter until the next boot.",
        )
        .args(&[req("name"), req("value")])
        .names(&["name"]),
        Function::new(
            "default_config",
            |c| Ok(default_config(c).into()),
            "The file written by sysctl.persist.",
        ),
        Function::new(
            "get",
            |c| {
                let name = python::str(c.arg("name"));
                Ok(value_of(c, &name)?.into())
            },
            "The value of a parameter.",
        )
        .args(&[req("name")])
        .names(&["name"]),
        Function::new(
            "persist",
            persist,
            "Sets a kernel parameter now and in a file for the next boot.",
        )
        .args(&[req("name"), req("value"), opt("config", Lit::Nil)])
        .one_line(&[])
        .names(&["name"]),
        Function::new("show", show, "All kernel parameters, or those in a file.")
            .args(&[opt("config_file", Lit::Bool(false))]),
    ],
};

/// The path of a program, or stock's error.
fn program(name: &str) -> Result<String> {
    which(name).ok_or_else(|| CallError::Command(format!("Command '{name}' cannot be found")))
}

fn default_config(call: &Call<'_>) -> &'static str {
    let grain = call.ctx.grains.get("systemd").and_then(Value::as_map);
    let version = grain.and_then(|m| m.get("version")).map(python::str);
    let version = version.and_then(|v| v.parse::<i64>().ok()).unwrap_or(0);
    if Path::new("/run/systemd/system").exists() && version >= 207 {
        "/etc/sysctl.d/99-salt.conf"
    } else {
        "/etc/sysctl.conf"
    }
}

fn show(call: &mut Call<'_>) -> Result {
    let file = call.arg("config_file").clone();
    let mut out = Map::new();
    if file.truthy() {
        let path = python::str(&file);
        if !Path::new(&path).exists() {
            return Ok(Value::Array(Vec::new()));
        }
        let Ok(text) = command_helpers::read_file(&path) else {
            log::error!("Could not open sysctl file");
            return Ok(Value::Nil);
        };
        let lines = text.lines().map(str::trim).filter(|l| !l.starts_with('#'));
        for (key, value) in lines.filter_map(|l| l.split_once('=')) {
            out.set(key.trim_end(), value.trim_start());
        }
        return Ok(out.into());
    }
    let text = shell::stdout(call, &[&program("sysctl")?, "-a"])?;
    for (key, value) in text.lines().filter_map(|l| l.split_once(" = ")) {
        out.set(key, value);
    }
    Ok(out.into())
}

fn value_of(call: &mut Call<'_>, name: &str) -> Result<String> {
    // The program would set it.
    if name.contains('=') {
        return Err(CallError::Invocation(
            "The name of a parameter has no '='".into(),
        ));
    }
    shell::run(call, &[&program("sysctl")?, "-n", name])
}

fn assign_call(call: &mut Call<'_>) -> Result {
    let (name, value) = (
        python::str(call.arg("name")),
        python::str(call.arg("value")),
    );
    assign(call, &name, &value).map(Into::into)
}

fn assign(call: &mut Call<'_>, name: &str, value: &str) -> Result<Map> {
    // Both separators are accepted: dots, which become slashes, and slashes.
    let path: String = name
        .chars()
        .map(|c| match c {
            '.' => '/',
            '/' => '.',
            c => c,
        })
        .collect();
    if !Path::new("/proc/sys")
        .join(path.trim_start_matches('/'))
        .exists()
    {
        return Err(CallError::Command(format!("sysctl {name} does not exist")));
    }
    let setting = format!("{name}={value}");
    let done = shell::run_all(call, &[&program("sysctl")?, "-w", &setting])?;
    let answer = done.stdout.split_once('=').filter(|(key, new)| {
        let spaced = key.ends_with(char::is_whitespace) && new.starts_with(char::is_whitespace);
        spaced && key.trim_end() == name && new.trim_start().trim_end_matches('\n') == value
    });
    if answer.is_none() || done.stderr.contains("Invalid argument") {
        let error = if done.retcode != 0 && !done.stderr.is_empty() {
            done.stderr
        } else {
            done.stdout
        };
        return Err(CallError::Command(format!("sysctl -w failed: {error}")));
    }
    let (key, new) = done.stdout.split_once(" = ").unwrap_or((name, value));
    Ok(map! {key => new})
}

/// Collapses white space to one tab.
fn normalize(value: &str) -> String {
    let mut out = String::new();
    let mut blank = false;
    for c in value.chars() {
        if c.is_whitespace() {
            blank = true;
            continue;
        }
        if std::mem::take(&mut blank) {
            out.push('\t');
        }
        out.push(c);
    }
    if blank {
        out.push('\t');
    }
    out
}

fn persist(call: &mut Call<'_>) -> Result {
    let (name, value) = (
        python::str(call.arg("name")),
        python::str(call.arg("value")),
    );
    let config = call
        .text("config")
        .unwrap_or_else(|| default_config(call).to_owned());
    let unwritable = |_| CallError::Command(format!("Could not write to file: {config}"));
    if !Path::new(&config).is_file() {
        if let Some(dir) = Path::new(&config).parent().filter(|d| !d.exists()) {
            let path = dir.to_string_lossy().into_owned();
            std::fs::create_dir_all(dir).map_err(|e| python::os_error(&e, &path))?;
        }
        std::fs::write(&config, "#\n# Kernel sysctl configuration\n#\n").map_err(unwritable)?;
    }
    let text = command_helpers::read_file(&config)
        .map_err(|_| CallError::Command(format!("Could not read from file: {config}")))?;
    let own = format!("{name} = {value}\n");
    let mut kept = String::new();
    let mut edited = false;
    for line in text.split_inclusive('\n') {
        match line.split_once('=') {
            Some((key, old)) if key.trim() == name => {
                if normalize(old.trim()) == normalize(&value) {
                    if normalize(&value_of(call, &name)?) == normalize(&value) {
                        return Ok("Already set".into());
                    }
                    assign(call, &name, &value)?;
                    return Ok("Updated".into());
                }
                kept.push_str(&own);
                edited = true;
            }
            _ => kept.push_str(line),
        }
    }
    if !edited {
        kept.push_str(&own);
    }
    command_helpers::write_file(&config, &kept).map_err(unwritable)?;
    assign(call, &name, &value)?;
    Ok("Updated".into())
}
