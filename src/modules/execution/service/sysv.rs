//! Services by their scripts in `/etc/init.d`, for Debian that systemd has not booted: containers and change roots
//! (`salt/modules/debian_service.py`).

use super::name;
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::{Call, command_helpers, program, systemd};
use halite_target::fnmatch;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;
use std::path::Path;

/// Whether services are handled here on this host.
pub fn applies(call: &Call<'_>) -> bool {
    let os = call.ctx.grains.str("os").unwrap_or_default();
    ["Debian", "Raspbian", "Devuan"].contains(&os)
        && !systemd::booted()
        && which("service").is_some()
}

/// `start`, `stop`, `restart`, `reload` and `force-reload`.
pub fn act(call: &mut Call<'_>, action: &str) -> Result {
    let ran = command_helpers::run_all(call, script(&name(call), action))?;
    Ok(ran.ok().into())
}

fn script(service: &str, action: &str) -> Vec<String> {
    ["service", service, action].map(str::to_owned).into()
}

pub fn status(call: &mut Call<'_>) -> Result {
    let name = name(call);
    if call.flag("sig") {
        let sig = call.arg("sig").clone();
        let found = call.salt("status.pid", vec![sig], Map::new())?;
        return Ok(found.truthy().into());
    }
    let runs =
        |service: &str| -> Result<bool> { Ok(program::run(script(service, "status"))?.ok()) };
    if !name.contains(['*', '?', '[']) {
        return Ok(runs(&name)?.into());
    }
    let mut found = Map::new();
    for service in all().iter().filter(|service| fnmatch(service, &name)) {
        found.set(service.as_str(), runs(service)?);
    }
    Ok(found.into())
}

pub fn enable(call: &mut Call<'_>, enable: bool) -> Result {
    let action = if enable { "enable" } else { "disable" };
    let argv = vec!["update-rc.d".to_owned(), name(call), action.to_owned()];
    Ok(command_helpers::run_all(call, argv)?.ok().into())
}

/// The scripts, and what starts at boot.
pub fn all() -> BTreeSet<String> {
    let mut all = enabled();
    all.extend(names("/etc/init.d").filter(|name| name != "README"));
    all
}

/// What starts at boot, by the links of runlevels S and 2, or of the present runlevel.
pub fn enabled() -> BTreeSet<String> {
    let level = program::run(["runlevel"]).ok().and_then(|ran| {
        let level = ran.stdout.split_whitespace().nth(1)?;
        (level.len() == 1 && level.bytes().all(|b| b.is_ascii_alphanumeric()))
            .then(|| level.to_owned())
    });
    let dirs = ["S".to_owned(), level.unwrap_or_else(|| "2".to_owned())];
    let links = dirs
        .iter()
        .flat_map(|level| names(format!("/etc/rc{level}.d")));
    links
        .filter_map(|link| {
            let service = link.strip_prefix('S')?;
            Some(
                service
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .to_owned(),
            )
        })
        .collect()
}

fn names(dir: impl AsRef<Path>) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Names as a function returns them.
pub fn listed(names: BTreeSet<String>) -> Value {
    names.into_iter().collect::<Vec<_>>().into()
}
