//! `selinux`: modes, booleans, modules and contexts, through the programs of SELinux.

mod contexts;
mod ports;

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python, shell};
use crate::execution::command_helpers;
use halite_wire::{Map, Value, map};
use std::path::Path;

/// Words that are no options.
const NAMES: &[&str] = &[
    "name",
    "boolean",
    "value",
    "module",
    "module_path",
    "filetype",
    "sel_type",
    "sel_user",
    "sel_level",
    "sel_range",
];

pub(super) const MODULE: Module = Module {
    name: "selinux",
    functions: &[
        Function::new(
            "selinux_fs_path",
            |_| Ok(file_system().map_or(Value::Nil, Value::from)),
            "Where the file system of SELinux is mounted, or nothing.",
        ),
        Function::new(
            "getenforce",
            |_| Ok(mode().into()),
            "The mode: Enforcing, Permissive or Disabled.",
        ),
        Function::new(
            "getconfig",
            |_| Ok(configured().map_or(Value::Nil, Value::from)),
            "The mode in the configuration, or nothing.",
        ),
        Function::new(
            "setenforce",
            setenforce,
            "Sets the mode, now and in the configuration.",
        )
        .args(args![mode]),
        Function::new(
            "getsebool",
            |c| Ok(one(list_sebool(c)?, &python::str(c.arg("boolean")))),
            "What is known about a boolean.",
        )
        .args(args![boolean]),
        Function::new(
            "setsebool",
            setsebool,
            "Sets a boolean, with persist also for the next start.",
        )
        .args(args![boolean, value, persist = False])
        .names(NAMES),
        Function::new(
            "setsebools",
            setsebools,
            "Sets several booleans, with persist also for the next start.",
        )
        .args(args![pairs, persist = False]),
        Function::new(
            "list_sebool",
            |c| Ok(list_sebool(c)?.into()),
            "All booleans with state, default and description.",
        ),
        Function::new(
            "getsemod",
            |c| Ok(one(list_semod(c)?, &python::str(c.arg("module")))),
            "What is known about a module.",
        )
        .args(args![module]),
        Function::new("setsemod", setsemod, "Enables or disables a module.")
            .args(args![module, state])
            .names(NAMES),
        Function::new(
            "install_semod",
            install_semod,
            "Installs a module from a file, also from a file server.",
        )
        .args(args![module_path])
        .names(NAMES),
        Function::new(
            "remove_semod",
            |c| {
                let name = python::str(c.arg("module"));
                Ok(shell::succeeds(c, &["semodule", "--remove", &name])?.into())
            },
            "Removes a module.",
        )
        .args(args![module])
        .names(NAMES),
        Function::new(
            "list_semod",
            |c| Ok(list_semod(c)?.into()),
            "All modules and whether they are enabled.",
        ),
        Function::new(
            "filetype_id_to_string",
            contexts::file_type,
            "The name of a letter for a type of files.",
        )
        .args(args![filetype = "a"]),
        Function::new(
            "fcontext_get_policy",
            contexts::get,
            "The entry of the policy for files, or nothing.",
        )
        .args(args![
            name,
            filetype = None,
            sel_type = None,
            sel_user = None,
            sel_level = None
        ]),
        Function::new(
            "fcontext_add_policy",
            contexts::add,
            "Adds an entry to the policy for files, or changes it.",
        )
        .args(args![
            name,
            filetype = None,
            sel_type = None,
            sel_user = None,
            sel_level = None
        ])
        .names(NAMES),
        Function::new(
            "fcontext_delete_policy",
            contexts::delete,
            "Removes an entry of the policy for files.",
        )
        .args(args![
            name,
            filetype = None,
            sel_type = None,
            sel_user = None,
            sel_level = None
        ])
        .names(NAMES),
        Function::new(
            "fcontext_policy_is_applied",
            |c| Ok(contexts::pending(c)?.into()),
            "How files differ from the policy; empty if they do not.",
        )
        .args(args![name, recursive = False])
        .names(NAMES),
        Function::new(
            "fcontext_apply_policy",
            contexts::apply,
            "Gives files the contexts of the policy.",
        )
        .args(args![name, recursive = False])
        .names(NAMES),
        Function::new(
            "port_get_policy",
            ports::get,
            "The entry of the policy for a port, or nothing.",
        )
        .args(args![name, sel_type = None, protocol = None, port = None]),
        Function::new(
            "port_add_policy",
            |c| ports::change(c, "add"),
            "Adds a port to the policy.",
        )
        .args(args![
            name,
            sel_type = None,
            protocol = None,
            port = None,
            sel_range = None
        ])
        .names(NAMES),
        Function::new(
            "port_modify_policy",
            |c| ports::change(c, "modify"),
            "Changes the entry of a port in the policy.",
        )
        .args(args![
            name,
            sel_type = None,
            protocol = None,
            port = None,
            sel_range = None
        ])
        .names(NAMES),
        Function::new(
            "port_delete_policy",
            |c| ports::change(c, "delete"),
            "Removes a port from the policy.",
        )
        .args(args![name, protocol = None, port = None])
        .names(NAMES),
    ],
};

const CONFIG: &str = "/etc/selinux/config";

fn file_system() -> Option<&'static str> {
    let places = ["/sys/fs/selinux", "/selinux"];
    places
        .into_iter()
        .find(|dir| Path::new(dir).join("enforce").is_file())
}

fn mode() -> &'static str {
    let Some(dir) = file_system() else {
        return "Disabled";
    };
    match command_helpers::read_file(&format!("{dir}/enforce")) {
        Ok(text) if text.trim() == "0" => "Permissive",
        Ok(_) => "Enforcing",
        Err(_) => "Disabled",
    }
}

fn configured() -> Option<String> {
    let text = command_helpers::read_file(CONFIG).ok()?;
    let mut lines = text.lines().map(str::trim);
    let value = lines.find_map(|line| line.strip_prefix("SELINUX="))?;
    let mut letters = value.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    let word = first.unwrap_or_default() + &letters.as_str().to_lowercase();
    Some(word.trim_start().to_owned())
}

fn setenforce(call: &mut Call<'_>) -> Result {
    let mode_text = python::str(call.arg("mode"));
    let word = call.arg("mode").as_str().unwrap_or_default().to_lowercase();
    let number = match word.as_str() {
        "enforcing" => "1",
        "permissive" | "disabled" => "0",
        _ => return Err(CallError::Invocation(format!("Invalid mode {mode_text}"))),
    };
    let failed = |verb: &str, what: &str, path: &str, e: &std::io::Error| {
        let text = python::os_text(e, path);
        CallError::Command(format!("Could not {verb} SELinux {what} file: {text}"))
    };
    if let Some(dir) = file_system().filter(|_| mode() != "Disabled") {
        let path = format!("{dir}/enforce");
        std::fs::write(&path, number).map_err(|e| failed("write", "enforce", &path, &e))?;
    }
    let text =
        command_helpers::read_file(CONFIG).map_err(|e| failed("read", "config", CONFIG, &e))?;
    command_helpers::write_file(CONFIG, &with_mode(&text, &word))
        .map_err(|e| failed("write", "config", CONFIG, &e))?;
    Ok(mode().into())
}

/// The configuration with another mode. Stock replaces whole lines between others only.
fn with_mode(text: &str, mode: &str) -> String {
    let mut lines = text.split('\n').peekable();
    let mut out = Vec::new();
    // A line uses up the line ends around it, so that the one after it is left alone.
    let mut free = false;
    while let Some(line) = lines.next() {
        let replace = free && line.starts_with("SELINUX=") && lines.peek().is_some();
        free = !replace;
        out.push(match replace {
            true => format!("SELINUX={mode}"),
            false => line.to_owned(),
        });
    }
    out.join("\n")
}

fn one(mut all: Map, name: &str) -> Value {
    all.remove(name).unwrap_or_else(|| Map::new().into())
}

fn setsebool(call: &mut Call<'_>) -> Result {
    let (name, value) = (
        python::str(call.arg("boolean")),
        python::str(call.arg("value")),
    );
    let mut argv = vec!["setsebool"];
    if call.flag("persist") {
        argv.push("-P");
    }
    argv.extend([name.as_str(), value.as_str()]);
    Ok(shell::succeeds(call, &argv)?.into())
}

fn setsebools(call: &mut Call<'_>) -> Result {
    let mut argv = vec!["setsebool".to_owned()];
    if call.flag("persist") {
        argv.push("-P".to_owned());
    }
    for (name, value) in call
        .arg("pairs")
        .as_map()
        .cloned()
        .unwrap_or_default()
        .iter()
    {
        let name = python::str(name);
        if name.starts_with('-') {
            return Err(CallError::Invocation(format!("{name} is not a boolean")));
        }
        argv.push(format!("{name}={}", python::str(value)));
    }
    Ok(shell::succeeds(call, &argv)?.into())
}

fn short() -> CallError {
    CallError::raised("IndexError", "list index out of range")
}

fn list_sebool(call: &mut Call<'_>) -> Result<Map> {
    let text = shell::run(call, &["semanage", "boolean", "--list"])?;
    let mut all = Map::new();
    for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[name, state, _, default, ..] = words.as_slice() else {
            return Err(short());
        };
        // `name (on , off) Description`.
        let mut state = state.chars();
        state.next();
        let mut default = default.chars();
        default.next_back();
        let text = words.get(4..).unwrap_or_default().join(" ");
        all.set(
            name,
            map! {"State" => state.as_str(), "Default" => default.as_str(), "Description" => text},
        );
    }
    Ok(all)
}

fn list_semod(call: &mut Call<'_>) -> Result<Map> {
    let text = shell::run(call, &["semodule", "--list-modules=full"])?;
    let mut all = Map::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.get(1).ok_or_else(short)?;
        // A fourth word says that it is disabled.
        all.set(
            *name,
            map! {"Enabled" => words.len() != 4, "Version" => Value::Nil},
        );
    }
    Ok(all)
}

fn setsemod(call: &mut Call<'_>) -> Result {
    let (name, state) = (
        python::str(call.arg("module")),
        python::str(call.arg("state")),
    );
    let option = match state.to_lowercase().as_str() {
        "enabled" => "--enable",
        "disabled" => "--disable",
        _ => return Err(CallError::Invocation(format!("Invalid state {state}"))),
    };
    Ok(shell::succeeds(call, &["semodule", option, &name])?.into())
}

fn install_semod(call: &mut Call<'_>) -> Result {
    let mut path = python::str(call.arg("module_path"));
    if path.starts_with("salt://") {
        path = python::str(&call.salt("cp.cache_file", vec![path.into()], Map::new())?);
    }
    Ok(shell::succeeds(call, &["semodule", "--install", &path])?.into())
}

/// The groups of a pattern in a text; patterns may have a part from an argument.
fn groups(pattern: &str, text: &str) -> Result<Option<Vec<String>>> {
    let pattern = regex::Regex::new(pattern).map_err(|e| CallError::Invocation(e.to_string()))?;
    let found = pattern.captures(text).map(|found| {
        let all = found
            .iter()
            .map(|g| g.map_or_else(String::new, |g| g.as_str().to_owned()));
        all.collect()
    });
    Ok(found)
}

/// The lines that a pattern fits, as grep prints them.
fn grep(pattern: &str, text: &str) -> Result<String> {
    let pattern = regex::Regex::new(pattern).map_err(|e| CallError::Invocation(e.to_string()))?;
    let lines: Vec<&str> = text.lines().filter(|line| pattern.is_match(line)).collect();
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::with_mode;

    #[test]
    fn the_mode_in_the_configuration() {
        let text = "# SELINUX=x\nSELINUX=enforcing\nSELINUXTYPE=targeted\n";
        let changed = "# SELINUX=x\nSELINUX=disabled\nSELINUXTYPE=targeted\n";
        assert_eq!(with_mode(text, "disabled"), changed);
        assert_eq!(with_mode("SELINUX=a\n", "b"), "SELINUX=a\n");
    }
}
