//! `timezone`: the host's time zone and its hardware clock.

use super::declare::{Function, Module, Result, req};
use super::{Call, CallError, python, shell, which};
use crate::execution::command_helpers;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "timezone",
    functions: &[
        Function::new(
            "get_hwclock",
            get_hwclock,
            "The setting of the hardware clock: UTC or localtime.",
        ),
        Function::new(
            "get_offset",
            |c| Ok(shell::run(c, &["date", "+%z"])?.into()),
            "The offset of the local time from UTC.",
        ),
        Function::new("get_zone", |c| Ok(zone(c)?.into()), "The time zone."),
        Function::new(
            "get_zonecode",
            |c| Ok(shell::run(c, &["date", "+%Z"])?.into()),
            "The short name of the time zone.",
        ),
        Function::new(
            "set_hwclock",
            set_hwclock,
            "Changes the setting of the hardware clock: UTC or localtime.",
        )
        .args(&[req("clock")]),
        Function::new("set_zone", set_zone, "Sets the time zone.").args(&[req("timezone")]),
        Function::new(
            "zone_compare",
            zone_compare,
            "Whether a time zone is the host's.",
        )
        .args(&[req("timezone")]),
    ],
};

const LOCALTIME: &str = "/etc/localtime";

fn family(call: &Call<'_>) -> String {
    call.ctx
        .grains
        .str("os_family")
        .unwrap_or_default()
        .to_owned()
}

fn zone_file(zone: &str) -> String {
    format!("/usr/share/zoneinfo/{zone}")
}

fn timedatectl(call: &mut Call<'_>) -> Result<String> {
    let done = shell::run_all(call, &["timedatectl"])?;
    match done.retcode {
        0 => Ok(done.stdout),
        _ => Err(CallError::Command(format!(
            "timedatectl failed: {}",
            done.stderr
        ))),
    }
}

fn unreadable(text: &str) -> CallError {
    CallError::Command(format!(
        "Failed to parse timedatectl output: {text}\nPlease file an issue with SaltStack"
    ))
}

fn reason(error: &std::io::Error) -> String {
    let number = error.raw_os_error();
    number.map_or_else(|| error.to_string(), |n| python::errno_text(n).to_owned())
}

fn zone(call: &mut Call<'_>) -> Result<String> {
    if which("timedatectl").is_some() {
        let text = timedatectl(call)?;
        let found = text.lines().find_map(|line| {
            let line = line.trim();
            let rest = line
                .strip_prefix("Time zone:")
                .or_else(|| line.strip_prefix("Timezone:"))?;
            let word = rest.split_whitespace().next()?;
            rest.starts_with(char::is_whitespace)
                .then(|| word.to_owned())
        });
        return found.ok_or_else(|| unreadable(&text));
    }
    match family(call).as_str() {
        "RedHat" | "Suse" => sysconfig_zone(),
        "Debian" | "Gentoo" => {
            let path = "/etc/timezone";
            let text = command_helpers::read_file(path).map_err(|e| {
                let why = reason(&e);
                CallError::Command(format!("Problem reading timezone file {path}: {why}"))
            })?;
            Ok(text.trim().to_owned())
        }
        "NILinuxRT" | "Slackware" => linked_zone(),
        _ => Err(CallError::Command("Unable to get timezone".into())),
    }
}

fn sysconfig_zone() -> Result<String> {
    let path = "/etc/sysconfig/clock";
    let text = command_helpers::read_file(path).map_err(|e| python::os_error(&e, path))?;
    let lines = text.lines().filter(|l| !l.trim_start().starts_with('#'));
    let mut found = lines.filter(|l| l.contains("ZONE") && l.contains('='));
    let line = found
        .next()
        .ok_or_else(|| CallError::Command(format!("Unable to get timezone from {path}")))?;
    let value = line.rsplit('=').next().unwrap_or_default();
    let value = value.trim_matches(['\'', '"']);
    Ok(if value.is_empty() { "UTC" } else { value }.to_owned())
}

fn linked_zone() -> Result<String> {
    let unknown = || CallError::Command("Unable to determine timezone".into());
    let target = match std::fs::read_link(LOCALTIME) {
        Ok(target) => target,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(CallError::Command(format!("{LOCALTIME} does not exist")));
        }
        Err(_) => return Err(unknown()),
    };
    let full = Path::new("/etc").join(target);
    let text = full.to_string_lossy();
    let name = text.split("/usr/share/zoneinfo/").nth(1);
    name.map(str::to_owned).ok_or_else(unknown)
}

fn zone_compare(call: &mut Call<'_>) -> Result {
    let wanted = call.arg("timezone").clone();
    match zone(call) {
        Ok(zone) => return Ok(wanted.is_str(&zone).into()),
        Err(CallError::Command(_)) => {}
        Err(other) => return Err(other),
    }
    let wanted = python::str(&wanted);
    let own = std::fs::read(LOCALTIME).map_err(|e| {
        let why = reason(&e);
        CallError::Command(format!(
            "Failed to read {LOCALTIME} to determine current timezone: {why}"
        ))
    })?;
    let other = std::fs::metadata(zone_file(&wanted))
        .map_err(|_| CallError::Invocation(format!("Can't find a local timezone \"{wanted}\"")))?;
    // A directory is neither a time zone nor missing.
    if !other.is_file() {
        return Ok(false.into());
    }
    let other = std::fs::read(zone_file(&wanted))
        .map_err(|_| CallError::Invocation(format!("Can't find a local timezone \"{wanted}\"")))?;
    Ok((own == other).into())
}

/// Replaces the time zone link.
fn link_zone(path: &str) -> Result<()> {
    let temp = format!("{LOCALTIME}.{}~", std::process::id());
    let placed =
        std::os::unix::fs::symlink(path, &temp).and_then(|()| std::fs::rename(&temp, LOCALTIME));
    placed.map_err(|e| {
        // It may be gone already.
        let _ = std::fs::remove_file(&temp);
        python::os_error(&e, LOCALTIME)
    })
}

fn sed(call: &mut Call<'_>, path: &str, pattern: &str, line: &str) -> Result {
    call.salt(
        "file.sed",
        vec![path.into(), pattern.into(), line.into()],
        Map::new(),
    )
}

fn set_zone(call: &mut Call<'_>) -> Result {
    let zone = python::str(call.arg("timezone"));
    if which("timedatectl").is_some() {
        match shell::run(call, &["timedatectl", "set-timezone", &zone]) {
            Ok(_) | Err(CallError::Command(_)) => {}
            Err(other) => return Err(other),
        }
    }
    let path = zone_file(&zone);
    if !Path::new(&path).exists() {
        return Ok(format!("Zone does not exist: {path}").into());
    }
    link_zone(&path)?;
    let clock = "/etc/sysconfig/clock";
    match family(call).as_str() {
        "RedHat" => {
            sed(call, clock, "^ZONE=.*", &format!("ZONE=\"{zone}\""))?;
        }
        "Suse" => {
            sed(call, clock, "^TIMEZONE=.*", &format!("TIMEZONE=\"{zone}\""))?;
        }
        "Debian" | "Gentoo" => {
            command_helpers::write_file("/etc/timezone", &format!("{}\n", zone.trim()))
                .map_err(|e| python::os_error(&e, "/etc/timezone"))?
        }
        _ => {}
    }
    Ok(true.into())
}

/// The last line of `adjtime`.
fn adjtime(call: &mut Call<'_>) -> Result {
    let path = "/etc/adjtime";
    if Path::new(path).exists() {
        return Ok(shell::run(call, &["tail", "-n", "1", path])?.into());
    }
    if Path::new("/dev/rtc").exists() {
        let text = format!("Unable to get hwclock timezone from {path}");
        Err(CallError::Command(text))
    } else {
        Ok(Value::Nil)
    }
}

fn get_hwclock(call: &mut Call<'_>) -> Result {
    if which("timedatectl").is_some() {
        let text = timedatectl(call)?;
        let line = text
            .lines()
            .find(|l| l.to_lowercase().contains("rtc in local tz"));
        let line = line.ok_or_else(|| unreadable(&text))?;
        let value = line.rsplit(':').next().unwrap_or_default().trim();
        let local = value.eq_ignore_ascii_case("yes");
        return Ok(if local { "localtime" } else { "UTC" }.into());
    }
    match family(call).as_str() {
        "RedHat" | "Suse" | "NILinuxRT" => adjtime(call),
        "Debian" => {
            let text = command_helpers::read_file("/etc/default/rcS").unwrap_or_default();
            let mut lines = text.lines().filter(|l| !l.trim_start().starts_with('#'));
            match lines.find(|l| l.contains("UTC=")) {
                Some(line) => {
                    let value = line.rsplit('=').next().unwrap_or_default();
                    let utc = value.eq_ignore_ascii_case("yes");
                    Ok(if utc { "UTC" } else { "localtime" }.into())
                }
                None => adjtime(call),
            }
        }
        "Gentoo" if !Path::new("/etc/adjtime").exists() => gentoo_clock(),
        "Slackware" if !Path::new("/etc/adjtime").exists() => {
            match command_helpers::read_file("/etc/hardwareclock") {
                Ok(text) => {
                    let utc = text.lines().any(|l| l.starts_with("UTC"));
                    Ok(if utc { "UTC" } else { "localtime" }.into())
                }
                Err(_) => Ok("UTC".into()),
            }
        }
        "Gentoo" | "Slackware" => adjtime(call),
        _ => Ok(Value::Nil),
    }
}

fn gentoo_clock() -> Result {
    let path = "/etc/conf.d/hwclock";
    let text = command_helpers::read_file(path).map_err(|e| {
        let why = reason(&e);
        CallError::Command(format!("Problem reading offset file {path}: {why}"))
    })?;
    let values = text.lines().filter(|l| l.starts_with("clock="));
    let found = values
        .map(|l| {
            l.rsplit('=')
                .next()
                .unwrap_or_default()
                .trim_matches(['\'', '"'])
        })
        .find_map(|value| match value {
            "UTC" => Some("UTC"),
            "local" => Some("LOCAL"),
            _ => None,
        });
    found
        .map(Into::into)
        .ok_or_else(|| CallError::Command(format!("Correct offset value not found in {path}")))
}

fn code(call: &mut Call<'_>, argv: &[&str]) -> Result {
    let argv: Vec<Value> = argv.iter().map(|word| (*word).into()).collect();
    let options = map! {"python_shell" => false};
    let code = call.salt("cmd.retcode", vec![argv.into()], options)?;
    Ok((code == Value::Int(0)).into())
}

fn set_hwclock(call: &mut Call<'_>) -> Result {
    let clock = python::str(call.arg("clock"));
    let local = if clock == "localtime" {
        "true"
    } else {
        "false"
    };
    if which("timedatectl").is_some() {
        return code(call, &["timedatectl", "set-local-rtc", local]);
    }
    let family = family(call);
    if family == "NILinuxRT" {
        return if clock.eq_ignore_ascii_case("utc") {
            Ok(true.into())
        } else {
            Err(CallError::Invocation(
                "UTC is the only permitted value".into(),
            ))
        };
    }
    let zone = zone(call)?;
    let path = zone_file(&zone);
    if !Path::new(&path).exists() {
        return Err(CallError::Command(format!("Zone '{path}' does not exist")));
    }
    link_zone(&path)?;
    let only = || CallError::Invocation("Only 'UTC' and 'localtime' are allowed".into());
    let known = clock == "UTC" || clock == "localtime";
    let config = "/etc/sysconfig/clock";
    match family.as_str() {
        "Arch" => return code(call, &["timezonectl", "set-local-rtc", local]),
        "RedHat" => {
            sed(call, config, "^ZONE=.*", &format!("ZONE=\"{zone}\""))?;
        }
        "Suse" => {
            sed(
                call,
                config,
                "^TIMEZONE=.*",
                &format!("TIMEZONE=\"{zone}\""),
            )?;
        }
        "Debian" if known => {
            let value = if clock == "UTC" { "UTC=yes" } else { "UTC=no" };
            sed(call, "/etc/default/rcS", "^UTC=.*", value)?;
        }
        "Gentoo" | "Slackware" if !known => return Err(only()),
        "Gentoo" => {
            let value = if clock == "UTC" { "UTC" } else { "local" };
            let line = format!("clock=\"{value}\"");
            sed(call, "/etc/conf.d/hwclock", "^clock=.*", &line)?;
        }
        "Slackware" => {
            sed(call, "/etc/hardwareclock", "^(UTC|localtime)", &clock)?;
        }
        _ => {}
    }
    Ok(true.into())
}
