//! `system`: power, clock, hostname and description.

mod clock;

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell, which};
use crate::execution::command_helpers;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

const OFFSET: Arg = opt("utc_offset", Lit::Nil);
const WITNESS: &str = "/var/volatile/tmp/salt/reboot_witnessed";
const MACHINE_INFO: &str = "/etc/machine-info";

pub(super) const MODULE: Module = Module {
    name: "system",
    functions: &[
        Function::new(
            "get_computer_desc",
            get_computer_desc,
            "The host's pretty name.",
        ),
        Function::new(
            "get_computer_name",
            |c| c.salt("network.get_hostname", Vec::new(), Map::new()),
            "The host's name.",
        ),
        Function::new(
            "get_reboot_required_witnessed",
            |_| Ok(Path::new(WITNESS).exists().into()),
            "Whether a required reboot is recorded.",
        ),
        Function::new(
            "get_system_date",
            |c| clock::get(c, "%a %m/%d/%Y"),
            "The date.",
        )
        .args(&[OFFSET]),
        Function::new(
            "get_system_date_time",
            |c| clock::get(c, "%Y-%m-%d %H:%M:%S"),
            "Date and time.",
        )
        .args(&[OFFSET]),
        Function::new(
            "get_system_time",
            |c| clock::get(c, "%I:%M:%S %p"),
            "The time.",
        )
        .args(&[OFFSET]),
        Function::new(
            "halt",
            |c| Ok(shell::run(c, &["halt"])?.into()),
            "Halts the host.",
        ),
        Function::new(
            "has_settable_hwclock",
            |c| Ok(clock::settable(c)?.into()),
            "Whether the hardware clock can be set.",
        ),
        Function::new("init", init, "Changes the runlevel.").args(&[req("runlevel")]),
        Function::new(
            "poweroff",
            |c| Ok(shell::run(c, &["poweroff"])?.into()),
            "Powers the host off.",
        ),
        Function::new(
            "reboot",
            |c| down(c, "-r"),
            "Reboots the host, now or at a time.",
        )
        .args(&[opt("at_time", Lit::Nil)]),
        Function::new(
            "set_computer_desc",
            set_computer_desc,
            "Sets the host's pretty name.",
        )
        .args(&[req("desc")]),
        Function::new("set_computer_name", set_computer_name, "Sets the hostname.")
            .args(&[req("hostname")]),
        Function::new(
            "set_reboot_required_witnessed",
            set_witness,
            "Records that a reboot is required.",
        ),
        Function::new("set_system_date", clock::set_date, "Sets the date.")
            .args(&[req("newdate"), OFFSET]),
        Function::new(
            "set_system_date_time",
            clock::set_date_time,
            "Sets the given parts of date and time.",
        )
        .args(&[
            opt("years", Lit::Nil),
            opt("months", Lit::Nil),
            opt("days", Lit::Nil),
            opt("hours", Lit::Nil),
            opt("minutes", Lit::Nil),
            opt("seconds", Lit::Nil),
            OFFSET,
        ]),
        Function::new("set_system_time", clock::set_time, "Sets the time.")
            .args(&[req("newtime"), OFFSET]),
        Function::new(
            "shutdown",
            |c| down(c, "-h"),
            "Shuts the host down, now or at a time.",
        )
        .args(&[opt("at_time", Lit::Nil)]),
    ],
};

fn init(call: &mut Call<'_>) -> Result {
    let level = python::str(call.arg("runlevel"));
    Ok(shell::run(call, &["init", &level])?.into())
}

fn down(call: &mut Call<'_>, how: &str) -> Result {
    let time = match call.arg("at_time") {
        time if time.truthy() => python::str(time),
        _ => "now".to_owned(),
    };
    Ok(shell::run(call, &["shutdown", how, &time])?.into())
}

/// The value of `PRETTY_HOSTNAME=`.
fn pretty(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("PRETTY_HOSTNAME=")
}

fn get_computer_desc(call: &mut Call<'_>) -> Result {
    let text = if let Some(program) = which("hostnamectl") {
        shell::run(call, &[&program, "status", "--pretty"])?
    } else {
        let text = command_helpers::read_file(MACHINE_INFO).unwrap_or_default();
        let Some(value) = text.lines().filter_map(pretty).next_back() else {
            return Ok(false.into());
        };
        let value = value.trim();
        let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'));
        match quote {
            Some(q) if value.len() > 1 && value.ends_with(q) => {
                value[1..value.len() - 1].to_owned()
            }
            _ => value.to_owned(),
        }
    };
    let text = text.replace("\\\\", "\\").replace("\\\"", "\"");
    Ok(text.replace("\\n", "\n").replace("\\t", "\t").into())
}

fn set_computer_desc(call: &mut Call<'_>) -> Result {
    let desc = python::str(call.arg("desc")).replace('"', "\\\"");
    let desc = desc.replace('\n', "\\n").replace('\t', "\\t");
    if let Some(program) = which("hostnamectl") {
        let argv: Vec<Value> = [&program, "set-hostname", "--pretty", &desc]
            .into_iter()
            .map(Into::into)
            .collect();
        let options = map! {"python_shell" => false};
        let code = call.salt("cmd.retcode", vec![argv.into()], options)?;
        return Ok((code == Value::Int(0)).into());
    }
    let text = command_helpers::read_file(MACHINE_INFO).unwrap_or_default();
    let own = format!("PRETTY_HOSTNAME=\"{desc}\"");
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    match lines.iter().position(|l| pretty(l).is_some()) {
        Some(at) => lines[at] = &own,
        None => lines.push(&own),
    }
    Ok(command_helpers::write_file(MACHINE_INFO, &lines.concat())
        .is_ok()
        .into())
}

fn set_computer_name(call: &mut Call<'_>) -> Result {
    let name = call.arg("hostname").clone();
    call.salt("network.mod_hostname", vec![name], Map::new())
}

/// As in stock, true only if the directory is new.
fn set_witness(call: &mut Call<'_>) -> Result {
    let dir = "/var/volatile/tmp/salt";
    if Path::new(dir).exists() {
        return Ok(false.into());
    }
    std::fs::create_dir_all(dir).map_err(|e| {
        let number = e.raw_os_error().unwrap_or(0);
        let why = python::errno_text(number);
        CallError::Invocation(format!("Error creating {dir} (-{number}): {why}"))
    })?;
    Ok((shell::run_all(call, &["touch", WITNESS])?.retcode == 0).into())
}
