//! `keyboard`: the layout of the keyboard on the console and in X.

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, command_helpers, python, shell, which};
use halite_wire::{Map, Value};

pub(super) const MODULE: Module = Module {
    name: "keyboard",
    functions: &[
        Function::new("get_sys", get_sys, "The layout on the console."),
        Function::new("set_sys", set_sys, "Sets the layout on the console.")
            .args(args![layout])
            .one_line(&[])
            .names(&["layout"]),
        Function::new("get_x", get_x, "The layout in X."),
        Function::new(
            "set_x",
            |c| {
                let layout = python::str(c.arg("layout"));
                shell::run(c, &["setxkbmap", &layout])?;
                Ok(layout.into())
            },
            "Sets the layout in X.",
        )
        .args(args![layout])
        .names(&["layout"]),
    ],
};

/// The file of a system without localectl, and its key.
fn file(call: &Call<'_>) -> Option<(&'static str, &'static str)> {
    match call.ctx.grains.str("os_family") {
        Some("RedHat") => Some(("/etc/sysconfig/keyboard", "LAYOUT")),
        Some("Debian") => Some(("/etc/default/keyboard", "XKBLAYOUT")),
        Some("Gentoo") => Some(("/etc/conf.d/keymaps", "keymap")),
        _ => None,
    }
}

/// What follows the first mark of a text.
fn after(text: &str, mark: char) -> Result<String> {
    let part = text.split(mark).nth(1);
    part.map(str::to_owned)
        .ok_or_else(|| CallError::raised("IndexError", "list index out of range"))
}

fn get_sys(call: &mut Call<'_>) -> Result {
    let lines: Vec<String> = if which("localectl").is_some() {
        let text = shell::run(call, &["localectl"])?;
        let keymaps = text.lines().filter(|line| line.contains("Keymap"));
        keymaps
            .map(|line| line.replacen(": ", "=", 1).trim_start().to_owned())
            .collect()
    } else {
        let (path, key) = file(call).unwrap_or_default();
        let text = command_helpers::read_file(path).unwrap_or_default();
        let fits = |line: &&str| line.contains(key) && !line.starts_with('#');
        text.lines().filter(fits).map(str::to_owned).collect()
    };
    Ok(after(&lines.join("\n"), '=')?.replace('"', "").into())
}

fn set_sys(call: &mut Call<'_>) -> Result {
    let layout = python::str(call.arg("layout"));
    if which("localectl").is_some() {
        shell::run(call, &["localectl", "set-keymap", &layout])?;
    } else if let Some((path, key)) = file(call) {
        let args = [
            path.to_owned(),
            format!("^{key}=.*"),
            format!("{key}={layout}"),
        ];
        call.salt("file.sed", args.map(Value::from).to_vec(), Map::new())?;
    }
    Ok(layout.into())
}

fn get_x(call: &mut Call<'_>) -> Result {
    let text = shell::run(call, &["setxkbmap", "-query"])?;
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("layout"))
        .collect();
    Ok(after(&lines.join("\n"), ':')?.trim().into())
}
