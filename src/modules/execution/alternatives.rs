//! `alternatives`: which program a generic name points to (`update-alternatives(1)`).

use super::declare::{Function, Module, Result, req};
use super::program::CommandOutput;
use super::{Call, command_helpers, python};
use halite_wire::Value;

pub(super) const MODULE: Module = Module {
    name: "alternatives",
    functions: &[
        Function::new(
            "display",
            display,
            "The alternatives of a name, as the program shows them.",
        )
        .args(&[req("name")]),
        Function::new("show_link", show_link, "The link of a name, or false.").args(&[req("name")]),
        Function::new(
            "show_current",
            |c| Ok(current(c).map_or(false.into(), Value::from)),
            "The current alternative of a name, or false.",
        )
        .args(&[req("name")]),
        Function::new(
            "check_exists",
            check_exists,
            "Whether a path is one of a name's alternatives.",
        )
        .args(&[req("name"), req("path")]),
        Function::new(
            "check_installed",
            check_installed,
            "Whether a path is the current alternative of a name.",
        )
        .args(&[req("name"), req("path")]),
        Function::new(
            "install",
            install,
            "Adds a path to the alternatives of a name.",
        )
        .args(&[req("name"), req("link"), req("path"), req("priority")]),
        Function::new(
            "remove",
            |c| change(c, "--remove", true),
            "Removes a path from the alternatives of a name.",
        )
        .args(&[req("name"), req("path")]),
        Function::new(
            "auto",
            |c| change(c, "--auto", false),
            "Selects the alternative of a name by priority.",
        )
        .args(&[req("name")]),
        Function::new(
            "set",
            |c| change(c, "--set", true),
            "Selects a path as the alternative of a name.",
        )
        .inner("set_")
        .args(&[req("name"), req("path")]),
    ],
};

fn family<'a>(call: &'a Call<'_>) -> &'a str {
    call.ctx.grains.str("os_family").unwrap_or_default()
}

fn program(call: &Call<'_>) -> &'static str {
    match family(call) {
        "RedHat" => "alternatives",
        _ => "update-alternatives",
    }
}

fn name(call: &Call<'_>) -> String {
    python::str(call.arg("name"))
}

fn query(call: &mut Call<'_>, option: &str) -> Result<CommandOutput> {
    let argv = [program(call), option, &name(call)].map(str::to_owned);
    command_helpers::run_all_tolerant(call, argv)
}

fn refused(ran: &CommandOutput) -> bool {
    ran.retcode > 0 && !ran.stderr.is_empty()
}

fn display(call: &mut Call<'_>) -> Result {
    let ran = query(call, "--display")?;
    Ok(if refused(&ran) {
        ran.stderr
    } else {
        ran.stdout
    }
    .into())
}

fn show_link(call: &mut Call<'_>) -> Result {
    match family(call) {
        "RedHat" => return Ok(from_file(&name(call), "/var/lib/alternatives")),
        "Suse" => return Ok(from_file(&name(call), "/var/lib/rpm/alternatives")),
        _ => {}
    }
    let ran = query(call, "--query")?;
    if refused(&ran) {
        return Ok(false.into());
    }
    let block = ran.stdout.split("\n\n").next().unwrap_or_default();
    let link = block.lines().find_map(|l| l.strip_prefix("Link:"));
    Ok(link.map_or(false.into(), |l| l.trim().into()))
}

/// The second line of the program's state file for a name.
fn from_file(name: &str, dir: &str) -> Value {
    if name.contains('/') {
        return false.into();
    }
    let text = std::fs::read_to_string(format!("{dir}/{name}")).unwrap_or_default();
    text.lines().nth(1).map_or(false.into(), Value::from)
}

fn current(call: &Call<'_>) -> Option<String> {
    let link = std::fs::read_link(format!("/etc/alternatives/{}", name(call))).ok()?;
    Some(link.to_string_lossy().into_owned())
}

fn check_exists(call: &mut Call<'_>) -> Result {
    let ran = query(call, "--display")?;
    let path = python::str(call.arg("path"));
    Ok((!refused(&ran) && ran.stdout.lines().any(|l| l.starts_with(&path))).into())
}

fn check_installed(call: &mut Call<'_>) -> Result {
    Ok((current(call) == Some(python::str(call.arg("path")))).into())
}

fn install(call: &mut Call<'_>) -> Result {
    let mut argv = command_helpers::Argv::new(program(call));
    argv.add(["--install"])
        .value(call.arg("link"))
        .value(call.arg("name"))
        .value(call.arg("path"))
        .value(call.arg("priority"));
    let ran = command_helpers::run_all(call, argv)?;
    Ok(if refused(&ran) {
        ran.stderr
    } else {
        ran.stdout
    }
    .into())
}

fn change(call: &mut Call<'_>, option: &str, path: bool) -> Result {
    let mut argv = command_helpers::Argv::new(program(call));
    argv.add([option]).value(call.arg("name"));
    if path {
        argv.value(call.arg("path"));
    }
    let ran = command_helpers::run_all(call, argv)?;
    Ok(if ran.retcode > 0 {
        ran.stderr
    } else {
        ran.stdout
    }
    .into())
}
